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
  /// Of frames that were cancelled. The worker's own thread does it: no other knows for which frame
  /// a context computes. Any thread.
  void end_cancelled_calls();
  /// Where the call waits for more frames, and its first one is of [first, end): whether that one
  /// still waits is looked at again. Any thread, once what ends the waiting is there to be seen.
  void let_out(FrameNumber first, FrameNumber end);
  /// Whether calls that hang still go on. \pre  joined.
  bool keeps_lost();

  Parker parker;
  std::vector<Wait> inputs;  // Beside Stage::producers.
  struct Room {              // For every (out edge, reader): frame - capacity must be done there.
    Wait wait;
    FrameNumber capacity = 0;
  };
  std::vector<Room> rooms;
  std::vector<Wait> states;  // Writers of what it reads of the frame before; itself left out.

  // Statistics: written by this thread only.
  Histogram queue, compute_input, compute_infer, compute_output, transfer;
  std::atomic<std::uint64_t> frames{0}, errors{0}, drops{0}, surplus{0};
  std::vector<std::atomic<std::uint64_t>> calls;                     // [n - 1]: calls of n frames.
  [[nodiscard]] Counters counters() const;                           ///< Since the warm-up.
  [[nodiscard]] std::size_t lanes() const { return lanes_.size(); }  ///< 0 once it was freed.
  [[nodiscard]] WorkerSpans spans() const;                           ///< If tracing.
  [[nodiscard]] bool able() const { return !unable_; }  ///< As its own thread saw it last.
  [[nodiscard]] const Stage& stage() const { return stage_; }
  [[nodiscard]] std::size_t replica() const { return replica_; }

  // For calls that hang; on other threads than its own.
  /// How long a call on the worker's own thread may take; 0: nobody watches it.
  [[nodiscard]] std::int64_t watched_ns() const { return asynchronous_ ? 0 : max_run_ns_; }
  /// Where the call takes longer: it goes on without anybody, and another thread fails its frames
  /// and goes on with those behind.
  void give_up_if_hanging();
  /// Gives up a call in progress of a pipeline that ends. \pre it is cancelled.
  /// \returns a sentence about the call; nothing where there is none.
  std::optional<std::string> leave_behind();

 private:
  /// A call in flight, or the room for one.
  struct Lane {
    std::unique_ptr<StageCall> call;
    std::vector<FrameNumber> frames;     // That the worker took for it, ascending; also lost ones.
    std::size_t bound = 0;               // How many of them are computed.
    std::vector<std::int64_t> ready_ns;  // Of each that is computed, in the order of its bind().
    std::int64_t start_ns = 0;
    bool sampled = false;   // Its phases are told apart.
    bool begun = false;     // Of frames that came back: their slots are held already.
    Edge* again = nullptr;  // Of one whose tensors there were lost: they are all that it is for.
  };

  void main(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
            Executables& executables, std::promise<Status>& started);
  Status prepare(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
                 Executables& executables);
  Status compile(const std::vector<backend::CompileRequest>& requests, Executables& executables);
  /// The threads that this one makes inherit the name: it tells ours from the rest.
  [[nodiscard]] std::string thread_name() const;
  [[nodiscard]] Status check_threads(const std::vector<int>& mask, std::size_t expected) const;

  /// How often a call that goes on by itself, or a lost device, is looked at.
  static constexpr std::int64_t kLook = 50'000'000;
  static constexpr FrameNumber kNoFrame = UINT64_MAX;

  void loop();
  bool claim(Lane& lane);  ///< False: none will come any more.
  /// claim() of an exhausted instance, which computes nothing until it is able again: it leaves
  /// the frames to other replicas, or fails those that none of them can take.
  bool claim_once_able(Lane& lane);
  bool leave_to_others();  ///< Until it is able again, or no other is. False: none will come.
  [[nodiscard]] bool others_are_able() const;  ///< \pre  this instance is not.
  /// Of a device that stands by: until it is needed. False: it will not be.
  bool stand_by();
  [[nodiscard]] bool stands_by() const { return replica_ >= replicas_; }
  /// Whether the instance may claim a frame now.
  [[nodiscard]] bool may_claim() const { return !stands_by() || stage_.needs_standby(); }
  bool take_returned(Lane& lane);
  /// Frames that cannot be computed here go to other instances, if there are such. \returns whether
  /// this one is another's now.
  bool hand_back(const Returns::Taken& taken);
  [[nodiscard]] bool may_come_back(FrameNumber frame);
  void hand_back(Lane& lane);
  // Tensors that were lost with another machine; see Remakes.
  /// The frames that cannot be read now leave the lane, and come back.
  void enter(Lane& lane);
  bool enter(const Returns::Taken& taken);
  /// Of a frame that enter() let in.
  void leave_inputs(FrameNumber frame, const Edge* lost = nullptr);
  /// A call of the lane ended as unavailable for its i-th frame. \returns whether that is computed
  /// all the same: it comes back here, or went to another instance.
  bool recover(Lane& lane, std::size_t i);
  bool wait_for_remake(Lane& lane, std::size_t i);
  void drop_returned();  ///< Those that nobody takes any more, as the pipeline ends.
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
  FrameNumber inputs_until(FrameNumber most);  ///< The first frame without, or `most`.
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
  /// What the frame still waits for, and how far that must come; of nothing if it can begin.
  std::pair<Wait*, FrameNumber> obstacle(FrameNumber frame);
  [[nodiscard]] bool leave_at(FrameNumber frame) const;
  void wait_for_input(FrameNumber frame);
  void wait_for_turn(FrameNumber frame);
  [[nodiscard]] bool has_inputs(FrameNumber frame);
  bool has_room(FrameNumber next);        ///< False: it slept, and is to look again.
  bool wait_for_room(FrameNumber frame);  ///< \returns whether it slept.
  void sleep_for_room(Wait& wait, FrameNumber least, const std::function<bool()>& interrupted);
  [[nodiscard]] std::size_t choose_lanes(const backend::Executable& executable) const;
  [[nodiscard]] int lanes_of(const Edge& edge) const;
  Status open(Lane& lane);
  std::unique_ptr<StageCall> make_call();
  Lane& oldest() { return lanes_[first_]; }
  Lane& next_lane();  ///< \pre  one is free.
  enum class Next : std::uint8_t {
    kLook,    // Whether another frame can start.
    kFinish,  // The oldest call.
    kLeave,   // The thread was given up.
  };
  Next start_or_wait();    ///< \pre  lanes are free, and calls in flight.
  bool start(Lane& lane);  ///< False: abandoned meanwhile; nothing may be touched.
  void finish_oldest();
  void look_for_cancelled();
  /// Until the call says that it is done, or something else is to be looked at.
  void doze(const Lane& lane, std::int64_t until_ns);
  bool wait_for(Lane& lane);  ///< False: the call is lost.
  void end(Lane& lane);
  bool give_up(Lane& lane, std::int64_t ran_ns, bool ready);  ///< \returns whether it is open anew.
  Status reopen(Lane& lane);
  [[nodiscard]] std::int64_t hang_deadline(const Lane& lane) const;
  [[nodiscard]] Error hanging(std::int64_t ran_ns) const;
  /// Holds the frame's slots. False: it is not to be computed.
  bool begin(FrameNumber frame, bool begun);
  void begin_read(FrameNumber frame);
  bool take_slots(FrameNumber frame);
  [[nodiscard]] bool is_due(FrameNumber frame) const;  ///< Not failed before or, mostly, beside.
  /// Fails what is given up, cancelled or behind a call that hangs. \returns whether it is.
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
  [[nodiscard]] bool hand_over(std::int64_t ran_ns);  ///< False: there is no thread for it.
  void take_over(std::int64_t ran_ns, bool ready);
  std::optional<CallClock::Reading> abandon_call();
  Status adopt_thread();  ///< The calling one runs what the backends bring from now on.
  void note(const Lane& lane, std::size_t frame);
  void note_call(const Lane& lane);

  State& state_;
  Stage& stage_;
  const std::size_t replica_;
  const std::size_t replicas_;  // Of the stage, without devices that stand by.
  std::vector<Lane> lanes_;     // A ring: the calls in flight are [first_, first_ + in_flight_).
  std::size_t first_ = 0, in_flight_ = 0;
  bool asynchronous_ = false;
  StageCall::Executables executables_;  // For lanes that are opened anew.
  // Guards the lanes' calls and the thread against being replaced.
  mutable std::mutex calls_mutex_;
  Counters lost_counters_;                        // Of calls that were replaced.
  std::vector<int> mask_;                         // The thread's.
  std::vector<std::unique_ptr<StageCall>> lost_;  // Calls that hang, and may come back.
  bool may_be_lost_ = false;                      // Its device is no CPU of this machine.
  std::atomic<bool> unable_{false};     // The device is lost, or `lost_` are more than allowed.
  std::atomic<bool> cancelled_{false};  // Some frame was; perhaps one in flight here.
  std::atomic<bool> leaves_{false};     // What is in progress is left behind.
  std::int64_t clock_ = 0;  // End of the last frame; the start of the next unless idle between.
  bool idled_ = true;
  std::int64_t average_ns_ = 0;   // Of service, by frame.
  std::int64_t interval_ns_ = 0;  // Between the ends of two frames, on average.
  std::int64_t last_end_ = 0;
  std::int64_t max_run_ns_ = 0;
  FrameNumber most_ = 1;      // Frames that one call takes.
  FrameNumber own_next_ = 0;  // Where each stream has its replica: no frame before it is free.
  // Frames before it were looked at by the last choose(). What is asked about its choice next,
  // fills_until(), full_at() and whether more come, goes on from there.
  FrameNumber chosen_until_ = 0;
  FrameNumber counted_ = 0;      // Of that choice, those that take a place in the call.
  FrameNumber filling_ = 0;      // The frame that waits for others to go with it, and one;
  std::int64_t filling_ns_ = 0;  // since when.
  // While the worker sleeps for others to go with it, the first frame of the call. Changed by
  // read-modify-write alone: of who sleeps and who lets out, the later one sees what the other did.
  std::atomic<FrameNumber> fills_{kNoFrame};
  mutable std::mutex span_mutex_;  // Guards the two below.
  std::vector<Span> spans_;
  std::uint64_t span_count_ = 0;
  std::thread thread_;  // Last: joined first, while all it uses is still alive.
};

}  // namespace penstock::pipeline
