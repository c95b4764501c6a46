// Reads a rule from JSON by recursion, at most 32 levels deep; the first error names its place.
#include "penstock/collage/rules.h"

#include <array>
#include <limits>
#include <utility>

#include "penstock/plan/json_reader.h"

namespace penstock::collage {
namespace {

using plan::Document;
using plan::Field;
using plan::Json;

constexpr int kVersion = 1;
constexpr int kMostNested = 32;
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::array<std::string_view, 7> kRules = {"all",     "ops",        "chain", "union",
                                                    "combine", "only_valid", "host"};

std::vector<std::string> read_strings(const Field& field) {
  std::vector<std::string> list;
  field.each([&](const Field& item) { list.push_back(item.string()); });
  return list;
}

std::vector<std::string> read_operators(const Field& field) {
  auto list = read_strings(field);
  if (list.empty()) field.fail("a list of at least one operator");
  constexpr std::string_view kOnnx = "ai.onnx:";
  for (auto& name : list) {
    if (name.starts_with(kOnnx)) name.erase(0, kOnnx.size());
  }
  return list;
}

// --- Predicates ---------------------------------------------------------------------------------

AttributeValue read_list(const Field& field) {
  const auto& json = field.json();
  const auto all = [&](auto is) { return std::all_of(json.begin(), json.end(), is); };
  const auto whole = [](const Json& item) {
    return item.is_number_integer() &&
           (!item.is_number_unsigned() || item.get<std::uint64_t>() <= std::uint64_t{kMost});
  };
  if (all(whole)) {
    return json.get<std::vector<std::int64_t>>();
  }
  if (all([](const Json& item) { return item.is_number(); })) {
    return json.get<std::vector<double>>();
  }
  if (all([](const Json& item) { return item.is_string(); })) {
    return json.get<std::vector<std::string>>();
  }
  field.fail("a list of numbers or of strings");
  return {};
}

AttributeValue read_attribute_value(const Field& field) {
  const auto& json = field.json();
  if (json.is_null()) return {};
  if (json.is_number_integer())
    return field.integer(std::numeric_limits<std::int64_t>::min(), kMost);
  if (json.is_number()) return field.number();
  if (json.is_string()) return field.string();
  if (json.is_array()) return read_list(field);
  field.fail("null, a number, a string, or a list of numbers or of strings");
  return {};
}

void read_values(const Field& field, std::string_view side, Predicate& predicate) {
  field.only({side, "dtype", "rank", "shape", "constant", "given"});
  const auto which = field.at(side);
  if (which.json() != "all") {
    if (which.json().is_string()) which.fail("a number from 0 on, or 'all'");
    predicate.index = static_cast<std::size_t>(which.integer(0, kMost));
  }
  if (const auto dtypes = field.find("dtype")) {
    dtypes->each([&](const Field& item) {
      const auto dtype = parse_dtype(item.string());
      if (!dtype) item.fail("an element type such as f32 or i64");
      predicate.dtypes.push_back(dtype.value_or(DType::kUndefined));
    });
    if (predicate.dtypes.empty()) dtypes->fail("a list of at least one element type");
  }
  if (const auto ranks = field.find("rank")) {
    ranks->each([&](const Field& item) {
      predicate.ranks.push_back(static_cast<std::size_t>(item.integer(0, kMost)));
    });
    if (predicate.ranks.empty()) ranks->fail("a list of at least one number");
  }
  if (const auto shape = field.find("shape")) {
    if (shape->string() != "fixed") shape->fail("'fixed'");
    predicate.fixed_shape = true;
  }
  if (const auto constant = field.find("constant")) predicate.constant = constant->boolean();
  if (const auto given = field.find("given")) predicate.given = given->boolean();
}

Predicate read_predicate(const Field& field, int depth) {
  Predicate predicate;
  if (depth > kMostNested) return field.fail("at most 32 rules within each other"), predicate;
  if (field.find("input")) {
    predicate.kind = Predicate::Kind::kInput;
    read_values(field, "input", predicate);
  } else if (field.find("output")) {
    predicate.kind = Predicate::Kind::kOutput;
    read_values(field, "output", predicate);
  } else if (field.find("attribute")) {
    predicate.kind = Predicate::Kind::kAttribute;
    field.only({"attribute", "in"});
    predicate.attribute = field.at("attribute").string();
    field.at("in").each(
        [&](const Field& item) { predicate.values.push_back(read_attribute_value(item)); });
  } else if (const auto negated = field.find("not")) {
    predicate.kind = Predicate::Kind::kNot;
    field.only({"not"});
    predicate.parts.push_back(read_predicate(*negated, depth + 1));
  } else if (const auto any = field.find("any")) {
    predicate.kind = Predicate::Kind::kAny;
    field.only({"any"});
    any->each(
        [&](const Field& item) { predicate.parts.push_back(read_predicate(item, depth + 1)); });
  } else {
    field.fail("an object with one of input, output, attribute, not, any");
  }
  return predicate;
}

// --- Rules --------------------------------------------------------------------------------------

Rule read_rule(const Field& field, int depth);

std::vector<Rule> read_rules(const Field& list, int depth) {
  std::vector<Rule> rules;
  list.each([&](const Field& item) { rules.push_back(read_rule(item, depth + 1)); });
  if (rules.empty()) list.fail("a list of at least one rule");
  return rules;
}

void read_ops(const Field& field, Rule& rule) {
  field.only({"ops", "opset", "where"});
  rule.ops = read_operators(field.at("ops"));
  if (const auto opset = field.find("opset")) {
    std::vector<std::int64_t> range;
    opset->each([&](const Field& item) { range.push_back(item.integer(1, kMost)); });
    if (range.size() != 2 || range[0] > range[1]) return opset->fail("a list [FROM, TO]");
    rule.opset_from = range[0];
    rule.opset_to = range[1];
  }
  if (const auto where = field.find("where")) {
    where->each([&](const Field& item) { rule.where.push_back(read_predicate(item, 0)); });
  }
}

/// What a chain is made of yields single nodes.
bool yields_nodes(const Rule& rule) {
  if (rule.kind == Rule::Kind::kUnion) return std::ranges::all_of(rule.parts, yields_nodes);
  return rule.kind == Rule::Kind::kAll || rule.kind == Rule::Kind::kOps;
}

void read_chain(const Field& field, Rule& rule, int depth) {
  field.only({"chain"});
  const auto links = field.at("chain");
  rule.parts = read_rules(links, depth);
  std::size_t i = 0;
  links.each([&](const Field& link) {
    if (!yields_nodes(rule.parts[i++])) link.fail("all, ops, or a union of them, in a chain");
  });
}

void read_combine(const Field& field, Rule& rule, int depth) {
  field.only({"combine", "joins"});
  rule.parts.push_back(read_rule(field.at("combine"), depth + 1));
  const auto joins = field.find("joins");
  if (!joins) return;
  joins->each([&](const Field& item) {
    item.only({"from", "to"});
    rule.joins.push_back({read_operators(item.at("from")), read_operators(item.at("to"))});
  });
  if (rule.joins.empty()) joins->fail("a list of at least one object with from and to");
}

void read_only_valid(const Field& field, Rule& rule, int depth) {
  field.only({"only_valid", "max_exits", "taps", "max_nodes", "max_depth"});
  rule.parts.push_back(read_rule(field.at("only_valid"), depth + 1));
  const auto limit = [&](std::string_view name, std::size_t& most) {
    if (const auto found = field.find(name)) {
      most = static_cast<std::size_t>(found->integer(1, kMost));
    }
  };
  limit("max_exits", rule.max_exits);
  limit("max_nodes", rule.max_nodes);
  limit("max_depth", rule.max_depth);
  if (const auto taps = field.find("taps")) rule.taps = taps->boolean();
}

Rule read_rule(const Field& field, int depth) {
  Rule rule;
  if (depth > kMostNested) return field.fail("at most 32 rules within each other"), rule;
  std::string_view name;
  for (const auto known : kRules) {
    if (field.find(known)) name = known;
  }
  rule.kind = static_cast<Rule::Kind>(std::ranges::find(kRules, name) - kRules.begin());
  switch (rule.kind) {
    case Rule::Kind::kAll:
      field.only({"all"});
      if (field.at("all").json() != true) field.at("all").fail("true");
      break;
    case Rule::Kind::kOps:
      read_ops(field, rule);
      break;
    case Rule::Kind::kChain:
      read_chain(field, rule, depth);
      break;
    case Rule::Kind::kUnion:
      field.only({"union"});
      rule.parts = read_rules(field.at("union"), depth);
      break;
    case Rule::Kind::kCombine:
      read_combine(field, rule, depth);
      break;
    case Rule::Kind::kOnlyValid:
      read_only_valid(field, rule, depth);
      break;
    case Rule::Kind::kHost:
      field.only({"host"});
      rule.parts.push_back(read_rule(field.at("host"), depth + 1));
      break;
    default:
      field.fail(concat("an object with one of ", join(kRules, ", ")));
  }
  return rule;
}

Weights read_weights(const Field& field) {
  const auto given = field.find("weights");
  if (!given || given->string() == "shared") return Weights::kShared;
  if (given->string() != "each") given->fail("'shared' or 'each'");
  return Weights::kEach;
}

Rule read_document(const Field& field) {
  field.only({"version", "rule", "weights"});
  const auto version = field.at("version");
  if (version.integer(0, kMost) != kVersion) version.fail(concat(kVersion));
  read_weights(field);
  return read_rule(field.at("rule"), 0);
}

Result<Document> parse_json(std::string_view text, const std::string& whose) {
  auto document = Document::parse(text);
  if (document) return document;
  auto error = std::move(document).error().within(whose);
  error.code = Code::kInvalidArgument;  // No file of ours that lost its data.
  return error;
}

}  // namespace

Result<Rule> parse_rule(std::string_view json, const std::string& whose) {
  PENSTOCK_TRY(const auto document, parse_json(json, whose));
  std::optional<Error> error;
  auto rule = read_document(Field(document.value(), "", error));
  if (error) return (*std::move(error)).within(whose);
  return rule;
}

Result<Weights> parse_weights(std::string_view json, const std::string& whose) {
  PENSTOCK_TRY(const auto document, parse_json(json, whose));
  std::optional<Error> error;
  const auto weights = read_weights(Field(document.value(), "", error));
  if (error) return (*std::move(error)).within(whose);
  return weights;
}

Result<std::map<std::string, Rule>> parse_rules(std::string_view json, const std::string& whose) {
  PENSTOCK_TRY(const auto document, parse_json(json, whose));
  std::optional<Error> error;
  std::map<std::string, Rule> rules;
  Field(document.value(), "", error)
      .each_named([&](const std::string& backend, const Field& field) {
        rules.emplace(backend, read_document(field));
      });
  if (error) return (*std::move(error)).within(whose);
  return rules;
}

}  // namespace penstock::collage
