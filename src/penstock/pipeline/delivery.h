// Delivery: who calls frames' callbacks: a thread for it, or a stage's that has nothing else to do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
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
  /// Gives what is left to its callbacks, cancelled where stages were not done with it, and joins.
  /// \pre  no stage runs any more, and nothing is pushed.
  void end();
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

  void loop();
  [[nodiscard]] Entry* next() const;  ///< Null: none is due. Under the lock, as the four below.
  void take(Entry& entry);            ///< \pre  it is the next one.
  void put_behind_its_stream(Entry& entry);
  void make_ready(Entry& entry);
  void list_if_due(Entry& entry);
  void call(Entry& entry, std::unique_lock<std::mutex>& lock);  ///< \pre  as take()

  State* state_ = nullptr;
  std::mutex mutex_;  // Guards all below. Not held while a callback runs.
  std::condition_variable changed_;
  std::vector<Entry> entries_;   // By frame & the state's window_mask.
  List in_order_;                // As they were pushed.
  List due_;                     // The others that may be called, as they became so.
  std::vector<Entry*> last_of_;  // By seat: the frame pushed last. Its entry may be another's now.
  bool held_ = false;
  bool calling_ = false;  // A callback runs, on whichever thread.
  bool ends_ = false;
  std::thread thread_;  // Last: it uses the rest.
};

}  // namespace penstock::pipeline
