// Worker: one thread that runs one replica of a stage.
// It runs a frame at a time, or several at once where the backend computes by itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/pipeline/histogram.h"
#include "penstock/pipeline/spans.h"
#include "penstock/pipeline/stage.h"
#include "penstock/pipeline/stage_call.h"
#include "penstock/pipeline/wait.h"

namespace penstock::pipeline {

struct State;

class Worker {
 public:
  Worker(State& state, Stage& stage, std::size_t replica);
  ~Worker();

  /// Starts the thread, compiles and warms up there; returns when the worker waits at the gate or
  /// has failed. `executables`: shared by replicas; filled by the first one that compiles.
  using Executables = StageCall::Executables;
  Status start(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
               Executables& executables);
  void join();
  void free();         ///< Ends its contexts. \pre  joined, and keeps_lost() is false.
  void cancel_runs();  ///< Asks the backends to end what is in progress. Any thread.
  /// Asks the worker to end calls of frames that were cancelled. It does so on its own thread,
  /// which alone knows for which frame a context computes. Any thread.
  void end_cancelled_calls();
  /// Where the call waits for more frames, and its first one is of [first, end): whether that one
  /// still waits is looked at again. Any thread, once what ends the waiting is there to be seen.
  void let_out(FrameNumber first, FrameNumber end);
  /// Whether calls that hang, and were left behind, still go on. \pre  joined.
  bool keeps_lost();

  Parker parker;             // Where this worker's thread sleeps.
  std::vector<Wait> inputs;  // Of each of Stage::producers: until it has completed a frame.
  /// One stage that reads one of the out edges: a frame n has room there once that stage has
  /// completed frame n - capacity.
  struct Room {
    Wait wait;
    FrameNumber capacity = 0;
  };
  std::vector<Room> rooms;   // Of every out edge and stage that reads it.
  std::vector<Wait> states;  // Of each other stage that writes a state which this one reads.

  // Statistics, which this worker's thread alone writes. Of each frame, in nanoseconds: its wait
  // for an instance, the phases of its call, and copies between memories (stats.h).
  Histogram queue, compute_input, compute_infer, compute_output, transfer;
  std::atomic<std::uint64_t> frames{0};   // Computed here.
  std::atomic<std::uint64_t> errors{0};   // That failed here.
  std::atomic<std::uint64_t> drops{0};    // That a function dropped here.
  std::atomic<std::uint64_t> surplus{0};  // Rows of calls that held no frame: computed for nothing.
  std::vector<std::atomic<std::uint64_t>> calls;                     // [n - 1]: calls of n frames.
  [[nodiscard]] Counters counters() const;                           ///< Since the warm-up.
  [[nodiscard]] std::size_t lanes() const { return lanes_.size(); }  ///< 0 once it was freed.
  [[nodiscard]] WorkerSpans spans() const;                           ///< If tracing.
  [[nodiscard]] bool able() const { return !unable_; }  ///< As its own thread saw it last.
  [[nodiscard]] const Stage& stage() const { return stage_; }
  [[nodiscard]] std::size_t replica() const { return replica_; }

  // What follows is called by other threads than the worker's own, and is for calls that hang.
  /// Nanoseconds that a call on the worker's own thread may take; 0: nobody watches it.
  [[nodiscard]] std::int64_t watched_ns() const { return asynchronous_ ? 0 : max_run_ns_; }
  /// Looks at the call on the worker's own thread. Where it has taken longer than watched_ns(), its
  /// thread is left behind with it; a new thread fails its frames and goes on with those behind.
  void give_up_if_hanging();
  /// Gives up a call in progress of a pipeline that ends. \pre it is cancelled.
  /// \returns a sentence about the call; nothing where there is none.
  std::optional<std::string> leave_behind();

 private:
  /// A call in flight, or the room for one.
  struct Lane {
    std::unique_ptr<StageCall> call;
    std::vector<FrameNumber> frames;  // That the worker took for it, ascending; also lost ones.
    std::size_t bound = 0;            // How many of `frames` the call computes.
    // Of each frame that is computed, in the order of bind(): when its inputs were there.
    std::vector<std::int64_t> ready_ns;
    std::int64_t start_ns = 0;  // When the call began.
    bool sampled = false;       // The phases of the call are timed one by one.
    bool begun = false;         // The frames came back (Returns), and hold their slots already.
    Edge* again = nullptr;      // Not null: only what was lost of this edge is made again.
  };

  void main(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
            Executables& executables, std::promise<Status>& started);
  Status prepare(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
                 Executables& executables);
  Status compile(const std::vector<backend::CompileRequest>& requests, Executables& executables);
  /// Threads that a backend makes on this one inherit the name, by which they are found.
  [[nodiscard]] std::string thread_name() const;
  [[nodiscard]] Status check_threads(const std::vector<int>& mask, std::size_t expected) const;

  /// Nanoseconds between two looks at a call that goes on by itself, or at a lost device.
  static constexpr std::int64_t kLook = 50'000'000;
  static constexpr FrameNumber kNoFrame = UINT64_MAX;

  void loop();
  /// Waits for frames that this instance may compute, and puts them into the lane. False: no frame
  /// will come any more.
  bool claim(Lane& lane);
  /// claim() of an instance that is unable: until it is able again it leaves the frames to other
  /// replicas, or fails those that none of them can take.
  bool claim_once_able(Lane& lane);
  /// Waits until this instance is able again, or no other one is. False: no frame will come.
  bool leave_to_others();
  [[nodiscard]] bool others_are_able() const;  ///< \pre  this instance is not able.
  /// Waits until this stand-by device is needed. False: it will not be needed any more.
  bool stand_by();
  [[nodiscard]] bool stands_by() const { return replica_ >= replicas_; }
  /// Whether the instance may claim a frame now.
  [[nodiscard]] bool may_claim() const { return !stands_by() || stage_.needs_standby(); }
  bool take_returned(Lane& lane);  ///< Takes a frame that came back, if there is one.
  /// Gives a frame that cannot be computed here to the other instances. \returns false: there are
  /// none that may take it, or it came back too often.
  bool hand_back(const Returns::Taken& taken);
  [[nodiscard]] bool may_come_back(FrameNumber frame);
  void hand_back(Lane& lane);  ///< Of each of its frames; those that other instances get leave it.
  // The next four functions deal with tensors that were lost with another machine; see Remakes.
  /// Begins to read the inputs of the lane's frames. Frames whose inputs are being made again leave
  /// the lane, and come back by Returns.
  void enter(Lane& lane);
  bool enter(const Returns::Taken& taken);  ///< False: the frame comes back later.
  /// Ends what enter() began for a frame, on all edges but `lost`.
  void leave_inputs(FrameNumber frame, const Edge* lost = nullptr);
  /// A call of the lane ended as unavailable for its i-th frame. \returns whether that is computed
  /// all the same: it comes back here, or went to another instance.
  bool recover(Lane& lane, std::size_t i);
  bool wait_for_remake(Lane& lane, std::size_t i);
  void drop_returned();  ///< Passes on frames that came back too late: the pipeline ends.
  [[nodiscard]] bool may_run_again() const;
  void refuse(Lane& lane);
  [[nodiscard]] Error unavailable() const;
  /// Looks which of the calls that were left behind have ended, and whether the device is there.
  /// \returns unable_
  bool look_whether_unable();
  void look_for_lost();
  /// The first frame that is nobody's yet and may be this worker's.
  FrameNumber next_frame();
  [[nodiscard]] bool is_of_others(FrameNumber frame) const;
  /// Those of the frames from `next` on, whose inputs are there, that one call may take.
  /// \returns whether later ones may join them.
  bool choose(FrameNumber next, std::vector<FrameNumber>& chosen);
  /// The first frame whose inputs are not there, but `most` at most.
  FrameNumber inputs_until(FrameNumber most);
  FrameNumber room_until(FrameNumber next, FrameNumber most);
  FrameNumber alike_until(FrameNumber next, FrameNumber most);
  [[nodiscard]] bool may_join(FrameNumber frame, const std::vector<FrameNumber>& chosen) const;
  /// Until when the call waits for more frames than it has; 0: not at all. Of frames in front that
  /// nothing is computed for, it waits for none: those behind them leave `chosen`.
  std::int64_t fills_until(std::vector<FrameNumber>& chosen);
  /// Until a call that begins with the frame may be full, `until`, or something else is to be seen.
  void fill(FrameNumber first, std::int64_t until, const std::function<bool()>& interrupted);
  /// Whether nobody waits for what becomes of the frame here.
  [[nodiscard]] bool is_lost(FrameNumber frame) const;
  /// Whether the frame takes a place in a call.
  [[nodiscard]] bool counts(FrameNumber frame) const {
    return stage_.feeds_state || !is_lost(frame);
  }
  /// Up to where inputs must come for a full call.
  [[nodiscard]] FrameNumber full_at(FrameNumber next) const;
  Wait& shortest();  ///< The input with the fewest frames.
  [[nodiscard]] bool was_taken(FrameNumber next) const;
  bool take(const std::vector<FrameNumber>& chosen);  ///< False: another replica has some of them.
  /// What the frame waits for, and the count that this must reach; null where it can begin.
  std::pair<Wait*, FrameNumber> obstacle(FrameNumber frame);
  [[nodiscard]] bool leave_at(FrameNumber frame) const;
  void wait_for_input(FrameNumber frame);
  void wait_for_turn(FrameNumber frame);
  [[nodiscard]] bool has_inputs(FrameNumber frame);
  bool has_room(FrameNumber next);        ///< False: the thread slept, and must look again.
  bool wait_for_room(FrameNumber frame);  ///< \returns whether it slept.
  void sleep_for_room(Wait& wait, FrameNumber least, const std::function<bool()>& interrupted);
  [[nodiscard]] std::size_t choose_lanes(const backend::Executable& executable) const;
  [[nodiscard]] int lanes_of(const Edge& edge) const;
  Status open(Lane& lane);
  std::unique_ptr<StageCall> make_call();
  Lane& oldest() { return lanes_[first_]; }
  Lane& next_lane();  ///< \pre  one is free.
  enum class Next : std::uint8_t {
    kLook,    // Look whether another frame can start.
    kFinish,  // End the oldest call.
    kLeave,   // Leave the loop: another thread took this one's place.
  };
  Next start_or_wait();    ///< \pre  lanes are free, and calls in flight.
  bool start(Lane& lane);  ///< False: abandoned meanwhile; nothing may be touched.
  void finish_oldest();
  void look_for_cancelled();
  /// Until the call says that it is done, or something else is to be looked at.
  void doze(const Lane& lane, std::int64_t until_ns);
  bool wait_for(Lane& lane);  ///< False: the call is lost.
  void end(Lane& lane);
  /// Leaves the lane's call behind, and opens another one. \returns false: that failed.
  bool give_up(Lane& lane, std::int64_t ran_ns, bool ready);
  Status reopen(Lane& lane);
  [[nodiscard]] std::int64_t hang_deadline(const Lane& lane) const;
  [[nodiscard]] Error hanging(std::int64_t ran_ns) const;
  /// Takes the frame's slots, which it has already where `begun`. False: it is not to be computed.
  bool begin(FrameNumber frame, bool begun);
  void begin_read(FrameNumber frame);
  bool take_slots(FrameNumber frame);
  /// Whether the frame is to be computed: it did not fail before this stage. One that failed on a
  /// parallel branch is not to be either, except where Stage::feeds_state.
  [[nodiscard]] bool is_due(FrameNumber frame) const;
  /// Fails a frame that is given up, cancelled or behind a call that hangs. \returns whether it is.
  bool fail_if_ended(FrameNumber frame);
  bool fail_ended(FrameNumber frame);
  bool fail_if_expired(FrameNumber frame);  ///< \returns whether it is past its deadline.
  void fail_late(FrameNumber frame);
  [[nodiscard]] bool is_late(FrameNumber frame) const;
  [[nodiscard]] Error lateness(FrameNumber frame) const;
  bool wait_for_states(FrameNumber frame);  ///< \returns whether it slept.
  [[nodiscard]] std::int64_t ready_since(FrameNumber frame) const;
  /// The lane is through with the frame.
  void let_go(Lane& lane, FrameNumber frame);
  void finish(FrameNumber frame, bool last = false);
  void hand_on_states(FrameNumber frame);
  void pass_on(FrameNumber frame, bool last = false);
  void fail(FrameNumber frame, Error error);
  void wake_replicas();
  void leave();  ///< This worker passes no more frames.
  [[nodiscard]] std::int64_t ran_ns(CallClock::Reading reading) const;
  /// Starts the thread that takes this one's place. False: the system has no thread left.
  [[nodiscard]] bool hand_over(std::int64_t ran_ns);
  void take_over(std::int64_t ran_ns, bool ready);
  std::optional<CallClock::Reading> abandon_call();
  Status adopt_thread();  ///< Names and pins the calling thread: it is the worker's from now on.
  void note(const Lane& lane, std::size_t frame);
  void note_call(const Lane& lane);

  State& state_;
  Stage& stage_;
  const std::size_t replica_;   // Position in Stage::places: a replica, or a stand-by device.
  const std::size_t replicas_;  // Of the stage, without devices that stand by.
  std::vector<Lane> lanes_;     // A ring: the calls in flight are [first_, first_ + in_flight_).
  std::size_t first_ = 0;       // Position in lanes_ of the oldest call in flight.
  std::size_t in_flight_ = 0;   // Calls in flight.
  bool asynchronous_ = false;   // Calls go on by themselves: StageCall::goes_on_alone().
  StageCall::Executables executables_;  // Kept for lanes that are opened anew.
  // Held by who replaces a lane's call or thread_, and by other threads while they use one.
  mutable std::mutex calls_mutex_;
  Counters lost_counters_;  // What calls had counted that were replaced.
  std::vector<int> mask_;   // CPUs on which the worker's thread runs, ascending.
  std::vector<std::unique_ptr<StageCall>> lost_;  // Calls that hang, and may still end.
  bool may_be_lost_ = false;                      // Its device is no CPU of this machine.
  std::atomic<bool> unable_{false};     // The device is lost, or `lost_` are more than allowed.
  std::atomic<bool> cancelled_{false};  // A frame was cancelled since the last look at the calls.
  std::atomic<bool> leaves_{false};     // Calls in progress are left behind: the pipeline ends.
  // Times of the steady clock and durations, in nanoseconds.
  std::int64_t clock_ = 0;        // When the last frame ended; the next begins then if !idled_.
  bool idled_ = true;             // The thread waited since the last frame ended.
  std::int64_t average_ns_ = 0;   // Moving average of how long one frame is computed.
  std::int64_t interval_ns_ = 0;  // Moving average between the ends of two frames.
  std::int64_t last_end_ = 0;     // When the last frame ended that interval_ns_ counts.
  std::int64_t max_run_ns_ = 0;   // plan::Stage::max_run; 0: none.
  FrameNumber most_ = 1;          // Frames that one call takes at most.
  FrameNumber own_next_ = 0;      // Where Stage::has_homes: every frame before it is taken.
  // The last choose() looked at the frames before this one. fills_until() and full_at(), which ask
  // how its choice may grow, go on from here.
  FrameNumber chosen_until_ = 0;
  FrameNumber filling_ = 0;      // 1 + the frame that waits for others to go with it; 0: none.
  std::int64_t filling_ns_ = 0;  // Since when that frame waits: steady clock.
  FrameNumber counted_ = 0;      // Of the last choice, the frames that take a place in the call.
  // While the worker sleeps for others to go with it, the first frame of the call. Changed by
  // read-modify-write alone: of who sleeps and who lets out, the later one sees what the other did.
  std::atomic<FrameNumber> fills_{kNoFrame};
  mutable std::mutex span_mutex_;  // Guards spans_ and span_count_.
  std::vector<Span> spans_;        // If tracing: a ring of the last frames.
  std::uint64_t span_count_ = 0;   // Spans that were kept so far, those overwritten too.
  std::thread thread_;             // Last: joined first, while all it uses is still alive.
};

}  // namespace penstock::pipeline
