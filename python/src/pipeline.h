// Pipeline: the library's pipeline as Python calls it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include <nanobind/nanobind.h>

#include "feed.h"
#include "frame.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"
#include "request.h"

namespace penstock::python {

/// How long the end of a pipeline or of the process waits for calls in progress, where shut_down()
/// is not told: as its docstring says.
inline constexpr std::chrono::seconds kPatience{5};

/// What a frame is pushed with, besides its inputs and its tag.
struct How {
  std::uint64_t stream = 0;
  std::optional<double> deadline;  ///< Seconds of time.monotonic().
  bool high = false;               ///< Its priority.
  nb::object done;                 ///< None, or called with the Frame, which no pop() gives then.
  bool in_order = true;
};

/// All functions are called under the GIL, from any thread; those that wait let it go meanwhile.
///
/// Frames that came out lend their slots. A slot that is held stops the pipeline as soon as its
/// turn comes again; so that nobody's held results can, a frame is detached (Lease) a few frames
/// later.
class Pipeline {
 public:
  /// Where it throws before it has taken it, `running` stays the caller's, to end without the GIL.
  Pipeline(plan::Package package, std::unique_ptr<pipeline::Pipeline>&& running, RunOptions run);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();

  /// `feed`: a dict by name, a list or tuple in the inputs' order, or the one input itself.
  /// `timeout`: seconds, or None for as long as it takes.
  /// `told`: the seconds that the error of a timeout tells of, where this is the end of a longer
  /// wait.
  std::uint64_t push(nb::handle feed, std::optional<double> timeout, nb::handle tag,
                     std::optional<double> told, const How& how);
  /// None where there is no room now.
  std::optional<std::uint64_t> try_push(nb::handle feed, nb::handle tag, const How& how);
  /// None when the pipeline is closed and every frame has come out.
  nb::object pop(std::optional<double> timeout);
  /// None where none is ready.
  nb::object try_pop();
  nb::list run(nb::handle feed, std::uint64_t stream);
  /// The library's own run(), without the interpreter in between: what benchmarks compare with.
  void run_repeatedly(nb::handle feed, std::uint64_t count);

  void set_parameters(nb::handle values, const std::string& stage);
  void reset_states();
  void reset_stream(std::uint64_t stream);
  void end_stream(std::uint64_t stream);
  nb::dict save_stream(std::uint64_t stream);
  void restore_stream(std::uint64_t stream, nb::handle states);
  /// Lets the package at `path` take the frames from now on. \returns warnings of its start.
  std::vector<std::string> replace(const std::string& path);
  void close();
  void drain(std::optional<double> timeout);
  void cancel();
  bool cancel_frame(std::uint64_t number);
  /// cancel(), then the end of all threads. Frames that are held stay. Calls and callbacks
  /// that still run after `timeout` seconds (None: there is no limit), or at Ctrl-C, are left
  /// behind, with a warning.
  void shut_down(std::optional<double> timeout);

  /// Frames pushed that have not come out, those given up left aside.
  [[nodiscard]] std::uint64_t in_flight() const;
  /// Whether this thread is in a callback (How::done) of this pipeline: no other one is called
  /// before that has returned.
  [[nodiscard]] bool calls_back_here() const;
  /// What is in flight comes out as cancelled, without being computed any further.
  void give_up();
  /// The same, and it is thrown away as it comes out.
  void give_up_in_flight();
  /// No call waits for more frames to go with those that were pushed.
  void hurry_in_flight();
  /// \raises FailedPrecondition in a forked child.
  void check_process() const;

  [[nodiscard]] nb::dict stats() const;
  std::uint64_t write_trace(const std::string& file) const;
  /// For those who look at it, who keep it.
  [[nodiscard]] std::shared_ptr<const pipeline::Pipeline> watched() const { return running(); }
  /// The same, for who replaces it; what it was started with and of.
  [[nodiscard]] std::shared_ptr<pipeline::Pipeline> tuned() const { return running(); }
  [[nodiscard]] const RunOptions& run_options() const { return run_; }
  [[nodiscard]] const plan::Package& package() const { return *package_; }
  /// What follows from the plan that runs for the results that come out.
  void look_at_outputs();
  /// As it runs; of a pipeline that is shut down: as it was started.
  [[nodiscard]] std::string plan_json() const;
  /// The build.json of what runs; empty: it was made otherwise.
  [[nodiscard]] std::string report() const;
  [[nodiscard]] const plan::Plan& plan() const { return package_->plan; }
  /// Whether it takes frames. After the first hanging call, say, it does not.
  [[nodiscard]] bool alive() const;
  /// Whether shut_down() has begun.
  [[nodiscard]] bool ended() const { return running_ == nullptr; }
  [[nodiscard]] int in_flight_limit() const;
  [[nodiscard]] std::optional<std::uint64_t> memory_bytes() const;
  /// The package as a folder or zip of the user's own.
  void save(const std::string& target) const;

  /// shut_down() of every pipeline there is: for the end of the process.
  static void shut_down_all();

  int traverse(visitproc visit, void* arg) const;

 private:
  using Running = std::shared_ptr<pipeline::Pipeline>;
  using Clock = std::chrono::steady_clock;
  using Room = std::set<std::uint64_t>::node_type;  // In not_popped_.

  /// \raises where the pipeline is shut down or another process' own.
  [[nodiscard]] Running running() const;
  void shut_down(Clock::time_point deadline);
  [[nodiscard]] std::vector<Tensor> tensors_of(nb::handle feed) const;
  std::uint64_t remember_tag(nb::handle tag);
  nb::object recall_tag(std::uint64_t id);
  Result<std::uint64_t> push(const std::vector<Tensor>& inputs, std::chrono::nanoseconds timeout,
                             pipeline::FrameOptions options);
  Result<std::uint64_t> push_unnoted(const std::vector<Tensor>& inputs,
                                     std::chrono::nanoseconds timeout,
                                     pipeline::FrameOptions options);
  /// As the library takes it; holds the tag, and the callback if there is one.
  pipeline::FrameOptions options_of(const How& how, nb::handle tag);
  /// `room`: of a frame that has a callback.
  void note_pushed(std::uint64_t frame, Room room);
  void note_popped(std::uint64_t frame);
  /// Nobody pops those.
  void pass_over_callbacks();
  /// True: a frame came out and was one given up.
  bool give_up(const pipeline::Output& output);
  nb::object to_frame(pipeline::Output output);
  /// Takes the slots back from frames below `number` that are still held.
  void detach_before(std::uint64_t number);
  /// Takes them back from all frames that are held but the last one; where a callback is short of
  /// room, from that one too. \returns whether there were any.
  bool return_loans();
  /// Whether what comes out next was given up for certain: nobody else is taking frames out.
  bool may_throw_away() const;
  void throw_away_given_up(const Running& running);
  /// Waits for one of them. False: none came.
  bool throw_away_one(const Running& running, std::chrono::nanoseconds timeout);
  /// What comes out next.
  Result<std::optional<pipeline::Output>> take(const Running& running,
                                               std::chrono::nanoseconds timeout);
  /// The same, and waits for them. \returns running().
  Running without_given_up();

  /// Holds the files that the stages were made of. Kept by whoever lets the GIL go with it: it may
  /// be replaced.
  std::shared_ptr<const plan::Package> package_;
  RunOptions run_;  // Its callables are for the garbage collector: they may refer to this pipeline.
  Running running_;
  std::shared_ptr<OutputTypes> outputs_;
  const Feed feed_;
  std::vector<std::pair<std::uint64_t, std::weak_ptr<Lease>>> leases_;  // By frame.
  std::uint64_t lend_for_ =
      UINT64_MAX;  // Frames; 0: slots are not lent, their memory is moved out.
  std::unordered_map<std::uint64_t, nb::object> tags_;
  std::uint64_t next_tag_ = 1;
  std::uint64_t pushed_ = 0, popped_ = 0, given_up_ = 0;  // Frames below given_up_ nobody wants.
  std::set<std::uint64_t> not_popped_;  // Frames from popped_ on that callbacks are given.
  std::shared_ptr<std::uint64_t> uncalled_ = std::make_shared<std::uint64_t>(0);  // Callbacks.
  bool calls_back_ = false;  // What runs has, or is about to have, a thread for callbacks.
  std::atomic<int> popping_ = 0, throwing_away_ = 0;  // Calls that take frames out.
  std::atomic<int> short_of_room_ = 0;                // Pushes that found none, but for those
  std::atomic<int> callbacks_short_of_room_ = 0;      // of callbacks: these.
  std::uint64_t generation_;
  std::uint64_t process_;
};

void bind_pipeline(nb::module_& module);

}  // namespace penstock::python
