// BatchedCall: a stage's models for one number of frames, and where these frames' tensors lie.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/pipeline/counters.h"
#include "penstock/pipeline/open_rows.h"
#include "penstock/pipeline/record.h"
#include "penstock/pipeline/rows.h"
#include "penstock/pipeline/stage.h"
#include "penstock/pipeline/warm_up.h"

namespace penstock::pipeline {

/// A frame, and where its tensors lie on each of the stage's edges.
struct BoundFrame {
  FrameNumber frame = 0;
  const Record* record = nullptr;  // Once the call is left behind, it may be another frame's.
  std::int64_t deadline_ns = backend::kNoDeadline;  // Steady clock.
  std::uint32_t seat = 0;                           // Where its stream's states lie: streams.h.
  FrameNumber step = 0;                             // How many frames the seat had before it.
  // A copy: a call that is left behind reads it when the record is another frame's.
  std::string traceparent;
  // Of each of Stage::in_edges: the frame's tensors in its slot, or in a mirror of it.
  std::vector<const std::vector<const Tensor*>*> in;
  // Of each of Stage::out_edges: the tensors to write, in a slot, in a mirror of it or in `beside`.
  std::vector<std::vector<Tensor>*> out;
  std::vector<Slot*> in_slots;   // Of each of Stage::in_edges.
  std::vector<Slot*> out_slots;  // Of each of Stage::out_edges; null: `beside` takes the outputs.
  // Of each of Stage::out_edges: storage for outputs that nobody reads, since the frame is computed
  // again for those of another edge alone.
  std::vector<std::vector<Tensor>> beside;
  std::vector<const Tensor*> state_in;  // Of each of Stage::states_in.
  std::vector<Tensor*> state_out;       // Of each of Stage::states_out.
  // True: in, out, state_in and state_out point into `copies`, so that a call that is left behind
  // touches no slot.
  bool apart = false;
  struct Copies {  // They share the storage of what they are copied from.
    std::vector<std::vector<Tensor>> in, out;
    std::vector<std::vector<const Tensor*>> now;  // Pointers into `in`.
    std::vector<Tensor> state_in, state_out;
  } copies;
};

/// The numbers of frames, ascending, for which all partitions of the stage have models; no 1.
/// \error kInvalidArgument  the stage is to take several frames in one call, and there is none.
Result<std::vector<int>> batch_sizes(const plan::Stage& stage);

/// Computes up to rows() frames, or items of one frame, in one call of each model. Rows that are
/// not given are computed and thrown away.
/// \threads  one at a time, but counters().
class BatchedCall {
 public:
  using Executables = std::span<const std::shared_ptr<backend::Executable>>;

  /// `memory`: where the stage's tensors lie; null: in the host's.
  BatchedCall(Stage& stage, backend::Memory* memory, int rows)
      : stage_(stage), memory_(memory), rows_(static_cast<std::size_t>(rows)) {}

  /// Of the stage's partitions: the models for one frame, and those for `rows`.
  /// \error kInvalidArgument  they do not fit each other; or of a memory that gives no storage.
  Status open(Executables ones, Executables several);
  void warm_up(WarmUp& warm_up, const std::vector<Tensor>* parameters);

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] backend::Context& context(std::size_t part) { return *parts_[part].context; }

  /// What runs next reads and writes these frames; the caller keeps them until it has ended.
  void bind(std::span<const BoundFrame> frames);
  /// What runs next reads and writes these items of a frame.
  void bind_items(const BoundFrame& frame, std::size_t first, std::size_t count);
  /// Starts a partition. `parameters`: the stage's, where its tensors lie.
  /// \pre  the partitions before it are shared out.
  Status run(std::size_t part, const backend::Call& call, const std::vector<Tensor>* parameters);
  /// Brings what a partition wrote to where it belongs. \pre  its run has ended well.
  /// \error kInternal  an output is not as declared; or of a copy.
  Status share_out(std::size_t part);
  void restore();  ///< After a run that failed.
  void cancel();   ///< Asks the backends to end a run in progress. Any thread.

  [[nodiscard]] Counters counters() const;  ///< The backends', and copied rows.

 private:
  struct Port {
    Wire wire;
    Type type;  // Of the tensor that holds all rows.
    Rows rows;  // Used where the shape is fixed, and the wire is no local and no parameter.
    std::optional<OpenRows> open_rows;  // Used in place of `rows` where the shape is open.
    // The shape that each frame's tensor must have, where the model fixes one that the plan leaves
    // open. Empty: none has to be checked.
    std::vector<std::int64_t> row;
  };
  struct Part {
    std::shared_ptr<backend::Executable> executable;
    std::unique_ptr<backend::Context> context;
    std::vector<Port> inputs, outputs;
    std::vector<const Tensor*> read;  // Inputs of the run in progress, of each of `inputs`.
    std::vector<Tensor*> written;     // Outputs of the run in progress, of each of `outputs`.
    Counters at_start;                // The context's when it had been warmed up.
  };

  Status add_part(const CompiledPartition& partition, backend::Executable& one,
                  const std::shared_ptr<backend::Executable>& several);
  [[nodiscard]] const Tensor& tensor_of(const Wire& wire, std::size_t frame) const;
  [[nodiscard]] Tensor& target_of(const Wire& wire, std::size_t frame) const;
  [[nodiscard]] bool is_fixed_by_plan(const Wire& wire) const;
  Status hold_rows(Port& port, const Type& one, bool written);
  static Status check_row(const Port& port, const Tensor& tensor);
  Status find_rows(Port& port) const;
  Result<const Tensor*> gather(Port& port, std::uint64_t& copies);
  Result<Tensor*> prepare(Port& port);
  Status try_restore();
  [[nodiscard]] bool has_open_shapes() const;
  static void let_go(Part& part);

  Stage& stage_;
  backend::Memory* const memory_;
  const std::size_t rows_;
  bool whole_ = true;                     // False: storage could not be restored after a failure.
  std::vector<Part> parts_;               // Of each of Stage::partitions.
  std::vector<Tensor> locals_;            // Of each of Stage::locals, for all rows.
  std::span<const BoundFrame> frames_;    // What bind() or bind_items() was given.
  std::size_t first_item_ = 0;            // Of bind_items(): the item in row 0.
  std::size_t given_ = 0;                 // Rows that hold a frame or an item; the others are idle.
  bool items_ = false;                    // True: the rows are items of one frame, not frames.
  std::vector<const Tensor*> read_;       // Room for gather(): one port's tensors, by row.
  std::vector<Tensor*> written_;          // Room for share_out(): one port's tensors, by row.
  std::atomic<std::uint64_t> copies_{0};  // Rows that were copied, since the start.
};

}  // namespace penstock::pipeline
