// Rules: which parts of a network a backend may take, read from JSON. docs/rules.md is the grammar.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::collage {

/// What an attribute may be; std::monostate: not there.
using AttributeValue =
    std::variant<std::monostate, std::int64_t, double, std::string, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<std::string>>;

/// One condition on a node.
struct Predicate {
  enum class Kind { kInput, kOutput, kAttribute, kNot, kAny };
  Kind kind = Kind::kInput;
  // kInput, kOutput: conditions on one value, or on all; those left empty do not matter.
  std::optional<std::size_t> index;  ///< Empty: all.
  std::vector<DType> dtypes;
  std::vector<std::size_t> ranks;
  bool fixed_shape = false;
  std::optional<bool> constant, given;
  // kAttribute
  std::string attribute;
  std::vector<AttributeValue> values;
  // kNot (one), kAny
  std::vector<Predicate> parts;
};

/// How two candidates may touch: all nodes of the one read from, all nodes of the one that reads.
struct Join {
  std::vector<std::string> from, to;  ///< Operators.
};

struct Rule {
  enum class Kind { kAll, kOps, kChain, kUnion, kCombine, kOnlyValid, kHost };
  static constexpr std::size_t kAny = SIZE_MAX;  ///< A limit that does not limit.

  Kind kind = Kind::kAll;
  std::vector<Rule> parts;  ///< kChain, kUnion: all; kCombine, kOnlyValid, kHost: one.
  // kOps
  std::vector<std::string> ops;  ///< "Conv", "com.microsoft:FusedConv"
  std::int64_t opset_from = 0, opset_to = INT64_MAX;
  std::vector<Predicate> where;
  // kCombine
  std::vector<Join> joins;  ///< Empty: any two that touch.
  // kOnlyValid
  std::size_t max_exits = kAny, max_nodes = kAny, max_depth = kAny;
  bool taps = true;
};

/// `whose` begins every message: "rules of backend 'acme'".
/// \error kInvalidArgument  no JSON, a version that is not known, or the place of what is wrong:
///                          "rules of backend 'acme': rule.combine.ops[1]: expected a string, ..."
Result<Rule> parse_rule(std::string_view json, const std::string& whose);

/// Whether the contexts of one compiled model share its weights, or each has a copy.
enum class Weights { kShared, kEach };

/// What a backend's text says of them ("weights": "each"); kShared where it says nothing.
/// \error as parse_rule()
Result<Weights> parse_weights(std::string_view json, const std::string& whose);

/// A user's file: backend -> rule. \error as parse_rule(); `whose` is the file.
Result<std::map<std::string, Rule>> parse_rules(std::string_view json, const std::string& whose);

/// "Conv", or "com.microsoft:FusedConv" for an operator of another domain than ONNX's own.
std::string operator_of(const graph::Node& node);

/// \pre rule.kind is kAll or kOps. Whether it takes this node.
bool takes(const graph::Graph& graph, const Rule& rule, graph::NodeId node);

}  // namespace penstock::collage
