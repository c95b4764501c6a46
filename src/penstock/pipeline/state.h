// State: everything of a running plan.
// That is a pipeline, or one generation of a pipeline that was replaced. Shared by the Pipeline,
// its workers and the Outputs that are still held.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/pipeline/capacity.h"
#include "penstock/pipeline/delivery.h"
#include "penstock/pipeline/edge.h"
#include "penstock/pipeline/ending.h"
#include "penstock/pipeline/gate.h"
#include "penstock/pipeline/journeys.h"
#include "penstock/pipeline/loans.h"
#include "penstock/pipeline/observer.h"
#include "penstock/pipeline/parker.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/pipeline/progress.h"
#include "penstock/pipeline/record.h"
#include "penstock/pipeline/release_watch.h"
#include "penstock/pipeline/stage.h"
#include "penstock/pipeline/state_edge.h"
#include "penstock/pipeline/streams.h"
#include "penstock/pipeline/turns.h"
#include "penstock/pipeline/watchdog.h"
#include "penstock/plan/bound.h"

namespace penstock::pipeline {

class Worker;

/// A part of the caller's side that can sleep: the pusher, the popper, the drainer. One thread at a
/// time plays it: the one that has its turn.
struct Caller {
  Parker parker;
  std::vector<Wait> waits;
};

/// Where one of the plan's inputs or outputs sits.
struct Place {
  Edge* edge = nullptr;    // Null: an input that nobody reads.
  std::size_t tensor = 0;  // Position in Edge::tensors.
};

/// How the frames of all generations of a pipeline came out.
class Totals {
  using Counters = std::array<std::atomic<std::uint64_t>, 4>;  // By Outcome.
  static auto& at(auto& counters, Outcome outcome) {
    return counters[static_cast<std::size_t>(outcome)];
  }

 public:
  void count(Outcome outcome) { at(others_, outcome).fetch_add(1, std::memory_order_release); }
  /// count() without an atomic addition. In the popper's turn, which alone calls it.
  void count_popped(Outcome outcome) {
    auto& counter = at(popped_, outcome);
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t of(Outcome outcome) const {
    return at(popped_, outcome).load(std::memory_order_acquire) +
           at(others_, outcome).load(std::memory_order_acquire);
  }
  ObserverPlace observer;

  /// Of every outcome. Who sees a frame counted here sees also what the stages wrote for it.
  [[nodiscard]] FrameNumber all() const {
    return of(Outcome::kOk) + of(Outcome::kError) + of(Outcome::kDropped) + of(Outcome::kCancelled);
  }

 private:
  Counters popped_{}, others_{};
};

struct State : std::enable_shared_from_this<State> {
  State();
  ~State();

  plan::Plan plan;
  std::filesystem::path folder;  // Where the plan's relative paths start.
  backend::Registry backends;    // That it was started with. A swap that fails may start it anew.
  Options options;
  Memories memories;
  std::vector<std::unique_ptr<Edge>> edges;
  std::vector<std::unique_ptr<StateEdge>> states;  // Beside plan.states.
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<std::unique_ptr<Worker>> workers;  // Stage by stage, replica by replica.
  std::vector<Worker*> fillers;                  // Those whose calls wait for more frames.

  plan::BoundValues bound;  // Values of the model's inputs that the plan has bound.

  std::shared_ptr<Streams> streams;

  Progress source;                            // Frames pushed.
  Progress sink;                              // Frames released by the caller.
  std::vector<Record> records;                // By frame & window_mask.
  std::vector<std::int64_t> source_ready_ns;  // By frame & window_mask: when it was pushed.
  std::size_t window_mask = 0;
  FrameNumber in_flight_limit = 0;
  FrameNumber wake_batch = 1;  // Most frames a sleeper may wait for at once: choose_wake_batch().

  std::vector<Edge*> input_edges, output_edges;
  std::vector<Place> input_places, output_places;  // By position in plan.inputs, plan.outputs.
  Loans loans;                                     // To those who hold results.
  Caller pusher;   // Waits: the sink (frames in flight), then each stage that reads an input edge.
  Caller popper;   // Waits: each stage that feeds the output, or nothing.
  Caller drainer;  // Waits: as the popper.
  Turn drainers_turn;
  ReleaseWatch releases;                                     // In the drainer's turn.
  std::shared_ptr<Turns> turns = std::make_shared<Turns>();  // The pusher's and the popper's.
  std::vector<FrameNumber> input_capacities;  // Beside pusher.waits from the second on.
  std::unique_ptr<Journeys> journeys;         // If tracing; stays when the options are freed.
  FrameNumber next_pop = 0;                   // In the popper's turn.
  std::vector<Tensor> acquired;               // What acquire_input lends; in the pusher's turn.

  std::mutex looked_at;  // Held by who looks at what end() frees, and by end().

  FrameNumber first = 0;           // The generation's first frame.
  Gate gate;                       // Workers wait there until that one may begin.
  std::weak_ptr<State> successor;  // The generation behind. Written once, before ending.replaced().

  Delivery delivery;  // Its thread is joined by ~Pipeline.

  Ending ending;
  std::unique_ptr<Watchdog> watchdog;  // Null unless some stage has max_run.

  std::mutex left_mutex;         // Guards running_workers.
  std::condition_variable left;  // A worker's thread has left, and running_workers is less by one.
  int running_workers = 0;       // Threads of workers that have not left.
  // True: a call that hangs was left behind, and may still read tensors of this plan.
  std::atomic<bool> left_calls{false};

  std::atomic<int> hanging{0};  // Threads whose calls hang, and were left behind.

  std::atomic<FrameNumber> hurried_before{0};  // Frames for which no call waits: see hurry().

  std::atomic<int> awaiting_release{0};  // Stages that wait until the caller releases a result.

  std::shared_ptr<Totals> totals = std::make_shared<Totals>();

  Record& record(FrameNumber frame) { return records[frame & window_mask]; }
  /// Frames that the seat of a stream had, and those of them that were not popped.
  FrameNumber steps(Streams::Seat seat) const;
  FrameNumber not_popped(Streams::Seat seat) const;
  /// \pre  no frame of the seat is in flight, of which there were `step`.
  Status reset_states(Streams::Seat seat, FrameNumber step);
  void wake_everybody();
  void cancel(Error cause);              ///< And the generations behind.
  bool cancel_frame(FrameNumber frame);  ///< As Pipeline::cancel().
  void hurry(FrameNumber frame);         ///< As Pipeline::hurry().
  [[nodiscard]] bool hurries(FrameNumber frame) const {
    return frame < hurried_before.load(std::memory_order_seq_cst);
  }
  /// Calls that wait for more frames, and begin with one of these, look again whether they still
  /// do. Once what ends that is there to be seen: the frames failed, say. Any thread.
  void let_out(FrameNumber begin, FrameNumber end);
  /// Numbers begin with `next`. \pre  the gate is closed, and nothing was pushed.
  void begin_at(FrameNumber next);
  /// Workers leave now, whatever is in flight.
  void stop();
  /// stop(), then joins all threads and frees what only stages need. \pre  nobody pushes any more.
  void end();
  /// Pipeline::drain() of this generation's frames before `end`; hurries them.
  Status drain(std::chrono::nanoseconds timeout, std::int64_t deadline, FrameNumber end);
  bool wait_until_workers_left(std::int64_t deadline);  ///< False: some have not.
  /// A call that hangs on a device may still write to what it was given. Needs no memory.
  void keep_for_ever();
  /// Frees what only stages need; results that are still held keep their slots.
  /// \pre  every thread is joined, and no call was left behind.
  void free_stages();
  void hang(FrameNumber frame, Error cause);  ///< Frames before it finish, the others fail.
  /// Frames behind it are cancelled, those of the generations behind too; the others finish.
  void stop_behind(FrameNumber frame, Error cause);

 private:
  std::shared_ptr<State> kept_;   // Itself, once it is kept for ever.
  State* kept_before_ = nullptr;  // Those kept are a list, so that checkers of leaks find them.
};

}  // namespace penstock::pipeline
