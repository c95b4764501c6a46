// Plans for tests.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "penstock/plan/plan.h"

namespace penstock::plan {

inline TensorInfo info(std::string name) {
  return {std::move(name), Type::tensor(DType::kF32, std::vector<Dim>{{1, {}, Dim::kOpen}})};
}

/// A stage of one partition, "stages/<number>.onnx", on cpu:0.
inline Stage stage(int number, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  Stage made;
  made.name = concat("stage", number);
  made.inputs = inputs;
  made.outputs = outputs;
  made.devices = {{.host = {}, .cpus = {0}}};
  made.partitions = {{.backend = "onnxruntime",
                      .model = concat("stages/", number, ".onnx"),
                      .inputs = std::move(inputs),
                      .outputs = std::move(outputs),
                      .options = {}}};
  return made;
}

/// Lists every tensor that is neither input nor output, and connects.
inline Plan finish(std::vector<std::string> inputs, std::vector<std::string> outputs,
                   std::vector<Stage> stages) {
  Plan plan;
  plan.model = "test";
  for (auto& name : inputs) plan.inputs.push_back(info(std::move(name)));
  for (auto& name : outputs) plan.outputs.push_back(info(std::move(name)));
  for (const auto& made : stages) {
    for (const auto& name : made.outputs) {
      if (plan.find_tensor(name) == nullptr) plan.tensors.push_back(info(name));
    }
  }
  plan.stages = std::move(stages);
  connect(plan);
  return plan;
}

/// x -> stage0 -> t -> stage1 -> y
inline Plan chain() {
  return finish({"x"}, {"y"}, {stage(0, {"x"}, {"t"}), stage(1, {"t"}, {"y"})});
}

class RandomPlan {
 public:
  explicit RandomPlan(unsigned seed) : random_(seed) {}

  Plan make() {
    std::vector<std::string> inputs{"in0"}, tensors{"in0"};
    if (chance()) inputs.push_back("in1"), tensors.push_back("in1");
    std::vector<Stage> stages;
    const int count = below(5) + 1;
    for (int i = 0; i < count; ++i) stages.push_back(random_stage(i, tensors));
    std::vector<std::string> outputs;
    for (const auto& name : tensors) {
      if (chance() || name == tensors.back()) outputs.push_back(name);
    }
    Plan plan = finish(std::move(inputs), std::move(outputs), std::move(stages));
    for (auto* list : {&plan.inputs, &plan.tensors, &plan.outputs}) {
      for (auto& item : *list) item.type = type_of(item.name);
    }
    add_parameter(plan);
    add_settings(plan);
    return plan;
  }

 private:
  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }
  bool chance() { return below(2) == 0; }

  Stage random_stage(int number, std::vector<std::string>& tensors) {
    std::vector<std::string> inputs, outputs;
    for (const auto& name : tensors) {
      if (below(3) == 0) inputs.push_back(name);
    }
    const int count = below(3) + 1;
    for (int k = 0; k < count; ++k) {
      outputs.push_back(concat("stage", number, "/\"näme\"\n", k));
    }
    tensors.insert(tensors.end(), outputs.begin(), outputs.end());
    Stage made = stage(number, inputs, outputs);
    made.pinned = chance();
    made.flush_denormals = chance();
    if (chance()) made.nodes = {"a", "b"};
    if (chance()) made.draws = {"b"};
    if (chance()) made.devices.push_back({.host = "10.0.0.1:70", .cpus = {1, 2, 5}});
    if (chance()) made.partitions[0].options = {{"key", "value"}, {"Empty", ""}};
    if (chance()) made.partitions[0].ports = {{"port", "tensor"}};
    if (chance()) made.max_run = std::chrono::microseconds(below(1000) + 1);
    if (chance() && made.devices.size() == 1) made.stateful = true;
    random_calls(made);
    if (below(4) == 0) {
      made.partitions[0].backend = kFunctionBackend;
      made.partitions[0].model = chance() ? "" : "functions/libf.so";
      made.partitions[0].options["function"] = "f";
      made.partitions[0].batched.clear();
      made.lanes = below(2);
    } else if (below(5) == 0) {
      random_served(made);
    }
    return made;
  }

  void random_served(Stage& made) {
    auto& partition = made.partitions[0];
    partition.backend = kRemoteBackend;
    partition.model.clear();
    partition.batched.clear();
    partition.served = {"[::1]:8001", "model", chance() ? "" : "3"};
    partition.idempotent = chance();
    made.devices = {*device::parse_device("oip://[::1]:8001")};
    made.standby.clear();
    if (chance()) made.standby = {*device::parse_device("oip://10.0.0.2:80")};
  }

  void random_calls(Stage& made) {
    if (chance()) made.lanes = made.stateful ? 1 : below(5);
    if (chance()) made.max_left_behind = below(5);
    if (chance()) made.batch = {below(5) + 2, std::chrono::microseconds(below(1000))};
    for (int frames = 2; frames <= made.batch.frames; ++frames) {
      if (chance()) made.partitions[0].batched.push_back({frames, concat("stages/b", frames)});
    }
    if (chance()) made.standby = {{.host = "10.0.0.2:70", .cpus = {0}}};
    if (!made.standby.empty() && chance()) made.host_cpus = {0, 1, 7};
  }

  /// The same name must have the same type wherever it is listed.
  Type type_of(const std::string& name) {
    if (const auto at = types_.find(name); at != types_.end()) return at->second;
    return types_[name] = random_type();
  }

  Type random_type() {
    Type type;
    if (below(6) == 0) return type;
    if (below(6) == 0) {
      type.kind = Type::Kind::kOther;
      type.onnx = std::string("\x00\xFF\x7F", 3);
      return type;
    }
    type.kind = Type::Kind::kTensor;
    type.dtype = static_cast<DType>(below(27));
    type.ranked = chance();
    for (int rank = type.ranked ? below(4) : 0; rank > 0; --rank) {
      Dim dim;
      if (chance()) dim.size = below(1000);
      if (chance()) dim.symbol = chance() ? "batch" : "n<=5";
      if (chance()) dim.bound = below(1000);
      type.dims.push_back(dim);
    }
    return type;
  }

  void add_parameter(Plan& plan) {
    if (chance()) return;
    plan.parameters.push_back({"weight", random_type(), "parameters/0.npy"});
    auto& reader =
        plan.stages[static_cast<std::size_t>(below(static_cast<int>(plan.stages.size())))];
    reader.parameters = {"weight"};
    reader.partitions[0].inputs.push_back("weight");
  }

  void add_settings(Plan& plan) {
    constexpr FullPolicy kPolicies[] = {FullPolicy::kBlock, FullPolicy::kDropOldest,
                                        FullPolicy::kDropNewest, FullPolicy::kError};
    for (auto& edge : plan.edges) {
      edge.capacity = below(5);
      edge.policy = kPolicies[below(4)];
    }
    plan.model_hash = chance() ? "abc" : "";
    plan.on_error = chance() ? OnError::kStop : OnError::kDeliver;
    if (chance()) plan.max_age = std::chrono::microseconds(below(1000) + 1);
    if (chance()) plan.custom_ops = {"custom_ops/libops.so"};
    if (chance()) plan.streams = {below(100) + 1, chance()};
    for (auto& stage : plan.stages) stage.predicted_seconds = chance() ? below(1000) / 7.0 : 0;
    plan.prediction = {below(1000) / 7.0, below(1000) / 3.0, 1e-9};
    if (chance()) plan.origin = {{{"onnxruntime", "1.31.1"}}, "cpu", "0.1.0", "m.onnx", "00ff"};
    if (chance()) plan.files = {{"stages/0.onnx", "00ff"}};
  }

  std::mt19937 random_;
  std::map<std::string, Type> types_;
};

}  // namespace penstock::plan
