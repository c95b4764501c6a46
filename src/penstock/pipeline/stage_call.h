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
/// frame at a time; a worker has as many as it computes frames at a time.
/// \threads  on the worker's thread, but cancel(), clock() and counters().
class StageCall {
 public:
  using Executables = std::vector<std::shared_ptr<backend::Executable>>;

  StageCall(Stage& stage, const Ending& ending) : stage_(stage), ending_(ending) {}

  /// Makes the contexts. `executables`: one for each of the stage's partitions.
  Status open(const Executables& executables);
  /// Runs once on zeros, in the first slots of the edges. \pre  no frame was pushed yet.
  void warm_up();

  /// Where the frame's tensors lie. \pre  its slots are held.
  void bind(FrameNumber frame);
  /// Computes the frame that was bound. With `sample`, began_ns() tells when its inputs were there.
  /// Its clock must run: a call that was abandoned meanwhile touches nothing more.
  Status run(FrameNumber frame, bool sample);
  /// What the frame wrote is the next one's state. \pre  run() was ok.
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
    backend::Context::Counters at_start;
  };

  void warm_up_parts();
  [[nodiscard]] bool has_items(std::size_t part) const;
  void gather(FrameNumber frame, std::size_t part);
  void advance_parameters(FrameNumber frame);
  Tensor& target_of(const Wire& wire);  // Where the frame is written.
  Status run_parts(FrameNumber frame, bool sample);
  Status run_items(FrameNumber frame);
  Result<std::int64_t> count_items(FrameNumber frame);
  void view_item(std::size_t part, std::int64_t item);
  Status run_item(FrameNumber frame, std::int64_t item);
  Status put_in_place(const Target& target, const Tensor& item, void* place);
  void restore_storage();

  Stage& stage_;
  const Ending& ending_;
  CallClock clock_;
  std::vector<Part> parts_;
  std::vector<Tensor> locals_;
  std::vector<Slot*> in_slots_, out_slots_;
  std::shared_ptr<const ParameterVersion> parameters_;
  std::int64_t began_ns_ = 0;
  std::atomic<std::uint64_t> copies_{0};  // Of states and items; the backends count theirs.
};

}  // namespace penstock::pipeline
