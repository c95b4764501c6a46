// The steps of an import in order, from bytes to graph, and the readers of --shape and --constant.
#include "penstock/graph/import.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "penstock/base/option_name.h"
#include "penstock/graph/bind.h"
#include "penstock/graph/builder.h"
#include "penstock/graph/byte_products.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/external_data.h"
#include "penstock/graph/functions.h"
#include "penstock/graph/inference.h"
#include "penstock/graph/normalise.h"
#include "penstock/graph/order.h"
#include "penstock/graph/proto.h"
#include "penstock/graph/ranges.h"
#include "penstock/graph/simplify.h"
#include "penstock/graph/sizes.h"
#include "penstock/graph/words.h"

namespace penstock::graph {
namespace {

namespace fs = std::filesystem;

void note_functions(const onnx::ModelProto& model, std::map<std::string, Removal>& removals) {
  std::unordered_set<std::string> functions;
  for (const auto& function : model.functions()) {
    functions.insert(function.domain() + '\n' + function.name());
  }
  for (const auto& node : model.graph().node()) {
    if (node.name().empty() || !functions.contains(node.domain() + '\n' + node.op_type())) continue;
    const std::string by = node.output_size() > 0 ? node.output(0) : "";
    removals.try_emplace(node.name(),
                         Removal{"removed, a function that was inlined; what makes its output is "
                                 "the node before",
                                 by});
  }
}

/// Constants that the user wants to name as parameters may come from Constant nodes too.
Status make_parameters_of_nodes(const onnx::ModelProto& model, const ImportOptions& options,
                                DataReader& reader, Weights& weights) {
  if (options.as_is) return {};
  for (const auto& node : model.graph().node()) {
    if (!is_constant(node)) continue;
    if (!std::ranges::count(options.parameters, node.output(0))) continue;
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() != "value" || weights.contains(node.output(0))) continue;
      PENSTOCK_TRY(Tensor tensor, reader.read(attribute.t()));
      weights.emplace(node.output(0), std::move(tensor));
    }
  }
  return {};
}

/// The initialisers that may get another value: as it is, a file lists defaults as inputs from IR 4
/// on.
std::set<std::string> replaceable_of(const onnx::ModelProto& model, const Sources& sources,
                                     const ImportOptions& options) {
  std::set<std::string> names(options.parameters.begin(), options.parameters.end());
  for (const auto& [name, value] : options.constants) names.insert(name);
  if (!options.as_is || sources.ir_version < kFreeInitialisersIr) return names;
  for (const auto& input : model.graph().input()) names.insert(input.name());
  return names;
}

Result<Draft> build(onnx::ModelProto model, DataReader& reader, const ImportOptions& options) {
  Sources sources;
  sources.ir_version = model.ir_version();
  normalise(model);
  PENSTOCK_TRY(sources.weights, take_weights(model, reader));
  drop_shadowed_functions(model);
  PENSTOCK_CHECK_OK(align_opsets(model));
  PENSTOCK_CHECK_OK(check(model));
  PENSTOCK_CHECK_OK(make_parameters_of_nodes(model, options, reader, sources.weights));
  std::map<std::string, Removal> inlined;
  note_functions(model, inlined);
  PENSTOCK_CHECK_OK(inline_functions(model));
  if (options.whole_byte_products) {
    make_byte_products_whole(model, sources.weights, replaceable_of(model, sources, options));
  }
  PENSTOCK_TRY(Draft draft, draft_of(model, std::move(sources), options));
  draft.removals.merge(inlined);
  return draft;
}

/// ONNX's checker sees the file; inlined functions and captures can still close a circle.
Status check_order(const Graph& graph) {
  std::vector<bool> awaited(graph.values.size(), false);
  for (const auto& node : graph.nodes) {
    for (const auto id : node.outputs) {
      if (id != ValueId::kNone) awaited[index(id)] = true;
    }
  }
  for (const auto& node : graph.nodes) {
    for (const auto* list : {&node.inputs, &node.captures}) {
      for (const auto id : *list) {
        if (id == ValueId::kNone || !awaited[index(id)]) continue;
        return invalid_argument("reads '", graph.value(id).name,
                                "', which this node or a later one makes; nodes must be in order")
            .within(graph.place_of(node));
      }
    }
    for (const auto id : node.outputs) {
      if (id != ValueId::kNone) awaited[index(id)] = false;
    }
  }
  return {};
}

bool has_dimensions(const Type& type) {
  return type.kind == Type::Kind::kTensor && type.ranked && !type.dims.empty();
}

/// Some converters declare results of one row, whatever number of rows goes in. What inference
/// knows by itself it tells again.
void open_rows_of_outputs(Graph& graph) {
  const bool takes_any_number = std::ranges::any_of(graph.inputs, [&](ValueId id) {
    const auto& type = graph.value(id).type;
    return has_dimensions(type) && !type.dims.front().fixed();
  });
  if (!takes_any_number) return;
  for (const auto id : graph.outputs) {
    auto& value = graph.values[index(id)];
    if (!value.producer || !has_dimensions(value.type)) continue;
    auto& rows = value.type.dims.front();
    if (rows.fixed() && rows.size == 1) rows = Dim{};
  }
}

Result<Graph> import_from(std::string_view bytes, std::shared_ptr<const MappedFile> file,
                          const fs::path& folder, const ImportOptions& options) {
  DataReader reader(bytes, std::move(file), folder);
  PENSTOCK_TRY(onnx::ModelProto model, parse_model(bytes));
  PENSTOCK_TRY(Draft draft, build(std::move(model), reader, options));
  PENSTOCK_CHECK_OK(check_order(draft.graph));
  open_rows_of_outputs(draft.graph);
  if (auto status = bind_shapes(draft.graph, options.shapes); !status) {
    return std::move(status).error().within(std::string(name_of(OptionName::kShapes)));
  }
  PENSTOCK_CHECK_OK(bind_inputs(draft, options.constants));
  draft.graph.import.file_nodes = draft.graph.nodes.size();
  draft.graph.import.not_folded = !options.as_is && !options.engine.evaluate;
  if (options.as_is) {
    infer_types(draft.graph, Source::kFile);
    ask_engine(draft.graph, options.engine);
  } else {
    PENSTOCK_CHECK_OK(simplify(draft, options.engine));
  }
  bound_dimensions(draft.graph);
  find_sizes(draft.graph);
  if (!options.as_is) find_ranges(draft.graph);
  find_words(draft.graph);
  name_nodes(draft.graph);
  explain_removals(draft);
  return std::move(draft.graph);
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size < 0) return std::nullopt;
  return size;
}

std::optional<Dim> parse_dim(std::string_view text) {
  if (text == "?") return Dim{};
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) {
    const auto size = parse_size(text);
    return size ? std::optional(Dim{*size, {}, Dim::kOpen}) : std::nullopt;
  }
  const auto least = parse_size(text.substr(0, dots));
  const auto most = parse_size(text.substr(dots + 2));
  if (least != 1 || !most || *most < 1) return std::nullopt;
  return Dim{Dim::kOpen, {}, *most};
}

}  // namespace

Result<std::pair<std::string, std::vector<Dim>>> parse_shape(const std::string& text) {
  const auto refuse = [&] {
    return invalid_argument(
        OptionName::kShapes, " '", text,
        "': expected NAME=SIZExSIZE..., with 'x' between the sizes, such as x=1x3x224x224; a size "
        "is a number, ? (any), or 1..MOST (no other least than 1), such as ids=1x1..512");
  };
  const auto equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return refuse();
  std::vector<Dim> dims;
  std::string_view rest = std::string_view(text).substr(equals + 1);
  while (!rest.empty()) {
    const auto cross = rest.find('x');
    const auto dim = parse_dim(rest.substr(0, cross));
    const bool dangling = cross != std::string_view::npos && cross + 1 == rest.size();
    if (!dim || dangling) return refuse();
    dims.push_back(*dim);
    rest = cross == std::string_view::npos ? std::string_view() : rest.substr(cross + 1);
  }
  return std::make_pair(text.substr(0, equals), std::move(dims));
}

Result<std::pair<std::string, std::string>> parse_constant(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return invalid_argument(OptionName::kConstants, " '", text,
                            "': expected NAME=VALUE, a value such as 16000, true or [1, 2], or an "
                            ".npy file");
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Result<Graph> import_onnx(const fs::path& file, const ImportOptions& options) {
  PENSTOCK_TRY(auto mapped, MappedFile::open(file));
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  auto graph = guarded(Code::kDataLoss, "not an ONNX model",
                       [&] { return import_from(mapped->bytes(), mapped, folder, options); });
  if (!graph) return std::move(graph).error().within({Where::kFile, file.string()});
  (*graph).import.file = file;
  return graph;
}

Result<CutProducts> cut_products(const fs::path& file, std::string_view bytes) {
  if (!may_cut_byte_products()) return CutProducts{};
  std::shared_ptr<const MappedFile> mapped;
  if (!file.empty()) {
    PENSTOCK_TRY(mapped, MappedFile::open(file));
    bytes = mapped->bytes();
  }
  return guarded(Code::kDataLoss, "not an ONNX model", [&]() -> Result<CutProducts> {
    PENSTOCK_TRY(auto model, parse_model(bytes));
    sort_nodes(model);
    return CutProducts{multiplies_mixed_bytes(model), multiplies_mixed_floats(model)};
  });
}

Result<bool> needs_mending(const fs::path& file) {
  PENSTOCK_TRY(const auto mapped, MappedFile::open(file));
  PENSTOCK_TRY(auto model, guarded(Code::kDataLoss, "not an ONNX model",
                                   [&] { return parse_model(mapped->bytes()); }));
  std::unordered_set<std::string> names;
  for (const auto& node : model.graph().node()) {
    if (!node.name().empty() && !names.insert(node.name()).second) return true;
  }
  bool mends = name_known_opsets(model);
  mends = settle_double_constants(model) || mends;
  mends = name_omitted_pieces(model) || mends;
  mends = sort_nodes(model) || mends;
  return mends || (may_cut_byte_products() && multiplies_mixed_bytes(model));
}

Result<Graph> import_onnx_bytes(std::string_view bytes, const fs::path& folder,
                                const ImportOptions& options) {
  auto graph = guarded(Code::kDataLoss, "not an ONNX model",
                       [&] { return import_from(bytes, nullptr, folder, options); });
  if (!graph) return std::move(graph).error().within("model");
  return graph;
}

}  // namespace penstock::graph
