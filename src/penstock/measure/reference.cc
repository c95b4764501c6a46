// Three kinds: the whole model, its stages one by one, and the pipeline with one frame at a time.
#include "penstock/measure/reference.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "penstock/backend/plain_model.h"
#include "penstock/base/option_name.h"
#include "penstock/base/thread.h"
#include "penstock/device/device.h"
#include "penstock/measure/side.h"
#include "penstock/measure/states.h"
#include "penstock/measure/variants.h"
#include "penstock/plan/stream_options.h"
#include "penstock/tensor/npy.h"

namespace penstock::measure {
namespace {

constexpr std::string_view kReference = "onnxruntime";  ///< Whatever runs the stages.

backend::CompileRequest request_for(const std::filesystem::path& file, std::string name,
                                    const plan::Package& package,
                                    const ReferenceSettings& settings) {
  backend::CompileRequest request;
  request.name = std::move(name);
  request.file = file;
  request.device.cpus = device::inherited_cpus();
  const auto cpus = std::max<std::size_t>(request.device.cpus.size(), 1);
  request.threads = settings.one_thread ? 1 : static_cast<int>(cpus);
  request.optimize = settings.optimize;
  request.custom_ops = plan::custom_op_files(package);
  return request;
}

Status run_limited(backend::PlainModel& model, std::span<const Tensor* const> inputs,
                   Reference::Limit limit) {
  return limit ? model.run(inputs, *limit) : model.run(inputs);
}

class Whole final : public Reference {
 public:
  static Result<std::unique_ptr<Reference>> create(backend::PlainModel model,
                                                   const plan::Package& package) {
    auto whole = std::make_unique<Whole>();
    const auto& plan = package.plan;
    PENSTOCK_TRY(whole->inputs_, match_inputs(model, plan));
    PENSTOCK_TRY(whole->states_, States::create(plan, package.folder));
    for (const auto& output : plan.outputs) {
      PENSTOCK_TRY(whole->outputs_.emplace_back(), place_of(model, output.name));
    }
    for (const auto& state : plan.states) {
      PENSTOCK_TRY(whole->written_.emplace_back(), place_of(model, state.from));
    }
    whole->model_.emplace(std::move(model));
    return std::unique_ptr<Reference>(std::move(whole));
  }

  Result<std::vector<Tensor>> run(const frames::Frame& frame) override {
    std::vector<const Tensor*> inputs;
    inputs.reserve(inputs_.size());
    for (const auto i : inputs_) {
      inputs.push_back(i < frame.size() ? &frame[i] : &states_.value(i - frame.size()));
    }
    PENSTOCK_CHECK_OK(run_limited(*model_, inputs, limit_));
    const auto values = model_->take_values();
    for (std::size_t i = 0; i < written_.size(); ++i) states_.set(i, values[written_[i]]);
    std::vector<Tensor> ordered;
    ordered.reserve(outputs_.size());
    for (const auto i : outputs_) ordered.push_back(values[i]);
    return ordered;
  }

  void choose_stream(std::uint64_t stream) override { states_.choose_stream(stream); }

  Status begin_sequence() override {
    states_.begin_sequence();
    return {};
  }

  void limit_runs(Limit limit) override { limit_ = limit; }

 private:
  static Result<std::size_t> place_of(const backend::PlainModel& model, const std::string& output) {
    const auto ports = model.outputs();
    const auto found = std::ranges::find(ports, output, &backend::Port::name);
    if (found != ports.end()) return static_cast<std::size_t>(found - ports.begin());
    return invalid_argument(OptionName::kModel, ": expected an output '", output,
                            "' as the package has, found none; is it the model that the package "
                            "was made from?");
  }

  Limit limit_;
  std::optional<backend::PlainModel> model_;
  std::vector<std::size_t> inputs_;  ///< Of the frame's values, then of the states.
  std::vector<std::size_t> outputs_, written_;
  States states_;
};

class Stages final : public Reference {
 public:
  static Result<std::unique_ptr<Reference>> create(const plan::Package& package,
                                                   const backend::Registry& backends,
                                                   const ReferenceSettings& settings) {
    auto stages = std::make_unique<Stages>();
    stages->plan_ = package.plan;
    stages->change_between_ = settings.change_between;
    PENSTOCK_TRY(const auto backend, backends.find(kReference));
    for (const auto& stage : package.plan.stages) {
      for (const auto& partition : stage.partitions) {
        auto request = request_for(package.folder / partition.model, stage.name, package, settings);
        if (partition.backend == kReference) request.options = partition.options;
        auto model = backend::PlainModel::create(*backend, request);
        if (!model) {
          return std::move(model)
              .error()
              .within({Where::kStage, stage.name})
              .within({Where::kWay, "reference"});
        }
        stages->models_.push_back(*std::move(model));
      }
    }
    for (const auto& parameter : package.plan.parameters) {
      PENSTOCK_TRY(auto value, read_npy(package.folder / parameter.file, parameter.type.dtype));
      stages->parameters_[parameter.name] = std::move(value);
    }
    PENSTOCK_TRY(stages->states_, States::create(package.plan, package.folder));
    return std::unique_ptr<Reference>(std::move(stages));
  }

  Result<std::vector<Tensor>> run(const frames::Frame& frame) override {
    std::map<std::string, Tensor> values = parameters_;
    for (std::size_t i = 0; i < frame.size(); ++i) values[plan_.inputs[i].name] = frame[i];
    const auto& states = states_.edges();
    for (std::size_t i = 0; i < states.size(); ++i) values[states[i].to] = states_.value(i);
    for (auto& model : models_) {
      std::vector<const Tensor*> inputs;
      for (const auto& port : model.inputs()) inputs.push_back(&values[port.name]);
      PENSTOCK_CHECK_OK(run_limited(model, inputs, limit_));
      auto outputs = model.take_values();
      if (change_between_) outputs = with_last_bits_changed(outputs, ++changes_);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        values[model.outputs()[i].name] = std::move(outputs[i]);
      }
    }
    std::vector<Tensor> ordered;
    ordered.reserve(plan_.outputs.size());
    for (const auto& output : plan_.outputs) ordered.push_back(values[output.name]);
    for (std::size_t i = 0; i < states.size(); ++i) states_.set(i, values[states[i].from]);
    return ordered;
  }

  void choose_stream(std::uint64_t stream) override { states_.choose_stream(stream); }

  Status begin_sequence() override {
    states_.begin_sequence();
    return {};
  }

  void limit_runs(Limit limit) override { limit_ = limit; }

 private:
  plan::Plan plan_;
  Limit limit_;
  bool change_between_ = false;
  std::uint64_t changes_ = 0;
  std::vector<backend::PlainModel> models_;
  std::map<std::string, Tensor> parameters_;
  States states_;
};

/// A run that its limit ends takes the pipeline along; the next one starts another.
class OneAtATime final : public Reference {
 public:
  using Start = std::function<Result<std::unique_ptr<pipeline::Pipeline>>()>;
  static Result<std::unique_ptr<Reference>> create(Start start) {
    auto made = std::make_unique<OneAtATime>(std::move(start));
    PENSTOCK_CHECK_OK(made->start());
    return std::unique_ptr<Reference>(std::move(made));
  }
  explicit OneAtATime(Start start) : start_(std::move(start)) {}

  Result<std::vector<Tensor>> run(const frames::Frame& frame) override {
    PENSTOCK_CHECK_OK(start());
    const auto run = [&] { return pipeline_->run(frame, {.stream = stream_}); };
    if (!limit_) return run();
    auto outputs = run_within(*limit_, [this] { pipeline_->cancel(); }, run);
    if (is_endless(outputs)) pipeline_.reset();
    return outputs;
  }

  void choose_stream(std::uint64_t stream) override { stream_ = stream; }

  Status begin_sequence() override {
    stream_ = 0;
    return pipeline_ ? pipeline_->reset_states() : Status();
  }

  void limit_runs(Limit limit) override { limit_ = limit; }

 private:
  Status start() {
    if (!pipeline_) {
      PENSTOCK_TRY(pipeline_, start_());
    }
    return {};
  }

  const Start start_;
  Limit limit_;
  std::uint64_t stream_ = 0;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
};

/// One frame at a time, and what are networks here in the reference's engine, as `settings` say.
void run_plainly(plan::Stage& stage, const ReferenceSettings& settings) {
  stage.devices.resize(1);
  if (is_own_witness(stage)) return;
  auto& device = stage.devices.front();
  if (settings.one_thread && device.is_local_cpu()) device.cpus.resize(1);
  stage.batch = {};
  bool functions = false;
  for (auto& partition : stage.partitions) {
    partition.batched.clear();
    if (partition.backend == plan::kFunctionBackend) {
      functions = true;
      continue;
    }
    if (partition.backend != kReference) partition.options.clear();
    partition.backend = kReference;
    if (!settings.optimize) partition.options["graph_optimization_level"] = "0";
  }
  // Which was meant for its own engine, with its optimisations.
  if (!functions) stage.max_run.reset();
}

constexpr const char* kNameOfWhole = "reference";

/// Says once which way it was, and of which model.
Error refused(Error error, const std::filesystem::path& model) {
  std::erase(error.places, Where{Where::kText, kNameOfWhole});
  if (error.find(Where::kModel) == nullptr) {
    error = std::move(error).within({Where::kModel, model.string()});
  }
  return std::move(error).within({Where::kWay, kNameOfWhole});
}

}  // namespace

Result<std::unique_ptr<Reference>> whole_reference(const std::filesystem::path& model,
                                                   const plan::Package& package,
                                                   const backend::Registry& backends,
                                                   const ReferenceSettings& settings) {
  PENSTOCK_TRY(const auto backend, backends.find(kReference));
  auto plain =
      backend::PlainModel::create(*backend, request_for(model, kNameOfWhole, package, settings));
  if (!plain) return refused(std::move(plain).error(), model);
  return Whole::create(*std::move(plain), package);
}

Result<std::unique_ptr<Reference>> stage_reference(const plan::Package& package,
                                                   const backend::Registry& backends,
                                                   const ReferenceSettings& settings) {
  return Stages::create(package, backends, settings);
}

bool is_own_witness(const plan::Stage& stage) {
  return std::ranges::any_of(stage.devices, &device::Device::is_remote) ||
         std::ranges::any_of(stage.partitions,
                             [](const auto& partition) { return partition.served.has_value(); });
}

Result<std::unique_ptr<Reference>> one_at_a_time(const plan::Package& package,
                                                 const backend::Registry& backends,
                                                 const pipeline::Options& options,
                                                 const ReferenceSettings& settings) {
  plan::Plan plan = package.plan;
  plan::keep_all_frames(plan);
  plan.on_error = plan::OnError::kDeliver;  // A frame that fails here says nothing of the next.
  for (auto& stage : plan.stages) run_plainly(stage, settings);
  auto plain = options;
  std::erase_if(plain.backend_options,
                [](const auto& one) { return one.first != plan::kRemoteBackend; });
  return OneAtATime::create(
      [plan = std::move(plan), folder = package.folder, &backends,
       plain = std::move(plain)]() -> Result<std::unique_ptr<pipeline::Pipeline>> {
        auto pipeline = pipeline::Pipeline::start(plan, folder, backends, plain);
        if (!pipeline) return std::move(pipeline).error().within({Where::kWay, "reference"});
        return pipeline;
      });
}

}  // namespace penstock::measure
