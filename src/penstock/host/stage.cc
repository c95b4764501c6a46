// Checks backend and devices, makes a plan of one stage for the model, and starts its pipeline.
#include "penstock/host/stage.h"

#include <utility>

#include "penstock/graph/external_files.h"
#include "penstock/graph/interface.h"
#include "penstock/serve/upload.h"

namespace penstock::host {
namespace {

plan::TensorInfo info_of(const graph::Interface::Entry& entry,
                         const std::map<std::string, std::int64_t>& bounds) {
  plan::TensorInfo info{entry.name, entry.type, {}};
  for (auto& dim : info.type.dims) {
    const auto bound = bounds.find(dim.symbol);
    if (!dim.fixed() && !dim.symbol.empty() && bound != bounds.end()) dim.bound = bound->second;
  }
  return info;
}

std::vector<std::string> names_of(const std::vector<plan::TensorInfo>& infos) {
  std::vector<std::string> names;
  for (const auto& info : infos) names.push_back(info.name);
  return names;
}

Status check_backend(const StageOrder& order, const serve::Shared& shared) {
  if (order.backend == plan::kFunctionBackend) {
    return not_found("a stage here is a part of a network")
        .within({Where::kBackend, order.backend});
  }
  PENSTOCK_TRY(const auto backend, shared.backends.find(order.backend));
  for (const auto& device : order.devices) {
    if (!device.is_local_cpu() || !backend->accepts(device)) {
      return make_error(Code::kUnimplemented, "backend '", order.backend, "' does not run on '",
                        device::to_string(device), "' here; expected CPUs of this worker");
    }
    PENSTOCK_CHECK_OK(device::check_available(device));
  }
  return {};
}

/// Of files that the caller sent, by the paths that it gave them.
Error in_callers_words(const StageOrder& order, Error error) {
  return serve::in_senders_words(std::move(error), *order.folder, "");
}

}  // namespace

Result<plan::Package> pack_stage(const StageOrder& order) {
  if (order.devices.empty()) return invalid_argument("expected a device such as cpu:0-3");
  const auto file = *order.folder / order.model;
  PENSTOCK_TRY(const auto interface, graph::read_interface(file));
  PENSTOCK_CHECK_OK(graph::check_external_files(file));
  plan::Package package;
  package.folder = *order.folder;
  package.files = order.folder;
  plan::Plan& plan = package.plan;
  plan.model = order.name;
  for (const auto& entry : interface.inputs) plan.inputs.push_back(info_of(entry, order.bounds));
  for (const auto& entry : interface.outputs) plan.outputs.push_back(info_of(entry, order.bounds));
  plan::Partition part{.backend = order.backend, .model = order.model, .options = order.options};
  plan::Stage stage{.name = order.name};
  part.inputs = stage.inputs = names_of(plan.inputs);
  part.outputs = stage.outputs = names_of(plan.outputs);
  stage.partitions.push_back(std::move(part));
  stage.devices = order.devices;
  stage.lanes = order.lanes;
  stage.pinned = order.pinned;
  stage.flush_denormals = order.flush_denormals;
  if (order.max_run.count() > 0) stage.max_run = order.max_run;
  plan.stages.push_back(std::move(stage));
  plan.custom_ops = order.custom_ops;
  plan::connect(plan);
  return package;
}

Result<std::shared_ptr<Stage>> Stage::open(const StageOrder& order, serve::Shared& shared,
                                           bool native_code) {
  PENSTOCK_CHECK_OK(check_backend(order, shared));
  if (!native_code) PENSTOCK_CHECK_OK(serve::check_options(order.options));
  auto packed = pack_stage(order);
  if (!packed) return in_callers_words(order, std::move(packed).error());
  plan::Package package = *std::move(packed);
  const std::shared_ptr<Stage> stage(new Stage);
  stage->facts_ = std::make_shared<StageFacts>(
      StageFacts{order.name, package.plan.inputs, package.plan.outputs});
  auto started =
      serve::RunningModel::start(order.name, "1", std::move(package), native_code, shared);
  if (!started) return in_callers_words(order, std::move(started).error());
  stage->model_ = *std::move(started);
  return stage;
}

Stage::~Stage() {
  close(kPatienceWithCalls);
}

int Stage::recommended_calls() const {
  return model_->in_flight_limit();
}

std::uint64_t Stage::memory_bytes() const {
  return model_->memory_bytes();
}

std::shared_ptr<serve::Call> Stage::infer(serve::Request request, serve::RunningModel::Done done) {
  return serve::RunningModel::infer(model_->pin(), std::move(request), std::move(done));
}

void Stage::close(std::chrono::nanoseconds patience) {
  if (model_ != nullptr) model_->end(patience);
}

}  // namespace penstock::host
