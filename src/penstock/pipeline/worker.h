// Worker: one thread that runs one replica of a stage, frame by frame.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/pipeline/call_clock.h"
#include "penstock/pipeline/histogram.h"
#include "penstock/pipeline/parker.h"
#include "penstock/pipeline/progress.h"
#include "penstock/pipeline/stage.h"

namespace penstock::pipeline {

struct State;

/// What of a wait is fixed before the threads start: whom to wait for, and which cell is ours.
struct Wait {
  Progress* progress = nullptr;
  Progress::Cell* cell = nullptr;
  const std::atomic<std::int64_t>* period_ns =
      nullptr;           // Pace of what is waited for; null unknown.
  FrameNumber seen = 0;  // Its count as last read: spares the other side's cache line.
};

/// How many frames a sleeper is content to be woken for at once, and how long these may take.
struct Batch {
  /// Between stages: what the other end does not notice while its own backlog lasts.
  static constexpr std::int64_t kStagePatience = 400'000;
  /// Of the caller's thread, which has no CPU of its own: every time it wakes it puts a stage off.
  static constexpr std::int64_t kCallerPatience = 2'000'000;

  FrameNumber frames = 1;
  std::int64_t patience_ns = kStagePatience;
};

/// Sleeps until `wait.progress` reaches `least`, or something about the pipeline changes, or
/// `deadline`. Under backlog it may ask to be woken later, for up to `batch.frames` at once where
/// these are due within `batch.patience_ns`: waking a thread costs its waker 7-18 us, so wakes are
/// what bounds the rate of short stages. `interrupted()` is checked after the wait is announced.
template <typename Interrupted>
void sleep_until(Wait& wait, FrameNumber least, Batch batch, std::int64_t deadline,
                 Interrupted interrupted);

struct Span {
  FrameNumber frame;
  std::int64_t ready_ns, start_ns, end_ns;
};

struct Spans {
  std::vector<Span> kept;  ///< The last ones, in no order.
  std::uint64_t lost = 0;  ///< How many came before them.
};

class Worker {
 public:
  Worker(State& state, Stage& stage, std::size_t replica);
  ~Worker();

  /// Starts the thread, compiles and warms up there; returns when the worker waits for frame 0 or
  /// has failed. `executables`: shared by replicas; filled by the first one that compiles.
  using Executables = std::vector<std::shared_ptr<backend::Executable>>;
  Status start(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
               Executables& executables);
  void join();
  void free();        ///< Ends its contexts. \pre  joined.
  void cancel_run();  ///< Asks the backends to end a run in progress. Any thread.

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
  std::atomic<std::uint64_t> frames{0}, errors{0}, drops{0};
  [[nodiscard]] backend::Context::Counters counters() const;  ///< Since the warm-up.
  [[nodiscard]] Spans spans() const;                          ///< If tracing.
  [[nodiscard]] const Stage& stage() const { return stage_; }
  [[nodiscard]] std::size_t replica() const { return replica_; }

  // For calls that hang; on other threads than its own.
  [[nodiscard]] std::int64_t max_run_ns() const { return max_run_ns_; }  ///< 0: not watched.
  [[nodiscard]] CallClock& clock() { return call_clock_; }
  /// How long the call that was read has run, as far as that counts against it.
  [[nodiscard]] std::int64_t ran_ns(CallClock::Reading reading) const;
  /// Fails the frame of the call that hangs, and lets another thread pass on those behind it.
  void replace(std::int64_t ran_ns);
  /// The same for a call in progress of a pipeline that ends. \pre it is cancelled.
  /// \returns a sentence about the call; nothing where there is none.
  std::optional<std::string> leave_behind();

 private:
  struct Part {  // A partition's context and its argument arrays, filled for each frame.
    std::shared_ptr<backend::Executable> executable;
    std::unique_ptr<backend::Context> context;
    std::vector<const Tensor*> inputs;
    std::vector<Tensor*> outputs;
    std::vector<Tensor> input_items, output_items;  // Views; of stages that run for each item.
    std::vector<void*> places;                      // Where the items of `output_items` belong.
    backend::Context::Counters at_start;
  };

  void main(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
            Executables& executables, std::promise<Status>& started);
  Status prepare(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
                 Executables& executables);
  Status compile(const std::vector<backend::CompileRequest>& requests, Executables& executables);
  Status wire(CompiledPartition& partition, const backend::Executable& executable);
  Status warm_up();
  void warm_up_parts();
  [[nodiscard]] bool has_items(std::size_t part) const;
  /// The threads that this one makes inherit the name: it tells ours from the rest.
  [[nodiscard]] std::string thread_name() const;
  [[nodiscard]] Status check_threads(const std::vector<int>& mask, std::size_t expected) const;

  void loop();
  bool claim(FrameNumber* frame);
  [[nodiscard]] bool leave_at(FrameNumber frame) const;
  void wait_for_input(FrameNumber frame);
  void wait_for_room(FrameNumber frame);
  bool process(FrameNumber frame);  ///< False: abandoned meanwhile; nothing may be touched.
  bool begin(FrameNumber frame);
  [[nodiscard]] bool is_due(FrameNumber frame) const;  ///< Not failed before or, mostly, beside.
  bool ended(FrameNumber frame);  ///< Given up, cancelled or behind a call that hangs: has failed.
  void wait_for_states(FrameNumber frame);
  bool expired(FrameNumber frame);  ///< Past its deadline: then it has failed.
  [[nodiscard]] std::int64_t ready_since(FrameNumber frame) const;
  Status compute(FrameNumber frame, bool sample);
  Status run_parts(FrameNumber frame, bool sample);
  Status run_items(FrameNumber frame);
  Result<std::int64_t> count_items(FrameNumber frame);
  void view_item(std::size_t part, std::int64_t item);
  Status run_item(FrameNumber frame, std::int64_t item);
  Status put_in_place(const CompiledPartition& partition, std::size_t output, const Tensor& item,
                      void* place);
  Status advance_states();
  void gather(FrameNumber frame, std::size_t part);
  Tensor& target_of(const Wire& wire);  ///< Where the frame in work is written.
  void restore_storage();
  void finish(FrameNumber frame);
  void fail(FrameNumber frame, Error error);
  void leave();                                     ///< This worker passes no more frames.
  [[nodiscard]] bool hand_over(FrameNumber frame);  ///< False: there is no thread for it.
  void take_over(FrameNumber frame);
  void advance_parameters(FrameNumber frame);
  void note(FrameNumber frame, std::int64_t ready, std::int64_t start, std::int64_t end);

  State& state_;
  Stage& stage_;
  const std::size_t replica_;
  std::vector<Part> parts_;
  std::vector<Tensor> locals_;
  std::vector<Slot*> in_slots_, out_slots_;
  std::shared_ptr<const ParameterVersion> parameters_;
  std::int64_t clock_ = 0;  // End of the last frame; the start of the next unless idle between.
  std::int64_t infer_start_ = 0;  // Of the frame in work, where sampled.
  bool idled_ = true;
  std::int64_t average_ns_ = 0;   // Of service, by frame.
  std::int64_t interval_ns_ = 0;  // Between the ends of two frames, on average.
  std::int64_t last_end_ = 0;
  std::atomic<std::uint64_t> copies_{0};  // Of states and items; the backends count theirs.
  std::int64_t max_run_ns_ = 0;
  CallClock call_clock_;
  std::atomic<FrameNumber> running_frame_{0};
  mutable std::mutex span_mutex_;  // Guards the two below.
  std::vector<Span> spans_;
  std::uint64_t span_count_ = 0;
  std::thread thread_;  // Last: joined first, while all it uses is still alive.
};

template <typename Interrupted>
void sleep_until(Wait& wait, FrameNumber least, Batch batch, std::int64_t deadline,
                 Interrupted interrupted) {
  constexpr int kSpins = 20;  // About 1 us.
  for (int i = 0; i < kSpins; ++i) {
    wait.seen = wait.progress->done();
    if (wait.seen >= least || interrupted()) return;
    relax();
  }
  if (batch.frames > 1) {
    const std::int64_t period =
        wait.period_ns == nullptr ? 0 : wait.period_ns->load(std::memory_order_relaxed);
    const auto due = static_cast<FrameNumber>(period > 0 ? batch.patience_ns / period : 1);
    batch.frames = std::min(batch.frames, std::max<FrameNumber>(due, 1));
  }
  const FrameNumber target = least + batch.frames - 1;
  // A batch is only ever waited for this long: whatever holds it up, `least` is looked at again.
  const std::int64_t until =
      batch.frames > 1 ? std::min(deadline, now_ns() + batch.patience_ns) : deadline;
  Parker& parker = *wait.cell->parker;
  parker.prepare();
  wait.cell->target.store(target, std::memory_order_seq_cst);
  wait.seen = wait.progress->done();
  if (wait.seen >= target || interrupted()) {
    parker.abandon();
  } else {
    parker.sleep(until);
  }
  wait.cell->target.store(UINT64_MAX, std::memory_order_seq_cst);
  wait.seen = wait.progress->done();
}

}  // namespace penstock::pipeline
