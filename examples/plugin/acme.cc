// A backend in one file: it runs models made of Add, Identity, Neg and Relu on f32 tensors of one
// fixed shape, on the calling thread. Start your own from here.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/graph/graph.h"
#include "penstock/graph/import.h"

namespace acme {
namespace {

namespace backend = penstock::backend;
namespace graph = penstock::graph;
using graph::ValueId;
using penstock::Code;
using penstock::DType;
using penstock::make_error;
using penstock::Result;
using penstock::Status;
using penstock::Tensor;
using penstock::Type;
using penstock::Where;

constexpr std::array<std::string_view, 4> kOperators = {"Add", "Identity", "Neg", "Relu"};

bool runs(std::string_view op, std::string_view domain) {
  return domain.empty() && std::ranges::find(kOperators, op) != kOperators.end();
}

/// Every tensor is f32 and of its node's one fixed shape; anything else is refused before the run.
Status check(const graph::Graph& model) {
  for (const auto& node : model.nodes) {
    if (!runs(node.op, node.domain)) {
      return make_error(Code::kUnimplemented, "acme does not run operator ", node.op)
          .within({Where::kNode, node.name});
    }
    const Type& expected = model.value(node.outputs.front()).type;
    for (const ValueId input : node.inputs) {
      const Type& found = model.value(input).type;
      if (found == expected && found.fixed() && found.dtype == DType::kF32) continue;
      return make_error(Code::kUnimplemented, "acme runs f32 tensors of one fixed shape, found ",
                        found)
          .within({Where::kNode, node.name});
    }
  }
  return {};
}

void compute(const graph::Node& node, std::span<const Tensor> values, Tensor& result) {
  const auto x = values[index(node.inputs.front())].as<float>();
  const auto y = result.as<float>();
  if (node.op == "Add") {
    std::ranges::transform(x, values[index(node.inputs.back())].as<float>(), y.begin(),
                           std::plus<>());
  } else if (node.op == "Neg") {
    std::ranges::transform(x, y.begin(), std::negate<>());
  } else if (node.op == "Relu") {
    std::ranges::transform(x, y.begin(), [](float v) { return std::max(v, 0.0F); });
  } else {
    std::ranges::copy(x, y.begin());
  }
}

/// One caller's state: a tensor for each value of the graph.
class Context final : public backend::Context {
 public:
  explicit Context(std::shared_ptr<const graph::Graph> model)
      : model_(std::move(model)), values_(model_->values.size()) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto& value = model_->values[i];
      if (value.constant) {
        values_[i] = *value.constant;
      } else if (value.producer) {
        values_[i] = Tensor::allocate(DType::kF32, sizes_of(value.type));
      }
    }
  }

  Status run(const backend::Call&, std::span<const Tensor* const> inputs,
             std::span<Tensor* const> outputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& declared = model_->value(model_->inputs[i]);
      if (auto matches = check_matches(declared.type, *inputs[i]); !matches) {
        return std::move(matches).error().within({Where::kInput, declared.name});
      }
      values_[index(model_->inputs[i])] = *inputs[i];
    }
    for (const auto& node : model_->nodes) {
      compute(node, values_, values_[index(node.outputs.front())]);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      deliver(values_[index(model_->outputs[i])], *outputs[i]);
    }
    return {};
  }

 private:
  static std::vector<std::int64_t> sizes_of(const Type& type) {
    std::vector<std::int64_t> sizes;
    for (const auto& dim : type.dims) sizes.push_back(dim.size);
    return sizes;
  }

  /// Into the caller's buffer where it fits.
  static void deliver(const Tensor& result, Tensor& output) {
    const bool fits = output.kind() == Tensor::Kind::kDense && output.dtype() == result.dtype() &&
                      output.set_dims(result.dims());
    if (!fits) output = Tensor::allocate(result.dtype(), result.dims());
    std::ranges::copy(result.as<float>(), output.as<float>().begin());
  }

  std::shared_ptr<const graph::Graph> model_;
  std::vector<Tensor> values_;
};

class Executable final : public backend::Executable {
 public:
  explicit Executable(graph::Graph model)
      : model_(std::make_shared<const graph::Graph>(std::move(model))),
        inputs_(ports_of(*model_, model_->inputs)),
        outputs_(ports_of(*model_, model_->outputs)) {}

  [[nodiscard]] std::span<const backend::Port> inputs() const override { return inputs_; }
  [[nodiscard]] std::span<const backend::Port> outputs() const override { return outputs_; }
  Result<std::unique_ptr<backend::Context>> create_context() override {
    return std::unique_ptr<backend::Context>(std::make_unique<Context>(model_));
  }

 private:
  static std::vector<backend::Port> ports_of(const graph::Graph& model,
                                             const std::vector<ValueId>& ids) {
    std::vector<backend::Port> ports;
    for (const ValueId id : ids) ports.push_back({model.value(id).name, model.value(id).type});
    return ports;
  }

  std::shared_ptr<const graph::Graph> model_;
  std::vector<backend::Port> inputs_;
  std::vector<backend::Port> outputs_;
};

class Backend final : public backend::Backend {
 public:
  [[nodiscard]] backend::Description describe() const override {
    backend::Description description;
    description.name = "acme";
    description.engine_version = "1.0";
    return description;
  }

  [[nodiscard]] std::string rules() const override {
    return R"({"version": 1, "rule": {"combine": {
      "ops": ["Add", "Identity", "Neg", "Relu"],
      "where": [{"input": "all", "dtype": ["f32"], "shape": "fixed"}]}}})";
  }

  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override {
    if (!request.options.empty()) {
      return make_error(Code::kInvalidArgument, "acme has no options, found '",
                        request.options.begin()->first, "'");
    }
    if (!accepts(request.device)) {
      return make_error(Code::kUnimplemented, "acme runs on this machine's CPUs only");
    }
    const graph::ImportOptions as_it_is{
        .shapes = {}, .constants = {}, .parameters = {}, .as_is = true, .engine = {}};
    auto model = request.file.empty() ? graph::import_onnx_bytes(request.bytes, {}, as_it_is)
                                      : graph::import_onnx(request.file, as_it_is);
    if (!model) return std::move(model).error();
    PENSTOCK_CHECK_OK(check(*model));
    return std::unique_ptr<backend::Executable>(std::make_unique<Executable>(*std::move(model)));
  }
};

}  // namespace
}  // namespace acme

PENSTOCK_PLUGIN("acme", acme::Backend)
