// Delivery: who calls frames' callbacks: a thread for it, or a stage's that has nothing else to do.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/pipeline/frame.h"
#include "penstock/pipeline/streams.h"

namespace penstock::pipeline {

struct Turns;

/// Frames that do not come out by pop(): each is given to its callback once, however it ended, and
/// one after the other.
class Delivery {
 public:
  using Done = std::function<void(Output)>;

  /// Starts the thread, the first time. In the pusher's turn.
  /// \error kResourceExhausted  the system has no thread left, or no memory.
  Status start(State& state);
  /// Room for a stream of that seat. In the pusher's turn. \throws std::bad_alloc
  void make_room(Streams::Seat seat);
  /// Before the frame's stages see it. Allocates nothing. \pre  there is room for its stream
  void expect(FrameNumber frame, Done done, const FrameOptions& options);
  /// No callback until release(): those of the generation before come first.
  void hold();
  void release();
  /// Every stage is done with the frame. `idle`: the thread that says so has nothing else to do,
  /// and calls back a brief frame itself where that is the next one. Any thread; allocates nothing.
  void ready(FrameNumber frame, bool idle);
  /// Waits until the callbacks of the frames before `end` have returned. \returns how many have not
  /// by `deadline`, of the steady clock. \pre  !is_in_callback() of this pipeline
  std::size_t wait_until_called(FrameNumber end, std::int64_t deadline);
  /// Gives what is left to its callbacks, cancelled where stages were not done with it. False: the
  /// last one has not returned at `deadline`, of the steady clock. \pre  no stage runs any more,
  /// and nothing is pushed.
  bool finish(std::int64_t deadline);
  /// finish(), however long it takes, and joins; waits for no callback that was left behind.
  void end();
  /// Leaves the callback in progress on the thread for callbacks to itself, and that thread, which
  /// keeps the pipeline's state and gives the frames behind it to their callbacks as soon as that
  /// returns. \returns a sentence about it; nothing where none is in progress, or was left before.
  std::optional<std::string> leave_behind();
  /// Whether this thread is in a callback of a frame of that pipeline, whichever its generation: it
  /// cannot wait for the end of one. `turns`: the pipeline's.
  static bool is_in_callback(const Turns& turns);
  /// Whether it is in one of a brief frame, perhaps on the thread of a stage: it cannot wait for
  /// that one's frames either. \pre  is_in_callback()
  static bool is_in_brief_callback();

 private:
  struct Entry {
    FrameNumber frame = 0;
    Done done;  // Empty: no frame waits here.
    bool in_order = true;
    bool brief = false;
    bool ready = false;
    Streams::Seat seat = 0;
    bool follows = false;       // A frame of its stream is to be called back before it.
    Entry* follower = nullptr;  // The next one of its stream, which follows this one.
    Entry* next = nullptr;      // In one of the lists.
  };
  struct List {
    Entry* first = nullptr;
    Entry* last = nullptr;
    void append(Entry* entry);
    void take() { first = first->next; }
  };

  enum class Runner : std::uint8_t { kNone, kRuns, kLeftBehind, kEnded };

  void loop();
  // All of these with mutex_ held; call() lets go of it while the callback runs.
  [[nodiscard]] Entry* next() const;  ///< The frame to be called back next; null: none is due.
  void take(Entry& entry);            ///< \pre  it is next()
  void put_behind_its_stream(Entry& entry);
  void make_ready(Entry& entry);
  void cancel_what_stages_left();
  void list_if_due(Entry& entry);
  void call(Entry& entry, std::unique_lock<std::mutex>& lock);  ///< \pre  it is next()
  [[nodiscard]] std::size_t uncalled(FrameNumber end) const;

  State* state_ = nullptr;
  std::mutex mutex_;  // Guards entries_ to kept_. Not held while a callback runs.
  std::condition_variable changed_;
  std::vector<Entry> entries_;  // By frame & State::window_mask.
  List in_order_;               // Frames to be called back in the order of their pushes.
  List due_;                    // Frames out of order that may be called back, as they became so.
  // By seat: the entry of the stream's last frame, which a later frame may have by now.
  std::vector<Entry*> last_of_;
  bool held_ = false;                 // Between hold() and release(): no callback is called.
  bool calling_ = false;              // A callback runs, on whichever thread.
  bool calling_here_ = false;         // On thread_.
  FrameNumber called_ = 0;            // By the one that runs.
  std::condition_variable returned_;  // Told when a callback has.
  bool ends_ = false;                 // finish() was called.
  std::shared_ptr<State> kept_;       // By a thread that was left behind.
  std::condition_variable ended_;     // Told when runner_ goes on from kRuns.
  // Of thread_. Changed with mutex_ held, or in the pusher's turn by start().
  std::atomic<Runner> runner_{Runner::kNone};
  std::thread thread_;  // Last: it uses the rest.
};

}  // namespace penstock::pipeline
