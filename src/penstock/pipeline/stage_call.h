// StageCall: one call of a stage.
// What the stage computes a frame with, or several, and where their tensors lie.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/pipeline/batched_call.h"
#include "penstock/pipeline/call_clock.h"
#include "penstock/pipeline/ending.h"
#include "penstock/pipeline/record.h"
#include "penstock/pipeline/stage.h"
#include "penstock/pipeline/warm_up.h"

namespace penstock::pipeline {

/// A context of each of the stage's models, and room for what passes between them. Computes one
/// frame, or in one call of each model several; a worker has one for each of its lanes.
/// \threads  on the worker's thread, but cancel(), clock() and counters().
class StageCall {
 public:
  /// Of the stage's partitions: the models for one frame, then those for each of batch_sizes().
  using Executables = std::vector<std::shared_ptr<backend::Executable>>;

  /// `memory`: the replica's. `parker`: the worker's, woken when a call is done that goes on by
  /// itself. `may_be_left`: another thread may abandon() one that hangs on the worker's thread.
  StageCall(Stage& stage, backend::Memory* memory, const Ending& ending, Parker& parker,
            bool may_be_left)
      : stage_(stage),
        memory_(memory),
        ending_(ending),
        parker_(parker),
        may_be_left_(may_be_left) {}

  /// Makes the contexts.
  Status open(const Executables& executables);
  /// Runs once on zeros, in the first slots of the edges. \pre  no frame was pushed yet.
  Status warm_up(WarmUp& warm_up);

  void clear() { count_ = 0; }  ///< No frame is bound.
  /// Another frame that start() computes: where its tensors and its stream's states lie.
  /// `again`: only what it writes there is wanted, and nothing of the other edges is touched.
  /// \pre  its slots are held; fewer are bound than the stage takes in one call.
  /// \error  of a memory that has no storage in place of what a lost call still reads, or beside
  ///         the other edges.
  Status bind(FrameNumber frame, const Record& record, const Edge* again = nullptr);
  /// Frees what lies beside edges. \pre  finish() was true, or nothing is bound.
  void forget_beside();
  /// An input of the i-th frame that was lost with the machine that had it; null: none was.
  Edge* lost_input(std::size_t i);
  [[nodiscard]] std::size_t count() const { return count_; }  ///< Frames that are bound.

  /// Begins to compute the frames that are bound: in one call, and where that fails, each frame
  /// alone. With `sample`, began_ns() tells when the inputs were there. The clock runs until the
  /// call has ended; it begins at `now_ns`, of a call that another thread may abandon once its
  /// tensors are its own. False: the call was abandoned meanwhile, and touches nothing more.
  /// \pre  frames are bound.
  bool start(std::int64_t now_ns, bool sample);
  /// Waits for what start() began. False: in_progress() still at `until_ns`.
  bool finish(std::int64_t until_ns);
  /// For how many frames the models are that computed them: 1 if each was computed alone.
  [[nodiscard]] std::size_t rows() const { return together_ == nullptr ? 1 : together_->rows(); }
  /// Rows that it computed for no frame, or for no item of one.
  [[nodiscard]] std::size_t idle_rows() const {
    return together_ == nullptr ? idle_rows_of_items_ : together_->rows() - count_;
  }
  [[nodiscard]] FrameNumber frame(std::size_t i) const { return bound_[i].frame; }
  /// How the i-th of the frames ended. \pre  finish() was true, or i < settled()
  Status& status(std::size_t i) { return statuses_[i]; }
  /// Of a call that hangs: so many of its frames had ended before, as each ran alone. The call
  /// touches nothing of theirs any more.
  [[nodiscard]] std::size_t settled() const { return alone_; }
  /// Whether such calls go on by themselves. What follows a partition, is done for each item, or is
  /// a state, is done on the worker's thread.
  static bool goes_on_alone(const Stage& stage, const Executables& executables) {
    return stage.partitions.size() == 1 && stage.plan->each.empty() && stage.states_in.empty() &&
           stage.states_out.empty() && !stage.feeds_state && executables.front()->is_asynchronous();
  }
  /// Whether the backend computes by itself what start() began.
  [[nodiscard]] bool in_progress() const { return in_progress_; }
  /// Whether finish() need not wait.
  [[nodiscard]] bool done() const { return !in_progress_ || done_.load(std::memory_order_seq_cst); }
  /// Of a call that was abandoned: looks once more whether it is in progress.
  bool in_progress_still();
  /// Whether what is in progress touches no tensor but its own, so that it may be left behind.
  [[nodiscard]] bool apart() const { return apart_.load(std::memory_order_relaxed); }
  /// What is in progress is lost: the slots of the frames that are not settled() get storage that
  /// it does not write to, and those that it reads get other storage before they are written.
  /// \pre  apart()
  /// \error  of the memory that gives none.
  Status abandon();
  /// By the thread of a call that was abandoned, when it has ended: others may free it now.
  void come_back() { came_back_.store(true, std::memory_order_release); }
  /// Copies to the states what the i-th frame wrote elsewhere too. \pre  status(i) is ok.
  Status take_states(std::size_t i);
  [[nodiscard]] std::int64_t began_ns() const { return began_ns_; }  ///< 0: not sampled.
  /// Whether tensors move from one memory to another for it.
  [[nodiscard]] bool moves() const { return moves_; }
  [[nodiscard]] std::int64_t transfer_ns() const { return transfer_ns_; }  ///< How long that took.
  /// The part of it that came before began_ns().
  [[nodiscard]] std::int64_t transfer_before_ns() const { return transfer_before_ns_; }
  /// What another machine did of the call that ended last; zeros where its frames had a call each.
  [[nodiscard]] backend::FarTimes far_times() const;

  void cancel();      ///< Asks the backends to end a run in progress, or else the next one.
  void cancel_run();  ///< Asks them to end the run in_progress(). On the worker's thread.
  [[nodiscard]] CallClock& clock() { return clock_; }
  [[nodiscard]] Counters counters() const;  ///< Since the warm-up.

 private:
  struct Part {  // A partition's context and its argument arrays, filled for each frame.
    std::shared_ptr<backend::Executable> executable;
    std::unique_ptr<backend::Context> context;
    std::vector<const Tensor*> inputs;
    std::vector<Tensor*> outputs;
    std::vector<Tensor> input_items, output_items;  // Views; of stages that run for each item.
    std::vector<void*> places;                      // Where the items of `output_items` belong.
    Counters at_start;
  };

  Status open_part(std::size_t part, const std::shared_ptr<backend::Executable>& executable);
  void warm_up_parts(WarmUp& warm_up);
  [[nodiscard]] bool has_items(std::size_t part) const;
  void find_mirrors();
  [[nodiscard]] BoundFrame room_for_frame() const;
  Status renew(const BoundFrame& bound);
  /// bind() for a frame that is computed again: outputs of all edges but `again` go nowhere.
  Status bind_beside(BoundFrame& bound, const Edge& again);
  void bind_states(BoundFrame& bound);
  void bind_mirrors(BoundFrame& bound);
  Status bring_inputs(const BoundFrame& bound);
  Status bring_outputs();
  Status check_results(std::size_t part) const;
  void note_begin();
  void gather(std::size_t part);
  void advance_parameters(FrameNumber frame);
  void take_parameters(std::shared_ptr<const ParameterVersion> version);
  const Tensor* input_of(const Wire& wire);  // What the call reads.
  Tensor& target_of(const Wire& wire);       // Where the frame's tensor is written.
  [[nodiscard]] backend::Memory* memory_of(const Wire& wire) const;  // In which target_of() lies.

  // Several frames in one call.
  void start_together();
  Status run_together();
  void end_together(Status ended);
  void bring_all_outputs();
  BatchedCall& smallest_for(std::size_t frames);
  // Each frame alone.
  void start_alone();
  /// Between the calls for one frame, or for several. \error  nobody waits for the frame any more.
  [[nodiscard]] Status check_wanted() const;
  void end_alone(Status ended);
  Status run_parts();
  backend::Context& context_in_progress();
  Status wait_for_context(std::int64_t until_ns);
  backend::Call call_of(const BoundFrame& frame);
  void begin_clock(std::int64_t now_ns);
  bool restart_clock();
  static Error abandoned();  ///< It is told to nobody.

  // Calls that may be left behind: what they know are copies of the slots' and states' tensors.
  bool set_apart(std::span<BoundFrame> frames);
  static void detach(BoundFrame& bound);
  void attach(BoundFrame& bound);
  Status leave(BoundFrame& bound);
  std::vector<Tensor>& written_of(BoundFrame& bound, std::size_t edge) const;
  bool settle();
  Status restored(Status failed);
  static void tell_done(void* self);

  // Each item of a frame.
  Status run_items();
  Result<std::int64_t> count_items();
  Status run_items_together(std::int64_t first, std::size_t count);
  void view_item(std::size_t part, std::int64_t item);
  Status run_item(std::int64_t item);
  Status put_in_place(const Target& target, const Tensor& item, void* place);
  Status restore_storage();

  // In which locals and states lie, and whatever else is on no edge; null: the host's.
  [[nodiscard]] backend::Memory* local_memory() const {
    return memory_ != nullptr && memory_->reaches_host() ? nullptr : memory_;
  }

  Stage& stage_;
  backend::Memory* const memory_;
  const Ending& ending_;
  Parker& parker_;
  const bool may_be_left_;
  CallClock clock_;
  std::atomic<bool> apart_{false}, came_back_{false};
  bool asynchronous_ = false;
  bool moves_ = false;
  bool stateful_ = false;            // States are read or written.
  std::vector<std::size_t> reads_;   // Of each of Stage::in_edges: its mirror, or Edge::kOwn.
  std::vector<std::size_t> writes_;  // Of each of Stage::out_edges: its mirror, or Edge::kOwn.
  bool in_progress_ = false;         // start() began what finish() has not ended.
  std::atomic<bool> done_{false};    // The backend said that what is in progress is done.
  std::vector<Part> parts_;          // Of each of Stage::partitions, for one frame.
  std::vector<std::unique_ptr<BatchedCall>> batched_;  // Of each of Stage::batch_sizes.
  std::vector<Tensor> locals_;
  Within within_{local_memory()};
  std::vector<BoundFrame> bound_;    // Room for the most frames of a call; `count_` are bound.
  std::vector<Status> statuses_;     // Of each of bound_: how its frame ended.
  std::size_t count_ = 0;            // Frames that are bound: the first of bound_.
  BatchedCall* together_ = nullptr;  // The call that computes all frames; null: each has its own.
  std::size_t idle_rows_of_items_ = 0;  // In calls for several items since start().
  std::size_t alone_ = 0;     // Where each has its own: the position in bound_ of the next.
  BoundFrame* at_ = nullptr;  // The frame that is computed alone now.
  std::shared_ptr<const ParameterVersion> parameters_;   // That the frames bound read.
  std::size_t parameters_in_ = ParameterVersion::kHere;  // Stage::parameters_in() of memory_.
  const std::vector<Tensor>* values_ = nullptr;          // parameters_->in(parameters_in_)
  bool sample_ = false;                                  // The call's phases are timed.
  // Steady clock: when the inputs of a sampled call were there; 0: it is not sampled.
  std::int64_t began_ns_ = 0;
  std::int64_t transfer_ns_ = 0;         // How long copies between memories took in all.
  std::int64_t transfer_before_ns_ = 0;  // How long those before began_ns_ took.
  // Copies of states and items, and from one memory to another. The backends count their own.
  std::atomic<std::uint64_t> copies_{0};
};

}  // namespace penstock::pipeline
