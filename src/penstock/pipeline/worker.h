// Worker: one thread that runs one replica of a stage, frame by frame.
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

#include "penstock/pipeline/histogram.h"
#include "penstock/pipeline/stage.h"
#include "penstock/pipeline/stage_call.h"
#include "penstock/pipeline/wait.h"

namespace penstock::pipeline {

struct State;

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
  using Executables = StageCall::Executables;
  Status start(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
               Executables& executables);
  void join();
  void free() { call_.reset(); }          ///< \pre  joined.
  void cancel_run() { call_->cancel(); }  ///< Asks the backends to end a run in progress.

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
  [[nodiscard]] backend::Context::Counters counters() const { return call_->counters(); }
  [[nodiscard]] Spans spans() const;  ///< If tracing.
  [[nodiscard]] const Stage& stage() const { return stage_; }
  [[nodiscard]] std::size_t replica() const { return replica_; }

  // For calls that hang; on other threads than its own.
  [[nodiscard]] std::int64_t max_run_ns() const { return max_run_ns_; }  ///< 0: not watched.
  [[nodiscard]] CallClock& clock() { return call_->clock(); }
  /// How long the call that was read has run, as far as that counts against it.
  [[nodiscard]] std::int64_t ran_ns(CallClock::Reading reading) const;
  /// Fails the frame of the call that hangs, and lets another thread pass on those behind it.
  void replace(std::int64_t ran_ns);
  /// The same for a call in progress of a pipeline that ends. \pre it is cancelled.
  /// \returns a sentence about the call; nothing where there is none.
  std::optional<std::string> leave_behind();

 private:
  void main(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
            Executables& executables, std::promise<Status>& started);
  Status prepare(const std::vector<backend::CompileRequest>& requests, const std::vector<int>& mask,
                 Executables& executables);
  Status compile(const std::vector<backend::CompileRequest>& requests, Executables& executables);
  /// The threads that this one makes inherit the name: it tells ours from the rest.
  [[nodiscard]] std::string thread_name() const;
  [[nodiscard]] Status check_threads(const std::vector<int>& mask, std::size_t expected) const;

  void loop();
  bool claim(FrameNumber* frame);
  [[nodiscard]] bool leave_at(FrameNumber frame) const;
  void wait_for_input(FrameNumber frame);
  void wait_for_room(FrameNumber frame);
  bool process(FrameNumber frame);  ///< False: abandoned meanwhile; nothing may be touched.
  bool begin(FrameNumber frame);    ///< Holds its slots, unless it is not to be computed.
  bool take_slots(FrameNumber frame);
  [[nodiscard]] bool is_due(FrameNumber frame) const;  ///< Not failed before or, mostly, beside.
  /// Fails what is given up, cancelled or behind a call that hangs. \returns whether it is.
  bool fail_if_ended(FrameNumber frame);
  bool fail_if_expired(FrameNumber frame);  ///< \returns whether it is past its deadline.
  void wait_for_states(FrameNumber frame);
  [[nodiscard]] std::int64_t ready_since(FrameNumber frame) const;
  void finish(FrameNumber frame);
  void fail(FrameNumber frame, Error error);
  void leave();                                     ///< This worker passes no more frames.
  [[nodiscard]] bool hand_over(FrameNumber frame);  ///< False: there is no thread for it.
  void take_over(FrameNumber frame);
  void note(FrameNumber frame, std::int64_t ready, std::int64_t start, std::int64_t end);

  State& state_;
  Stage& stage_;
  const std::size_t replica_;
  std::unique_ptr<StageCall> call_;
  std::int64_t clock_ = 0;  // End of the last frame; the start of the next unless idle between.
  bool idled_ = true;
  std::int64_t average_ns_ = 0;   // Of service, by frame.
  std::int64_t interval_ns_ = 0;  // Between the ends of two frames, on average.
  std::int64_t last_end_ = 0;
  std::int64_t max_run_ns_ = 0;
  std::atomic<FrameNumber> running_frame_{0};
  mutable std::mutex span_mutex_;  // Guards the two below.
  std::vector<Span> spans_;
  std::uint64_t span_count_ = 0;
  std::thread thread_;  // Last: joined first, while all it uses is still alive.
};

}  // namespace penstock::pipeline
