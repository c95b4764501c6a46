// RunningModel: a pipeline that is served, with its queue, its sequences and its statistics.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "penstock/backend/registry.h"
#include "penstock/base/byte_budget.h"
#include "penstock/base/result.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"
#include "penstock/serve/admission.h"
#include "penstock/serve/exchange.h"
#include "penstock/serve/model.h"
#include "penstock/serve/pace.h"
#include "penstock/serve/pins.h"
#include "penstock/serve/reply_budget.h"
#include "penstock/serve/request_trace.h"
#include "penstock/serve/sequences.h"
#include "penstock/serve/server.h"
#include "penstock/serve/server_options.h"
#include "penstock/serve/statistics.h"

namespace penstock::serve {

/// What all models of a server share.
struct Shared {
  backend::Registry backends;
  pipeline::Options start;
  Limits limits;
  SharedMemory regions;
  ByteBudget budget;
  std::shared_ptr<ReplyBudget> replies;    ///< Until nobody holds their outputs any more.
  std::unique_ptr<RequestTrace> requests;  ///< Null: nobody asked for a trace.
};

/// \threads  all functions may be called from any thread.
class RunningModel {
 public:
  using Done = std::function<void(Result<Reply>)>;

  /// \error kInvalidArgument  a tensor that the protocol cannot carry. And as Pipeline::start().
  static Result<std::unique_ptr<RunningModel>> start(std::string name, std::string version,
                                                     plan::Package package, bool native_code,
                                                     Shared& shared);
  /// \pre  nobody has it pinned
  ~RunningModel();
  RunningModel(const RunningModel&) = delete;
  RunningModel& operator=(const RunningModel&) = delete;

  /// Another plan for the requests from now on. `may_go` and \error as Pipeline::replace()
  Status replace(plan::Package package, bool native_code, const pipeline::Pipeline::MayGo& may_go);

  /// Whether a plan reads and gives the same, with the same values bound and the same states, so
  /// that replace() can take it.
  [[nodiscard]] bool has_interface_of(const plan::Plan& plan) const;

  static std::shared_ptr<Call> infer(Pinned<RunningModel> model, Request request, Done done);
  /// Requests in progress end as cancelled.
  void give_up() { pipeline_->cancel(); }
  /// give_up(), and waits for them; calls that hang are left behind after `patience`. Idempotent.
  void end(std::chrono::nanoseconds patience);

  [[nodiscard]] ModelDescription describe() const;
  /// The caller holds one of the model's pins, which is not counted as a request.
  [[nodiscard]] ModelStatistics statistics() const;
  /// The stages' lanes. \error as pipeline::Pipeline::add_trace()
  Result<std::uint64_t> add_trace(pipeline::TraceFile& file) const {
    return pipeline_->add_trace(file, name_ + " version " + version_);
  }
  /// Most frames in progress at a time.
  [[nodiscard]] int in_flight_limit() const { return pipeline_->in_flight_limit(); }
  /// Of the pipeline's edges; 0: not known.
  [[nodiscard]] std::uint64_t memory_bytes() const { return pipeline_->memory_bytes().value_or(0); }
  /// Why it takes no requests any more, if so.
  [[nodiscard]] std::optional<Error> closed_by() const { return pipeline_->closed_by(); }
  [[nodiscard]] const std::string& version() const { return version_; }
  [[nodiscard]] Pinned<RunningModel> pin() { return {this, pins_}; }
  [[nodiscard]] const std::shared_ptr<Pins>& pins() const { return pins_; }

 private:
  class Running;
  RunningModel(std::string name, std::string version, Shared& shared)
      : name_(std::move(name)), version_(std::move(version)), shared_(shared) {}
  Status open(plan::Package package, bool native_code);
  void set_pace();
  void prepare(plan::Package& package) const;
  void leave(const std::shared_ptr<Sequences::Lane>& lane, bool last, Sequences::Left left);

  const std::string name_;
  const std::string version_;
  Shared& shared_;
  Interface interface_;
  bool has_states_ = false;
  /// Values that never come with a request, and how states begin: as `key=value`, for files their
  /// hash.
  std::vector<std::string> settled_;
  const std::shared_ptr<Pins> pins_ = std::make_shared<Pins>();
  Recorder recorder_;
  std::unique_ptr<Sequences> sequences_;
  Pace pace_;

  std::mutex replacing_;                            // One replace() at a time; guards the next.
  std::vector<std::shared_ptr<const void>> files_;  // Of the plan that runs, and of that before.
  std::atomic<double> load_seconds_ = 0;

  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::unique_ptr<Admission> admission_;  // Last: it uses the rest.
};

}  // namespace penstock::serve
