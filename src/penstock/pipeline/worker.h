// Worker: one thread that runs one replica of a stage, or a device that stands by for it.
// It runs one call at a time, or several at once where the backend computes by itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/pipeline/ability.h"
#include "penstock/pipeline/fate.h"
#include "penstock/pipeline/instance.h"
#include "penstock/pipeline/lane.h"
#include "penstock/pipeline/meter.h"
#include "penstock/pipeline/returning.h"
#include "penstock/pipeline/selection.h"
#include "penstock/pipeline/stage.h"
#include "penstock/pipeline/stage_call.h"

namespace penstock::pipeline {

/// Its parts do one job each: Selection chooses frames, Fate says which fail, Lanes hold the calls,
/// Meter counts them, Ability knows whether the device is there, Returning gives frames back.
/// \threads  the worker's own runs loop() and all that is private, unless something else is said.
class Worker {
 public:
  Worker(State& state, Stage& stage, std::size_t replica);
  ~Worker();

  /// Starts the thread, compiles and warms up there; returns when the worker waits at the gate or
  /// has failed. `executables`: shared by replicas; filled by the first one that compiles.
  /// `warm_up`: shared by all that start together. May be called again where it failed.
  using Executables = StageCall::Executables;
  Status start(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
               Executables& executables, WarmUp& warm_up);
  /// Whether start() failed since an engine here does not stand beside what it has in this process
  /// already, as its Backend::compile() said. \pre  start() has returned.
  [[nodiscard]] bool engine_is_taken() const { return engine_is_taken_; }
  /// What it runs, once it has compiled; else nothing. \pre  start() has returned, and not free()
  [[nodiscard]] const Executables& executables() const { return ability_.executables(); }
  void join();
  void free();         ///< Ends its contexts. \pre  joined, and keeps_lost() is false.
  void cancel_runs();  ///< Asks the backends to end what is in progress. Any thread.
  /// Asks the worker to end calls of frames that were cancelled. It does so on its own thread,
  /// which alone knows for which frame a context computes. Any thread.
  void end_cancelled_calls();
  /// Where the call waits for more frames, and its first one is of [first, end): whether that one
  /// still waits is looked at again. Any thread, once what ends the waiting is there to be seen.
  void let_out(FrameNumber first, FrameNumber end) { selection_.let_out(first, end); }
  /// Whether calls that hang, and were left behind, still go on. \pre  joined.
  bool keeps_lost();

  Instance instance;
  Meter meter{instance};
  [[nodiscard]] Counters counters() const;                           ///< Since the warm-up.
  [[nodiscard]] std::size_t lanes() const { return lanes_.size(); }  ///< 0 once it was freed.
  [[nodiscard]] bool able() const { return ability_.able(); }  ///< As its own thread saw it last.
  [[nodiscard]] const Stage& stage() const { return stage_; }
  [[nodiscard]] std::size_t replica() const { return instance.replica; }

  // What follows is called by other threads than the worker's own, and is for calls that hang.
  /// Nanoseconds that a call on the worker's own thread may take; 0: nobody watches it.
  [[nodiscard]] std::int64_t watched_ns() const { return asynchronous_ ? 0 : max_run_ns_; }
  /// Looks at the call on the worker's own thread. Where it has taken longer than watched_ns(), its
  /// thread is left behind with it; a new thread fails its frames and goes on with those behind.
  void give_up_if_hanging();
  /// Gives up a call in progress of a pipeline that ends. \pre it is cancelled.
  /// \returns a sentence about the call; nothing where there is none.
  std::optional<std::string> leave_behind();
  /// Where leave_behind() found no thread to take the call's place, passes on what is in flight.
  /// \pre  it was called for all that the pipeline's stages wait for.
  void attend();

 private:
  void main(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
            Executables& executables, WarmUp& warm_up, std::promise<Status>& started);
  Status prepare(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
                 Executables& executables, WarmUp& warm_up);
  Status compile(const std::vector<backend::CompileRequest>& requests, Executables& executables);

  enum class Next : std::uint8_t {
    kLook,    // Look whether another frame can start.
    kFinish,  // End the oldest call.
    kLeave,   // Leave the loop: another thread took this one's place.
  };
  void loop();  ///< From the first frame until no more come, or another thread took its place.
  Next start_or_wait();  ///< \pre  lanes are free, and calls in flight.
  void wake_replicas();
  void leave();  ///< This worker passes no more frames.

  /// Waits for frames that this instance may compute, and puts them into the lane. False: no frame
  /// will come any more.
  bool claim(Lane& lane);
  /// The lane's frames, which were chosen, are this instance's. False: another one has some.
  bool take(const Lane& lane);
  /// claim() of an instance that is unable: until it is able again it leaves the frames to other
  /// replicas, or fails those that none of them can take.
  bool claim_once_able(Lane& lane);
  void refuse(Lane& lane);  ///< Fails the lane's frames: no instance can compute them.
  void drop_returned();     ///< Passes on frames that came back too late: the pipeline ends.

  /// Begins the lane's frames and its call. False: the call was abandoned meanwhile, and nothing
  /// may be touched.
  bool start(Lane& lane);
  /// Takes the frame's slots, which it has already where `begun`. False: it is not to be computed.
  bool begin(FrameNumber frame, bool begun);
  void begin_read(FrameNumber frame);
  bool take_slots(FrameNumber frame);
  /// The edge's policy says what becomes of the frame, for which it has no slot.
  void find_no_room(Edge& edge, FrameNumber frame);

  void finish_oldest();       ///< Waits for the oldest call, and passes its frames on.
  bool wait_for(Lane& lane);  ///< False: the call is lost.
  /// Sleeps until the call says that it is done, or something else is to be looked at, or
  /// `until_ns` of the steady clock.
  void doze(const Lane& lane, std::int64_t until_ns);
  void look_for_cancelled();  ///< Ends calls whose only frame was cancelled.
  void end(Lane& lane);       ///< Notes what became of the call's frames. \pre  it has ended.
  /// Of the first ones that the call has. `timed`: counts their times too.
  void end_frames(Lane& lane, std::size_t count, bool timed);
  void let_go(Lane& lane, FrameNumber frame);  ///< The lane is through with the frame.
  /// Releases what the frame held, and passes it on. `last`: of the frames of its call.
  void finish(FrameNumber frame, bool last = false);
  void hand_on_states(FrameNumber frame);
  void pass_on(FrameNumber frame, bool last = false);

  // Of calls that hang; `ran_ns`: nanoseconds that the call has run.
  /// Passes on the frames that ended before the one that hangs.
  void end_settled(Lane& lane);
  /// Leaves the lane's call behind, and opens another one. \returns false: that failed.
  bool give_up(Lane& lane, std::int64_t ran_ns, bool ready);
  Status reopen(Lane& lane);
  Status open(Lane& lane);
  std::unique_ptr<StageCall> make_call();
  /// When the call will hang: steady clock, nanoseconds; kNever: no time is set.
  [[nodiscard]] std::int64_t hang_deadline(const Lane& lane) const;
  [[nodiscard]] Error hanging(std::int64_t ran_ns) const;
  [[nodiscard]] std::int64_t ran_ns(CallClock::Reading reading) const;
  /// Starts the thread that takes this one's place. False: the system has no thread left.
  [[nodiscard]] bool hand_over(std::int64_t ran_ns);
  /// Fails the frames of the call that hangs, and passes them on.
  void give_up_lost(std::int64_t ran_ns, bool ready);
  /// give_up_lost(), then loop(). On the thread that is new.
  void take_over(std::int64_t ran_ns, bool ready);
  std::optional<CallClock::Reading> abandon_call();
  Status adopt_thread();  ///< Names and pins the calling thread: it is the worker's from now on.

  State& state_;
  Stage& stage_;
  Fate fate_{instance, meter};
  Selection selection_{instance};
  Ability ability_{instance};
  Returning returning_{instance, ability_};
  Lanes lanes_;
  bool asynchronous_ = false;     // Calls go on by themselves: StageCall::goes_on_alone().
  bool engine_is_taken_ = false;  // Written before start() returns.
  std::int64_t max_run_ns_ = 0;   // Nanoseconds that a call may take; 0: no limit.
  std::vector<int> mask_;         // CPUs on which the worker's thread runs, ascending.
  // Held by who replaces a lane's call or thread_, and by other threads while they use one.
  mutable std::mutex calls_mutex_;
  Counters lost_counters_;               // What calls had counted that were replaced.
  std::atomic<bool> cancelled_{false};   // A frame was cancelled since the last look at the calls.
  std::atomic<bool> leaves_{false};      // Calls in progress are left behind: the pipeline ends.
  std::atomic<bool> unattended_{false};  // As attend() says.
  std::thread thread_;                   // Last: joined first, while all it uses is still alive.
};

}  // namespace penstock::pipeline
