// Changes last bits of steps, of f16 weights, or of what nodes make, and writes the model anew.
#include "penstock/session/shaken.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "penstock/base/files.h"
#include "penstock/base/words.h"
#include "penstock/graph/dynamic_steps.h"
#include "penstock/graph/noise.h"
#include "penstock/graph/subgraph.h"
#include "penstock/graph/writer.h"
#include "penstock/measure/variants.h"
#include "penstock/plan/package.h"
#include "penstock/session/session.h"
#include "penstock/tensor/number.h"

namespace penstock {
namespace {

constexpr std::uint64_t kWays = 6;  ///< Even.
/// In the last place, on average: another engine adds in another order before each step, of which
/// the average of a hundred values shows more than ten. No two steps in a row change by one number,
/// or their ratio would not change. Ways are pairs, one the other's mirror: a tie goes up in one of
/// them and down in the other.
constexpr std::uint64_t kUnits = 32;
/// Of a weight of f16, as each sum is rounded to f16 anew.
constexpr std::uint64_t kHalfUnits = 1;
constexpr std::uint64_t kNoiseSeed = 1;
/// Of a constant that does not stand in the model's own file: factors do.
constexpr std::size_t kBesideBytes = std::size_t{64} << 10U;
constexpr std::size_t kMostBytes = std::size_t{256} << 20U;

/// Whether a node that rounds to steps, or reads what was, takes it: as the size of a step.
bool is_of_steps(const graph::Graph& graph, const graph::Value& value) {
  return std::ranges::any_of(value.consumers, [&](graph::NodeId id) {
    const auto& op = graph.node(id).op;
    return op == "QuantizeLinear" || op == "DequantizeLinear" || op.starts_with("QLinear");
  });
}

/// Whether a node multiplies by it, and rounds the sums to f16.
bool is_half_weight(const graph::Graph& graph, const graph::Value& value) {
  constexpr std::array<std::string_view, 4> kProducts = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
  return value.constant->dtype() == DType::kF16 &&
         std::ranges::any_of(value.consumers, [&](graph::NodeId id) {
           return std::ranges::count(kProducts, graph.node(id).op) > 0;
         });
}

/// Each node that reads the size of a step has it for itself then: where one is of a sum and of
/// its rounding, changing both alike moves no tie.
void part_steps(graph::Graph& graph) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto id = static_cast<graph::NodeId>(n);
    for (std::size_t i = 0; i < graph.nodes[n].inputs.size(); ++i) {
      auto& input = graph.nodes[n].inputs[i];
      if (input == graph::ValueId::kNone) continue;
      auto& shared = graph.values[graph::index(input)];
      if (!shared.constant || !is_float(shared.type.dtype) || !is_of_steps(graph, shared)) continue;
      if (shared.is_output || shared.consumers.front() == id) continue;
      graph::Value own = shared;
      std::erase(shared.consumers, id);
      own.name = concat(shared.name, "/", i, "_of_", graph.nodes[n].name);
      own.consumers = {id};
      input = static_cast<graph::ValueId>(graph.values.size());
      graph.values.push_back(std::move(own));
    }
  }
}

/// Of a step that is computed: up and down where values are rounded and where the zero point is,
/// alike, against each other, or of the zero point alone.
graph::StepFactors shaken_step(std::uint64_t way, std::size_t i) {
  const float up = way % 2 == 0 ? 1 : -1;
  const auto by = [](float units) { return 1 + units * kUnits * 0x1p-23F; };
  constexpr float kOthers[] = {1, -1, 0};
  return {by(up), by(up * kOthers[(way / 2 + i) % std::size(kOthers)])};
}

/// Of what nodes round by; returns how many.
std::size_t shake_steps(graph::Graph& graph, std::uint64_t way) {
  const std::uint64_t pair = 1 + way / 2;
  std::size_t changed =
      graph::write_dynamic_steps(graph, [way](std::size_t i) { return shaken_step(way, i); });
  part_steps(graph);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    auto& value = graph.values[i];
    if (!value.constant) continue;
    const bool half = is_half_weight(graph, value);
    if (!half && !is_of_steps(graph, value)) continue;
    const auto units = half ? kHalfUnits : kUnits / 2 + (pair + i) % (kUnits + 1);
    auto moved = measure::with_last_bits_changed({*value.constant}, pair * graph.values.size() + i,
                                                 {.units = units, .mirrored = way % 2 != 0});
    value.constant = std::move(moved.front());
    ++changed;
  }
  return changed;
}

/// What `change` makes of the model; it says how much that is.
template <typename Change>
Result<ModelFile> changed_copy(const std::filesystem::path& model, const plan::Package& package,
                               const backend::Registry& backends, const graph::WeightStore* weights,
                               const Change& change) {
  graph::ImportOptions import;
  import.as_is = true;
  PENSTOCK_TRY(auto graph, import_model(model, import, backends, plan::custom_op_files(package)));
  std::size_t bytes = 0;
  for (const auto& value : graph.values) bytes += value.constant ? value.constant->bytes() : 0;
  if (bytes > kMostBytes) {
    return make_error(Code::kResourceExhausted, "the model is too large to write it anew");
  }
  if (change(graph) == 0) {
    return make_error(Code::kFailedPrecondition, "the model rounds nothing that could be changed");
  }
  PENSTOCK_TRY(auto folder, make_temporary_folder());
  std::filesystem::path copy = *folder / "model.onnx";
  const auto written = graph::write_onnx(graph::Subgraph::whole(graph), copy,
                                         {.external_from_bytes = kBesideBytes, .weights = weights});
  if (!written) return written.error();
  return ModelFile{std::move(copy), std::move(folder)};
}

}  // namespace

std::vector<measure::MakeReference> shaken_references(const std::filesystem::path& model,
                                                      const plan::Package& package,
                                                      const backend::Registry& backends,
                                                      const measure::ReferenceSettings& settings) {
  std::vector<measure::MakeReference> all;
  for (std::uint64_t way = 0; way < kWays; ++way) {
    all.emplace_back([model, &package, &backends, settings,
                      way]() -> Result<std::unique_ptr<measure::Reference>> {
      PENSTOCK_TRY(const auto shaken,
                   changed_copy(model, package, backends, nullptr,
                                [way](graph::Graph& graph) { return shake_steps(graph, way); }));
      return measure::whole_reference(shaken.file, package, backends, settings);
    });
  }
  return all;
}

measure::MakeReference noisy_reference(DType type, const std::filesystem::path& model,
                                       const plan::Package& package,
                                       const backend::Registry& backends,
                                       const measure::ReferenceSettings& settings,
                                       const graph::WeightStore* weights) {
  return [type, model, &package, &backends, settings,
          weights]() -> Result<std::unique_ptr<measure::Reference>> {
    PENSTOCK_TRY(const auto noisy,
                 changed_copy(model, package, backends, weights, [type](graph::Graph& graph) {
                   return graph::add_rounding_noise(graph, kNoiseSeed, type);
                 }));
    return measure::whole_reference(noisy.file, package, backends, settings);
  };
}

}  // namespace penstock
