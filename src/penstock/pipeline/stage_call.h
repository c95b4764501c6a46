// StageCall: one call of a stage: what it computes a frame with, and where that frame's tensors
// lie.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/pipeline/call_clock.h"
#include "penstock/pipeline/ending.h"
#include "penstock/pipeline/stage.h"

namespace penstock::pipeline {

/// A context of each of the stage's models, and room for what passes between them. Computes one
/// frame at a time; a worker has one for each of its lanes.
/// \threads  on the worker's thread, but cancel(), clock() and counters().
class StageCall {
 public:
  using Executables = std::vector<std::shared_ptr<backend::Executable>>;

  /// `parker`: the worker's, woken when a call is done that goes on by itself.
  StageCall(Stage& stage, const Ending& ending, Parker& parker)
      : stage_(stage), ending_(ending), parker_(parker) {}

  /// Makes the contexts. `executables`: one for each of the stage's partitions.
  Status open(const Executables& executables);
  /// Runs once on zeros, in the first slots of the edges. \pre  no frame was pushed yet.
  void warm_up();

  /// Where the frame's tensors lie. \pre  its slots are held.
  void bind(FrameNumber frame);
  /// Begins to compute the frame that was bound, to be ended by `deadline_ns`. With `sample`,
  /// began_ns() tells when its inputs were there. Its clock must run: a call that was abandoned
  /// meanwhile touches nothing more.
  Status start(FrameNumber frame, std::int64_t deadline_ns, bool sample);
  /// Waits for what start() began. \error kDeadlineExceeded  in_progress() still at `until_ns`.
  /// \pre  start() was ok.
  Status finish(std::int64_t until_ns);
  /// Whether such calls go on by themselves. What follows a partition, is done for each item, or is
  /// a state, is done on the worker's thread.
  static bool goes_on_alone(const Stage& stage, const Executables& executables) {
    return executables.size() == 1 && stage.plan->each.empty() && stage.states_in.empty() &&
           stage.states_out.empty() && !stage.feeds_state && executables.front()->is_asynchronous();
  }
  /// Whether the backend computes by itself what start() began.
  [[nodiscard]] bool in_progress() const { return in_progress_; }
  /// Whether finish() need not wait.
  [[nodiscard]] bool done() const { return !in_progress_ || done_.load(std::memory_order_seq_cst); }
  /// Of a call that was abandoned: looks once more whether it is in progress.
  bool in_progress_still();
  /// What is in progress is lost: the frame's slots get storage that it does not write to.
  void abandon();
  /// What the frame wrote is the next one's state. \pre  finish() was ok.
  Status advance_states();
  [[nodiscard]] std::int64_t began_ns() const { return began_ns_; }  ///< 0: not sampled.

  void cancel();  ///< Asks the backends to end a run in progress.
  [[nodiscard]] CallClock& clock() { return clock_; }
  [[nodiscard]] backend::Context::Counters counters() const;  ///< Since the warm-up.

 private:
  struct Part {  // A partition's context and its argument arrays, filled for each frame.
    std::shared_ptr<backend::Executable> executable;
    std::unique_ptr<backend::Context> context;
    std::vector<const Tensor*> inputs;
    std::vector<Tensor*> outputs;
    std::vector<Tensor> input_items, output_items;  // Views; of stages that run for each item.
    std::vector<void*> places;                      // Where the items of `output_items` belong.
    std::vector<Tensor> own_inputs,
        own_outputs;  // Of asynchronous calls: share the slots' storage.
    backend::Context::Counters at_start;
  };

  void warm_up_parts();
  [[nodiscard]] bool has_items(std::size_t part) const;
  void gather(FrameNumber frame, std::size_t part);
  void advance_parameters(FrameNumber frame);
  Tensor& target_of(const Wire& wire);  // Where the frame is written.
  Status run_parts(FrameNumber frame, std::int64_t deadline_ns, bool sample);
  void detach(Part& part);  // From the slots' own tensors, which a call that is lost would touch.
  void attach(Part& part);
  Status restored(Status failed);
  static void tell_done(void* self);
  Status run_items(FrameNumber frame);
  Result<std::int64_t> count_items(FrameNumber frame);
  void view_item(std::size_t part, std::int64_t item);
  Status run_item(FrameNumber frame, std::int64_t item);
  Status put_in_place(const Target& target, const Tensor& item, void* place);
  void restore_storage();

  Stage& stage_;
  const Ending& ending_;
  Parker& parker_;
  CallClock clock_;
  bool asynchronous_ = false;
  bool in_progress_ = false;
  std::atomic<bool> done_{false};
  std::vector<Part> parts_;
  std::vector<Tensor> locals_;
  std::vector<Slot*> in_slots_, out_slots_;
  std::shared_ptr<const ParameterVersion> parameters_;
  std::int64_t began_ns_ = 0;
  std::atomic<std::uint64_t> copies_{0};  // Of states and items; the backends count theirs.
};

}  // namespace penstock::pipeline
