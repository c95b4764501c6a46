// Layer normalisations written out in single operators, as converters do where the opset has none.
#include "written_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "chain.h"
#include "pointwise.h"

namespace penstock::onednn {
namespace {

/// Follows the nodes of one normalisation, and remembers them.
class Search {
 public:
  Search(const Builder& builder, NodeId mean)
      : builder_(builder),
        mean_node_(mean),
        x_(node(mean).inputs.front()),
        dims_(builder.dims(x_)) {}

  std::optional<WrittenNorm> find();

 private:
  [[nodiscard]] const Node& node(NodeId id) const { return builder_.graph().node(id); }
  [[nodiscard]] ValueId result(NodeId id) const { return node(id).outputs.front(); }
  [[nodiscard]] bool is(NodeId id, std::string_view op) const {
    return node(id).domain.empty() && node(id).op == op;
  }
  [[nodiscard]] bool reads(NodeId id, ValueId a, ValueId b) const {
    const auto& inputs = node(id).inputs;
    return inputs.size() == 2 && inputs[0] == a && inputs[1] == b;
  }
  /// Those nodes that read the value; none where it leaves the graph.
  [[nodiscard]] std::vector<NodeId> readers(ValueId id) const;
  [[nodiscard]] std::optional<NodeId> reader(ValueId id, std::string_view op) const;
  [[nodiscard]] bool is_mean(NodeId id) const;
  [[nodiscard]] std::vector<float> row_of(NodeId id, ValueId value) const;

  std::optional<ValueId> variance();
  std::optional<ValueId> deviation(ValueId variance);
  bool divides(ValueId deviation);
  bool multiplies(ValueId deviation);
  void take_scale_and_shift();
  void take(NodeId id) { found_.nodes.push_back(id); }

  const Builder& builder_;
  NodeId mean_node_;
  ValueId x_;
  Dims dims_;
  ValueId difference_ = ValueId::kNone;  // x - mean
  NodeId square_{};
  WrittenNorm found_;
};

std::vector<NodeId> Search::readers(ValueId id) const {
  const auto& value = builder_.graph().value(id);
  if (value.is_output) return {};
  std::vector<NodeId> found = value.consumers;
  std::ranges::sort(found);
  const auto [first, last] = std::ranges::unique(found);
  found.erase(first, last);
  return found;
}

/// The one reader, if it is such an operator.
std::optional<NodeId> Search::reader(ValueId id, std::string_view op) const {
  const auto found = readers(id);
  if (found.size() != 1 || !is(found.front(), op)) return {};
  return found.front();
}

/// Along the last dimension, which is kept.
bool Search::is_mean(NodeId id) const {
  if (!is(id, "ReduceMean")) return false;
  const Node& mean = node(id);
  std::vector<std::int64_t> axes = mean.ints_or("axes", {});
  if (mean.inputs.size() > 1 && mean.inputs[1] != ValueId::kNone) {
    const auto given = builder_.integers(mean.inputs[1]);
    if (!given) return false;
    axes = *given;
  }
  Dims kept = dims_;
  kept.back() = 1;
  return axes.size() == 1 && (axes[0] == -1 || axes[0] + 1 == std::ssize(dims_)) &&
         builder_.dims(result(id)) == kept && dims_.back() > 1;
}

/// The constant beside `value`, one number for each index of the last dimension.
std::vector<float> Search::row_of(NodeId id, ValueId value) const {
  const auto& inputs = node(id).inputs;
  if (inputs.size() != 2 || std::ranges::count(inputs, value) != 1) return {};
  return per_channel(builder_, inputs[0] == value ? inputs[1] : inputs[0], dims_, dims_.size() - 1);
}

/// The mean of (x - mean)^2.
std::optional<ValueId> Search::variance() {
  const ValueId mean = result(mean_node_);
  for (const NodeId id : readers(mean)) {
    if (!is(id, "Sub") || !reads(id, x_, mean)) continue;
    difference_ = result(id);
    take(id);
  }
  if (difference_ == ValueId::kNone || found_.nodes.size() != 2) return {};
  for (const NodeId id : readers(difference_)) {
    const auto unary = unary_of(builder_, node(id));
    const bool squares =
        (is(id, "Mul") && reads(id, difference_, difference_)) ||
        (is(id, "Pow") && unary && unary->ops.front().algorithm == dnnl_eltwise_square);
    if (!squares) continue;
    square_ = id;
    take(id);
  }
  if (found_.nodes.size() != 3) return {};
  const auto mean_of_squares = reader(result(square_), "ReduceMean");
  if (!mean_of_squares || !is_mean(*mean_of_squares)) return {};
  take(*mean_of_squares);
  return result(*mean_of_squares);
}

/// sqrt(variance + epsilon)
std::optional<ValueId> Search::deviation(ValueId variance) {
  const auto sum = reader(variance, "Add");
  const auto unary = sum ? unary_of(builder_, node(*sum)) : std::nullopt;
  if (!unary || unary->input != variance || unary->ops.front().alpha != 1) return {};
  found_.epsilon = unary->ops.front().beta;
  const auto root = reader(result(*sum), "Sqrt");
  if (!root) return {};
  take(*sum);
  take(*root);
  return result(*root);
}

/// (x - mean) / deviation, perhaps scaled and shifted.
bool Search::divides(ValueId deviation) {
  const auto quotient = reader(deviation, "Div");
  if (!quotient || !reads(*quotient, difference_, deviation)) return false;
  if (readers(difference_).size() != 2 || readers(result(mean_node_)).size() != 1) return false;
  take(*quotient);
  found_.result = result(*quotient);
  take_scale_and_shift();
  return true;
}

void Search::take_scale_and_shift() {
  if (const auto product = reader(found_.result, "Mul")) {
    if (auto row = row_of(*product, found_.result); !row.empty()) {
      found_.scale = std::move(row);
      found_.result = result(*product);
      take(*product);
    }
  }
  if (const auto sum = reader(found_.result, "Add")) {
    if (auto row = row_of(*sum, found_.result); !row.empty()) {
      found_.shift = std::move(row);
      found_.result = result(*sum);
      take(*sum);
    }
  }
}

/// x * g + (shift - mean * g), with g = scale / deviation.
bool Search::multiplies(ValueId deviation) {
  const auto inverse = reader(deviation, "Reciprocal");
  if (!inverse) return false;
  take(*inverse);
  ValueId factor = result(*inverse);
  if (const auto product = reader(factor, "Mul")) {
    found_.scale = row_of(*product, factor);
    if (found_.scale.empty()) return false;
    factor = result(*product);
    take(*product);
  }
  const ValueId mean = result(mean_node_);
  std::optional<NodeId> of_x, of_mean;
  for (const NodeId id : readers(factor)) {
    if (!is(id, "Mul")) return false;
    if (reads(id, x_, factor) || reads(id, factor, x_)) of_x = id;
    if (reads(id, mean, factor) || reads(id, factor, mean)) of_mean = id;
  }
  const bool alone = of_x && of_mean && readers(factor).size() == 2 && readers(mean).size() == 2 &&
                     readers(difference_).size() == 1;
  if (!alone) return false;
  const auto rest = reader(result(*of_mean), "Sub");
  if (!rest || node(*rest).inputs[1] != result(*of_mean)) return false;
  found_.shift = row_of(*rest, result(*of_mean));
  const auto sum = reader(result(*of_x), "Add");
  if (found_.shift.empty() || !sum || sum != reader(result(*rest), "Add")) return false;
  for (const NodeId id : {*of_x, *of_mean, *rest, *sum}) take(id);
  found_.result = result(*sum);
  return true;
}

std::optional<WrittenNorm> Search::find() {
  if (!is_mean(mean_node_)) return {};
  take(mean_node_);
  const auto of_squares = variance();
  const auto root = of_squares ? deviation(*of_squares) : std::nullopt;
  if (!root || (!divides(*root) && !multiplies(*root))) return {};
  if (builder_.dims(found_.result) != dims_) return {};
  found_.x = x_;
  const auto columns = static_cast<std::size_t>(dims_.back());
  if (found_.scale.empty()) found_.scale.resize(columns, 1);
  if (found_.shift.empty()) found_.shift.resize(columns, 0);
  return std::move(found_);
}

}  // namespace

std::optional<WrittenNorm> written_norm_at(const Builder& builder, NodeId mean) {
  const Node& node = builder.graph().node(mean);
  if (!builder.optimize() || node.inputs.empty() || builder.dims(node.inputs.front()).empty()) {
    return {};
  }
  return Search(builder, mean).find();
}

}  // namespace penstock::onednn
