// A backend made of C++ functions, and plans over it: for tests and benchmarks of the runtime.
#pragma once

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/plan.h"
#include "penstock/plan/stream_options.h"
#include "penstock/tensor/npy.h"

namespace penstock::testing {

using Inputs = std::span<const Tensor* const>;
using Outputs = std::span<Tensor* const>;
using Function = std::function<Status(Inputs, Outputs)>;

/// f32[1] unless said otherwise.
inline Type scalar() {
  return Type::tensor(DType::kF32, std::vector<Dim>{{1, "", Dim::kOpen}});
}
inline Tensor number(float value) {
  Tensor tensor = Tensor::allocate(DType::kF32, {1});
  tensor.as<float>()[0] = value;
  return tensor;
}
inline float value_of(const Tensor& tensor) {
  return tensor.as<float>()[0];
}

struct FakeModel {
  std::vector<backend::Port> inputs, outputs;
  Function run;
  std::function<void()> cancel = [] {};
  std::function<backend::Context::Counters()> counters = [] {
    return backend::Context::Counters();
  };
};

/// "Compiles" the model whose name is the file name of the request.
class FakeBackend : public backend::Backend {
 public:
  std::map<std::string, FakeModel> models;
  std::function<Status(const backend::CompileRequest&)> on_compile = [](const auto&) {
    return Status();
  };
  std::function<bool(const device::Device&)> on_accepts = [](const device::Device& device) {
    return device.is_local_cpu();
  };
  /// How many of its executables and contexts are alive.
  [[nodiscard]] long alive() const { return living_.use_count() - 1; }

  [[nodiscard]] backend::Description describe() const override {
    return {"fake", "1", "", "", true};
  }
  [[nodiscard]] std::string rules() const override {
    return R"({"version": 1, "rule": {"combine": {"all": true}}})";
  }
  [[nodiscard]] bool accepts(const device::Device& device) const override {
    return on_accepts(device);
  }
  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override {
    PENSTOCK_CHECK_OK(on_compile(request));
    const auto found = models.find(request.file.filename().string());
    if (found == models.end())
      return not_found("no fake model '", request.file.filename().string(), "'");
    return std::unique_ptr<backend::Executable>(
        std::make_unique<FakeExecutable>(found->second, living_));
  }

 private:
  struct FakeContext : backend::Context {
    FakeContext(const FakeModel& of, std::shared_ptr<int> lives)
        : model(of), life(std::move(lives)) {}
    Status run(const backend::Call&, Inputs inputs, Outputs outputs) override {
      return model.run(inputs, outputs);
    }
    void cancel() noexcept override { model.cancel(); }
    [[nodiscard]] Counters counters() const override { return model.counters(); }
    const FakeModel& model;
    std::shared_ptr<int> life;
  };
  struct FakeExecutable : backend::Executable {
    FakeExecutable(const FakeModel& of, std::shared_ptr<int> lives)
        : model(of), life(std::move(lives)) {}
    [[nodiscard]] std::span<const backend::Port> inputs() const override { return model.inputs; }
    [[nodiscard]] std::span<const backend::Port> outputs() const override { return model.outputs; }
    Result<std::unique_ptr<backend::Context>> create_context() override {
      return std::unique_ptr<backend::Context>(std::make_unique<FakeContext>(model, life));
    }
    const FakeModel& model;
    std::shared_ptr<int> life;
  };

  const std::shared_ptr<int> living_ = std::make_shared<int>();
};

/// A plan over scalars, built stage by stage; its backend and registry beside it.
class FakeNetwork {
 public:
  FakeNetwork() { registry.add(backend); }

  FakeNetwork& input(const std::string& name, Type type = scalar()) {
    types_[name] = type;
    plan.inputs.push_back({name, std::move(type)});
    return *this;
  }
  FakeNetwork& output(const std::string& name) {
    plan.outputs.push_back({name, types_.at(name)});
    return *this;
  }
  /// A replaceable constant, its default written below `folder`.
  FakeNetwork& parameter(const std::string& name, const Tensor& value) {
    const auto file = concat("parameters/", name, ".npy");
    std::filesystem::create_directories(folder / "parameters");
    if (!write_npy(value, folder / file)) throw std::runtime_error("cannot write " + file);
    types_[name] = value.type();
    plan.parameters.push_back({name, value.type(), file});
    return *this;
  }
  /// A stage that reads `inputs` (input i of the function) and writes `outputs`.
  FakeNetwork& stage(const std::string& name, std::vector<std::string> inputs,
                     std::vector<std::string> outputs, Function run, int replicas = 1,
                     std::vector<Type> output_types = {}) {
    FakeModel model;
    plan::Stage stage;
    stage.name = name;
    for (const auto& input : inputs) {
      model.inputs.push_back({input, types_.at(input)});
      const bool replaceable = std::ranges::find(plan.parameters, input, &plan::Parameter::name) !=
                               plan.parameters.end();
      auto& list = replaceable ? stage.parameters : stage.inputs;
      if (std::ranges::find(list, input) == list.end()) list.push_back(input);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      types_[outputs[i]] = output_types.empty() ? scalar() : output_types[i];
      model.outputs.push_back({outputs[i], types_[outputs[i]]});
      plan.tensors.push_back({outputs[i], types_[outputs[i]]});
    }
    model.run = std::move(run);
    backend->models[name + ".onnx"] = std::move(model);
    stage.outputs = outputs;
    stage.devices = devices_of(replicas);
    auto reads = stage.inputs;
    reads.insert(reads.end(), stage.parameters.begin(), stage.parameters.end());
    stage.partitions.push_back({"fake", "stages/" + name + ".onnx", reads, outputs, {}});
    plan.stages.push_back(std::move(stage));
    return *this;
  }

  /// A stage of a function that the program registers: its ports in the order of the tensors.
  FakeNetwork& function(const std::string& name, function::Function made,
                        std::vector<std::string> inputs, std::vector<std::string> outputs,
                        int replicas = 1, std::vector<std::string> each = {}) {
    plan::Stage& stage = add_stage(name, inputs, outputs, replicas);
    plan::Partition partition{
        std::string(plan::kFunctionBackend), "", inputs, outputs, {{"function", made.name}}};
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      Type type = made.outputs[i].type;
      if (!each.empty()) {  // As many as there are of what it reads.
        type.dims.insert(type.dims.begin(), types_.at(each.front()).dims.front());
      }
      types_[outputs[i]] = type;
      plan.tensors.push_back({outputs[i], type});
    }
    stage.stateful = made.stateful;
    stage.each = std::move(each);
    stage.partitions.push_back(std::move(partition));
    functions.push_back(std::move(made));
    return *this;
  }
  /// Models of a stage for several frames in one call, which run its function for each row.
  /// `called`: told of the rows before they run; an error fails the call.
  FakeNetwork& together(
      const std::string& name, const std::vector<int>& sizes,
      const std::function<Status(Inputs)>& called = [](Inputs) { return Status(); }) {
    plan::Stage& stage = *std::ranges::find(plan.stages, name, &plan::Stage::name);
    stage.batch.frames = sizes.back();
    const auto one = backend->models.at(name + ".onnx");
    for (const int frames : sizes) {
      FakeModel model = one;
      for (auto* ports : {&model.inputs, &model.outputs}) {
        for (auto& port : *ports) {
          if (!is_parameter(port.name)) port.type.dims.front().size *= frames;
        }
      }
      model.run = [one, frames, called](Inputs in, Outputs out) -> Status {
        PENSTOCK_CHECK_OK(called(in));
        return run_rows(one, frames, in, out);
      };
      const auto file = concat(name, ".b", frames, ".onnx");
      backend->models[file] = std::move(model);
      stage.partitions.front().batched.push_back({frames, "stages/" + file});
    }
    return *this;
  }
  /// What `from` is for one frame, `to` is for the next.
  FakeNetwork& state(const std::string& from, const std::string& to) {
    plan.states.push_back({from, to, ""});
    return *this;
  }
  /// The type of a state that a stage reads, declared before the stage that writes it.
  FakeNetwork& state_input(const std::string& name, Type type = scalar()) {
    types_[name] = type;
    plan.tensors.push_back({name, std::move(type)});
    return *this;
  }

  /// Connects the plan (once) and starts it.
  Result<std::unique_ptr<pipeline::Pipeline>> start(const plan::StreamOptions& stream = {},
                                                    pipeline::Options options = {}) {
    options.functions = functions;
    return pipeline::Pipeline::start(with(stream), folder, registry, options);
  }
  /// The plan with what a user says of the stream.
  plan::Plan with(const plan::StreamOptions& stream) {
    plan::Plan changed = finish();
    plan::apply(stream, changed);
    return changed;
  }
  plan::Plan& finish() {
    if (plan.edges.empty()) {
      // An output is listed once: among the plan's outputs.
      std::erase_if(plan.tensors, [&](const auto& tensor) {
        return std::ranges::find(plan.outputs, tensor.name, &plan::TensorInfo::name) !=
               plan.outputs.end();
      });
      plan.model = "fake";
      plan::connect(plan);
    }
    return plan;
  }

  plan::Plan plan;
  std::vector<function::Function> functions;
  std::filesystem::path folder = "fake-package";  // Written to by parameter() only.
  std::shared_ptr<FakeBackend> backend = std::make_shared<FakeBackend>();
  backend::Registry registry;

 private:
  [[nodiscard]] bool is_parameter(const std::string& name) const {
    return std::ranges::find(plan.parameters, name, &plan::Parameter::name) !=
           plan.parameters.end();
  }
  // A parameter has one row, which all frames read.
  static Tensor row(const Tensor& whole, int frames, int i) {
    auto dims = whole.dims();
    if (dims.empty() || dims.front() % frames != 0) return whole;
    dims.front() /= frames;
    Tensor same = whole;
    const std::size_t bytes = whole.bytes() / static_cast<std::size_t>(frames);
    return Tensor::view(whole.dtype(), std::move(dims),
                        static_cast<std::byte*>(same.data()) + static_cast<std::size_t>(i) * bytes);
  }
  static Status run_rows(const FakeModel& one, int frames, Inputs in, Outputs out) {
    for (int i = 0; i < frames; ++i) {
      std::vector<Tensor> read, written;
      for (const Tensor* tensor : in) read.push_back(row(*tensor, frames, i));
      for (const Tensor* tensor : out) written.push_back(row(*tensor, frames, i));
      std::vector<const Tensor*> inputs;
      std::vector<Tensor*> outputs;
      for (auto& tensor : read) inputs.push_back(&tensor);
      for (auto& tensor : written) outputs.push_back(&tensor);
      PENSTOCK_CHECK_OK(one.run(inputs, outputs));
      for (std::size_t o = 0; o < out.size(); ++o) {
        const Tensor place = row(*out[o], frames, i);
        const bool there = written[o].data() == place.data() && written[o].dims() == place.dims();
        if (!there) return make_error(Code::kInternal, "a row came out elsewhere");
      }
    }
    return {};
  }

  [[nodiscard]] std::vector<device::Device> devices_of(int replicas) const {
    const auto cpus = device::inherited_cpus();
    std::vector<device::Device> devices;
    for (int r = 0; r < replicas; ++r) {
      device::Device device;
      device.cpus = {cpus[(plan.stages.size() + static_cast<std::size_t>(r)) % cpus.size()]};
      devices.push_back(device);
    }
    return devices;
  }

  plan::Stage& add_stage(const std::string& name, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, int replicas) {
    plan::Stage stage;
    stage.name = name;
    stage.inputs = inputs;
    stage.outputs = outputs;
    stage.devices = devices_of(replicas);
    plan.stages.push_back(std::move(stage));
    return plan.stages.back();
  }

  std::map<std::string, Type> types_;
};

/// out = f(in) on scalars.
inline Function unary(std::function<float(float)> f) {
  return [f](Inputs in, Outputs out) -> Status {
    out[0]->as<float>()[0] = f(value_of(*in[0]));
    return {};
  };
}

}  // namespace penstock::testing
