// Pipeline: a running plan. Frames in, frames out, in order.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/function/function.h"
#include "penstock/pipeline/frame.h"
#include "penstock/pipeline/observation.h"
#include "penstock/pipeline/stats.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/tensor.h"

namespace penstock::pipeline {

struct Generations;  // The plan that runs, and those before it that still do; private.

/// Frames of each worker that a trace holds; later ones take the place of the earliest.
inline constexpr std::size_t kSpansKept = 100'000;

/// What is no part of a plan; the rest is in the plan itself, where plan::apply() writes it.
struct Options {
  int in_flight = 0;  ///< Most frames between push and release; 0: the output edge's slots.
  /// Results that may be held for as long as anybody likes, beyond those: a slot for each, made
  /// when it is first needed. Whoever holds more holds the pushers back. In memory_ceiling().
  int max_held = 1;
  /// What partitions of backend "function" without a library name.
  std::vector<function::Function> functions;
  bool native_code =
      true;            ///< False: a plan with function or custom-operator libraries is refused.
  bool trace = false;  ///< Keep the spans of each worker's last frames.
  std::size_t spans_kept = kSpansKept;  ///< Of how many, at least 1.
  std::map<std::string, std::map<std::string, std::string>> backend_options;  ///< By backend name.
  std::string label;                             ///< What Stats::plans calls the plan.
  std::function<void(const std::string&)> warn;  ///< Called during start() only.
  std::function<bool()> stopped;  ///< Asked by start() before each stage instance: true ends it.
};

/// Most bytes of the host's memory that the slots of all edges take, the states, and what calls
/// have besides (tensors between a stage's partitions, rows of several frames); not what engines
/// do. What lies in another memory is told by `backends`: a stage whose backend is not among them
/// counts as one in the host's. With those that run the plan it is Pipeline::memory_bytes();
/// nothing where a tensor's shape has no bound.
std::optional<std::uint64_t> memory_ceiling(const plan::Plan& plan, const Options& options = {},
                                            const backend::Registry& backends = {});

/// `timeout` for "as long as it takes" and for "not at all". The default is long but ends: a thread
/// that pushes without ever popping gets a sentence, not a standstill.
inline constexpr std::chrono::nanoseconds kPatient = std::chrono::seconds(60);
inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();
inline constexpr std::chrono::nanoseconds kNoWait{0};

/// Frames for Pipeline::drain(): those pushed before the call.
inline constexpr FrameNumber kAllPushed = std::numeric_limits<FrameNumber>::max();

/// Named tensors, for push by name.
using Named = std::vector<std::pair<std::string, Tensor>>;

class TraceFile;     // trace_file.h
struct WorkerSpans;  // spans.h

/// \threads  all functions may be called from any thread at any time; frames pushed by several
/// threads get their numbers in some order, and come out in the order of the numbers.
class Pipeline {
 public:
  /// Compiles every stage on its own thread, runs each once on zeros to warm up (ended after about
  /// 3 s, where the engine can), and checks the affinity of every thread that appeared. `folder`:
  /// where the plan's relative paths start (plan::Package::folder).
  /// \error  what validate(), the registry and the backends say, with the stage's name before it.
  /// \error kResourceExhausted  the slots of the edges may take more memory than is available:
  ///                            names the largest edge; or memory ran out.
  /// \error kInvalidArgument  the plan and a stage's model give a tensor different types; options
  ///                          for a backend that runs no stage.
  /// \error kCancelled  options.stopped() was true.
  /// \error kNotFound  a device's CPUs are outside the inherited cpuset.
  /// \error kInternal  a backend put a thread outside its stage's cores.
  /// \error kPermissionDenied  the plan has native libraries and options.native_code is false.
  static Result<std::unique_ptr<Pipeline>> start(const plan::Plan& plan,
                                                 const std::filesystem::path& folder,
                                                 const backend::Registry& backends,
                                                 const Options& options = {});
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  /// cancel(), then joins every thread; callbacks are called before. A call that hangs is waited
  /// for, for `max_run` where its stage has one, else for ever, as is a callback: end() and
  /// leave_behind() are there for that.
  ~Pipeline();

  /// Gives the pipeline one frame. `inputs[i]` is the i-th of plan.inputs; its storage is read in
  /// place and held until the frame has left the stages that read it.
  /// \returns the frame's number.
  /// \error kInvalidArgument    a count, dtype or shape differs, or a tensor lies in another memory
  ///                            than the host's: names the input, expected, found.
  /// \error kDeadlineExceeded   no room within `timeout`; says what is full. Nothing was pushed.
  /// \error kResourceExhausted  the input edge is full and its policy is `error`; or the frame's
  ///                            stream is one more than the plan allows (plan::Streams).
  /// \error kCancelled          closed or cancelled, or stopped by an error (named).
  /// \error kResourceExhausted  a callback is given, and the system has no thread left.
  Result<FrameNumber> push(std::span<const Tensor> inputs,
                           std::chrono::nanoseconds timeout = kPatient,
                           const FrameOptions& options = kPlainFrame);
  /// push() by name, in any order; the value of a bound input may be among them.
  /// \error kInvalidArgument  a name is unknown, missing or twice; another value of a bound input.
  Result<FrameNumber> push(const Named& inputs, std::chrono::nanoseconds timeout = kPatient,
                           const FrameOptions& options = kPlainFrame);
  Result<FrameNumber> try_push(std::span<const Tensor> inputs,
                               const FrameOptions& options = kPlainFrame) {
    return push(inputs, kNoWait, options);
  }

  /// Borrows the next frame's own input slot to be filled in place, then given with
  /// push_acquired(). Between the two calls, pushes of other threads wait. Inputs with open
  /// dimensions arrive at their bound: set_dims() them.
  /// \error as push(), and
  /// \error kResourceExhausted  the stages hold every slot of an input edge that drops frames:
  ///                            push() drops the frame there.
  Result<std::span<Tensor>> acquire_input(std::chrono::nanoseconds timeout = kPatient,
                                          Priority priority = Priority::kNormal);
  Result<FrameNumber> push_acquired(const FrameOptions& options = kPlainFrame);
  /// Gives the borrowed slot back without a frame, as for a camera that failed. Any thread.
  void release_input();

  /// The next frame in order, however it ended. Frames that have callbacks are passed over.
  /// \returns nothing when the pipeline is closed or cancelled and every frame has come out.
  /// \error kDeadlineExceeded  none came within `timeout`.
  Result<std::optional<Output>> pop(std::chrono::nanoseconds timeout = kPatient);
  Result<std::optional<Output>> try_pop() { return pop(kNoWait); }
  /// Waits until try_pop() gives a frame, or nothing for good, and takes none: another thread may.
  /// \error  as pop().
  Status await_output(std::chrono::nanoseconds timeout = kPatient);

  /// One frame through the empty pipeline: push, hurry, pop, copies of its outputs. However long it
  /// takes.
  /// Several threads may call it: each waits for those before it, and gets its own frame's outputs.
  /// \error the frame's own, and
  /// \error kInvalidArgument     a callback is given.
  /// \error kFailedPrecondition  frames that were pushed are in flight, or others push meanwhile.
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs,
                                  const FrameOptions& options = kPlainFrame);

  /// Replaces constants that were split off with --parameter, for all frames pushed from now on.
  /// `stage` is a stage's name, or empty for every stage that reads the parameter.
  /// \error kNotFound  no such stage or parameter; kInvalidArgument  dtype or shape differ.
  Status set_parameters(std::string_view stage, const Named& values);

  /// The next frame of each stream reads the states' initial values: another sequence begins. What
  /// functions keep of the frames before, they keep.
  /// \error kFailedPrecondition  frames are in flight, an acquired input is not pushed, or
  ///                             replace() waits for frames to end.
  /// \error kCancelled           as push().
  Status reset_states();

  // One stream (FrameOptions::stream) of those that the plan allows. Frames of the others may be in
  // flight. What functions keep of the frames before, they keep for all streams together.
  // \error kFailedPrecondition  frames of the stream are in flight, an acquired input is not
  //                             pushed, or replace() waits for frames to end.

  /// Resets one stream; one that is not known begins so anyway. \error kCancelled  as push().
  Status reset_stream(std::uint64_t stream);
  /// Forgets the stream: there is room for another one. Stream 0 stays, and begins anew.
  Status end_stream(std::uint64_t stream);
  /// Copies of what its next frame reads of the states, by plan::StateEdge::to.
  /// \error kNotFound  the stream is not known: it had no frame, has ended or was evicted.
  Result<Named> save_stream(std::uint64_t stream);
  /// Its next frame reads these states; a stream that is not known begins with them.
  /// \error kInvalidArgument    a state is unknown, missing or twice, or does not fit.
  /// \error kResourceExhausted, kDeadlineExceeded, kCancelled  as a push that does not wait.
  Status restore_stream(std::uint64_t stream, const Named& states);

  void close();  ///< No more input. Frames in flight finish. Idempotent.
  /// Waits until all pushed frames can be popped, and the callbacks of those that have one have
  /// returned; a callback that calls it waits for no callback. Hurries them. `end`: only those
  /// before it, so that who waits in slices does not wait for what is pushed in between. Of several
  /// threads that call it one waits at a time, the others for their turn.
  /// \error kDeadlineExceeded  some cannot within `timeout`, or have not: says how many; or another
  ///                            thread had the turn for so long.
  /// \error kFailedPrecondition  the results fill the output edge, as they may where an edge drops
  ///                             frames, and nobody popped any for a second.
  Status drain(std::chrono::nanoseconds timeout = kForever, FrameNumber end = kAllPushed);
  void cancel();  ///< Stops now: frames in flight come out as cancelled. Idempotent.
  /// Nobody wants this frame: it comes out as cancelled, in its place. No stage begins with it any
  /// more, but for those that write states or stand before such a one: what a state is does not
  /// tell when a frame was cancelled. Where an edge to them has another policy than kBlock it does:
  /// they compute none that was cancelled before they began. A call in progress for it ends early
  /// where its engine computes by itself and can be stopped; another is not interrupted.
  /// \returns false where it has come out or failed before, or was never pushed.
  bool cancel(FrameNumber frame);
  /// Whoever pushed this frame waits for it alone: no call waits for more frames to go with it, or
  /// with those before it. Nothing else changes, and nothing for frames that have come out.
  void hurry(FrameNumber frame);
  /// Nobody wants the frames in flight: they come out as cancelled, and no stage begins with one
  /// any more. Those pushed from now on are computed.
  void give_up();
  /// cancel(), then waits for the stages' threads and all callbacks; in a callback for the threads
  /// alone. False: calls still run after `timeout`.
  bool end(std::chrono::nanoseconds timeout);
  /// A sentence about each call that was left behind, but for those of engines that compute by
  /// themselves.
  struct LeftBehind {
    std::vector<std::string> calls;      ///< Of stages: named, with their first frame and their ms.
    std::vector<std::string> callbacks;  ///< Of frames, which are named.
  };
  /// Waits for nothing, and has no error: cancel(), then leaves the calls in progress to
  /// themselves, with what they may still touch, for ever: their frames come out as cancelled, and
  /// nobody waits for them, the destructor neither. A callback in progress is left likewise, unless
  /// it is a brief one on a stage's thread; the frames of its plan after it are given to their
  /// callbacks once it returns, on its thread. Those of a plan that took this one's place do not
  /// wait for it any more, though its frames come before theirs: their callbacks may run at the
  /// same time, on another thread. What hangs only later is left by the next call: end() and this
  /// in turn, until end() is true. Where memory is refused sentences may be missing.
  LeftBehind leave_behind();

  using MayGo = std::function<Status()>;
  /// Lets another plan take the frames pushed from now on, while this one finishes those before:
  /// the new one is started and warmed up beside it, then takes its place between two frames. The
  /// numbers go on and results stay in order; nothing is lost. What an argument means is said at
  /// start(). Any thread; threads that push, pop or wait notice nothing of it.
  ///
  /// States go over with their values, so that the first frame of the new plan waits for the last
  /// one of the old, as it does where either plan has a stateful function; so do the parameters
  /// that set_parameters() changed: a stage gets what the old one of its name was given, or, where
  /// none of that name reads the parameter, the first value that any was given. The others have the
  /// new plan's values. What a function keeps is its own: a library's is created anew, and begins
  /// anew; a callable that both plans were given goes on.
  ///
  /// Returns once frames go to the new plan. The old one is freed when its frames are computed,
  /// which drain() waits for and the next replace() too. Where an engine does not stand twice in
  /// the process, replace() waits for these frames itself, and pushes wait for it.
  ///
  /// `may_go` is called on this thread once the new plan stands, before frames go to it; its error
  /// is replace()'s, and the old plan stays. So several pipelines get new plans, or none does, but
  /// for what fails once all stand, as memory for a copy of states: each `may_go` replaces the next
  /// one's. It must not wait for a push, as pushes may wait for it.
  /// \error as start(); the pipeline then goes on as before, and so with those below.
  /// \error kInvalidArgument  the inputs or outputs have other names, types or another order; bound
  ///                          inputs have other values; a
  ///                          state or parameter has another type or is absent: named.
  /// \error kFailedPrecondition  as drain()'s, of the plan before the old one; or a callback of a
  ///                             frame calls it, where it would have to wait for that itself;
  ///                             a brief one never may where there are states or stateful
  ///                             functions. Or an engine does not stand twice, and the old plan
  ///                             could not start again: a file of it is gone or has changed.
  /// \error kCancelled  as push().
  Status replace(const plan::Plan& plan, const std::filesystem::path& folder,
                 const backend::Registry& backends, const Options& options = {},
                 const MayGo& may_go = {});

  /// Why pushes are refused: closed, cancelled, stopped by an error or by a call that hangs.
  /// Nothing while they are not.
  [[nodiscard]] std::optional<Error> closed_by() const;
  /// Frames are counted from the start on; stages and edges are those of the plan that takes frames
  /// now, as in write_trace().
  [[nodiscard]] Stats stats() const;
  /// How long frames took and which failed, of those that came out since the first call of this.
  /// From then on each frame costs some nanoseconds more.
  [[nodiscard]] Observation observe() const;
  /// As memory_ceiling(), of the host's memory alone; EdgeStats says what lies in others. Known
  /// before the first frame.
  [[nodiscard]] std::optional<std::uint64_t> memory_bytes() const;
  [[nodiscard]] int in_flight_limit() const;
  /// What takes frames now. The reference holds until replace() is called.
  [[nodiscard]] const plan::Plan& plan() const;
  /// plan() for who may look while replace() is called.
  [[nodiscard]] std::shared_ptr<const plan::Plan> shared_plan() const;
  /// Where the paths of plan() start.
  [[nodiscard]] std::filesystem::path folder() const;
  /// The spans kept, by worker, of the plan that takes frames now; as they come, nothing stops.
  /// \error kFailedPrecondition  Options::trace was false.
  [[nodiscard]] Result<std::vector<WorkerSpans>> spans() const;
  /// Chrome/Perfetto JSON of the spans kept: of each worker's last Options::spans_kept. What plans
  /// did that were replaced is there too, as lanes of their own, until those behind them had so
  /// many frames.
  /// \returns how many earlier spans, of all workers together, are no longer among them.
  /// \error kFailedPrecondition  Options::trace was false.
  /// \error kNotFound  there is no such folder.
  /// \error kPermissionDenied, kResourceExhausted  the file cannot be written, or not to its end.
  Result<std::uint64_t> write_trace(const std::filesystem::path& file) const;
  /// write_trace() as a group of lanes of that name in a file that holds other things too.
  /// \error kFailedPrecondition  as write_trace().
  Result<std::uint64_t> add_trace(TraceFile& trace, const std::string& name) const;

 private:
  explicit Pipeline(std::unique_ptr<Generations> generations);
  [[nodiscard]] Status check_traced() const;
  struct Admitted {
    State* state = nullptr;
    std::uint32_t seat = 0;  // Of the frame's stream.
  };
  /// Takes the pusher's turn and waits for room for the next frame. `what` is told at errors.
  Result<Admitted> begin_frame(const char* what, std::chrono::nanoseconds timeout,
                               const FrameOptions& options);

  std::unique_ptr<Generations> generations_;
};

}  // namespace penstock::pipeline
