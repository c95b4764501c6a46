// Makes the edges from who reads each tensor, adds states, and refuses native code where asked to.
#include "penstock/plan/plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "penstock/base/near_names.h"
#include "penstock/base/option_name.h"
#include "penstock/tensor/npy.h"

namespace penstock::plan {
namespace {

constexpr std::array<std::pair<FullPolicy, std::string_view>, 5> kPolicies{{
    {FullPolicy::kBlock, "block"},
    {FullPolicy::kDropOldest, "drop_oldest"},
    {FullPolicy::kDropNewest, "drop_newest"},
    {FullPolicy::kLatest, "latest"},
    {FullPolicy::kError, "error"},
}};

using Readers = std::map<std::string, std::vector<int>>;

/// Who reads each tensor: stages ascending, the pipeline's output last.
Readers readers_of(const Plan& plan) {
  Readers readers;
  const auto add = [&](const std::string& tensor, int reader) {
    auto& list = readers[tensor];
    if (list.empty() || list.back() != reader) list.push_back(reader);
  };
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    for (const auto& tensor : plan.stages[i].inputs) add(tensor, static_cast<int>(i));
  }
  for (const auto& output : plan.outputs) add(output.name, kPipelineOutput);
  for (const auto& state : plan.states) readers.erase(state.to);  // No edge brings it.
  return readers;
}

/// One edge for each set of readers, in the order in which `tensors` first show it.
void connect_producer(int from, const std::vector<std::string>& tensors, const Readers& readers,
                      std::vector<Edge>& edges) {
  const auto first = edges.size();
  for (const auto& tensor : tensors) {
    const auto found = readers.find(tensor);
    if (found == readers.end()) continue;  // Nobody reads it: it needs no slot.
    const auto begin = edges.begin() + static_cast<std::ptrdiff_t>(first);
    const auto edge =
        std::find_if(begin, edges.end(), [&](const Edge& e) { return e.to == found->second; });
    if (edge == edges.end()) {
      edges.push_back({.from = from, .to = found->second, .tensors = {tensor}});
    } else if (std::ranges::find(edge->tensors, tensor) == edge->tensors.end()) {
      edge->tensors.push_back(tensor);
    }
  }
}

std::vector<std::string> names_of(const std::vector<TensorInfo>& infos) {
  std::vector<std::string> names;
  names.reserve(infos.size());
  for (const auto& info : infos) names.push_back(info.name);
  return names;
}

/// "; did you mean 'h'?"; or all names, where none is near.
std::string offer(const std::string& text, const std::vector<TensorInfo>& infos, const char* what) {
  const auto names = names_of(infos);
  if (auto near = did_you_mean(text, names); !near.empty()) return near;
  if (names.empty()) return concat("; there are no ", what);
  return concat("; the ", what, " are ",
                join(names, ", ", [](const std::string& name) { return "'" + name + "'"; }));
}

Error no_input_for(const Plan& plan, const StateEdge& state) {
  if (std::ranges::find(plan.bound_inputs, state.to, &BoundInput::name) !=
      plan.bound_inputs.end()) {
    return invalid_argument("input '", state.to,
                            "' is bound to a constant, so that no frame gives it another value; "
                            "leave out the constant or the state");
  }
  if (const auto* const other = plan.find_state(state.to); other != nullptr) {
    return invalid_argument("'", state.to, "' reads '", other->from,
                            "' already; an input reads one state");
  }
  return not_found("no input '", state.to, "'", offer(state.to, plan.inputs, "inputs"));
}

Error no_output_for(const Plan& plan, const StateEdge& state) {
  const auto other = std::ranges::find(plan.states, state.from, &StateEdge::from);
  if (other != plan.states.end()) {
    return invalid_argument("output '", state.from, "' is the state of input '", other->to,
                            "' already; an output is one state");
  }
  return not_found("no output '", state.from, "'", offer(state.from, plan.outputs, "outputs"));
}

}  // namespace

std::string_view to_string(FullPolicy policy) {
  for (const auto& [value, text] : kPolicies) {
    if (value == policy) return text;
  }
  return "?";
}

std::optional<FullPolicy> parse_full_policy(std::string_view text) {
  for (const auto& [value, name] : kPolicies) {
    if (name == text) return value;
  }
  return std::nullopt;
}

const TensorInfo* Plan::find_tensor(std::string_view name) const {
  for (const auto* list : {&inputs, &outputs, &tensors}) {
    const auto found = std::ranges::find(*list, name, &TensorInfo::name);
    if (found != list->end()) return &*found;
  }
  return nullptr;
}

bool agree(const Type& a, const Type& b) {
  if (a.kind == Type::Kind::kUnknown || b.kind == Type::Kind::kUnknown) return true;
  if (a.kind != b.kind || a.dtype != b.dtype) return false;
  if (!a.ranked || !b.ranked) return true;
  const auto within = [](const Dim& size, const Dim& open) {
    return open.bound == Dim::kOpen || size.size <= open.bound;
  };
  return std::ranges::equal(a.dims, b.dims, [&](const Dim& one, const Dim& other) {
    if (one.fixed() && other.fixed()) return one.size == other.size;
    if (one.fixed()) return within(one, other);
    return !other.fixed() || within(other, one);
  });
}

bool holds_items(const Type& type) {
  return type.kind == Type::Kind::kTensor && type.ranked && !type.dims.empty() &&
         type.max_bytes() && std::all_of(type.dims.begin() + 1, type.dims.end(), [](const Dim& d) {
           return d.fixed();
         });
}

const StateEdge* Plan::find_state(std::string_view to) const {
  const auto found = std::ranges::find(states, to, &StateEdge::to);
  return found == states.end() ? nullptr : &*found;
}

Error native_code_refused(const std::string& library) {
  return make_error(Code::kPermissionDenied, library,
                    ": native code is not allowed here; if you trust it, leave out ",
                    OptionName::kNoNativeCode, ", and for what a server is sent give ",
                    OptionName::kAllowNativeCode);
}

Status refuse_native_code(const Plan& plan) {
  if (!plan.custom_ops.empty()) {
    return native_code_refused("custom-operator library '" + plan.custom_ops.front() + "'");
  }
  for (const auto& stage : plan.stages) {
    for (const auto& partition : stage.partitions) {
      if (partition.backend != kFunctionBackend || partition.model.empty()) continue;
      return native_code_refused("stage '" + stage.name + "': function library '" +
                                 partition.model + "'");
    }
  }
  return {};
}

/// An output that is an input under its own name: no stage could write it for the next frame.
Error both_in_one(const std::string& name) {
  return invalid_argument("'", name,
                          "' is an input and an output in one, which nothing computes: expected an "
                          "output of its own; add an Identity node to the model from input '",
                          name, "' to a new output, in place of output '", name, "' (",
                          OptionName::kStates, ")");
}

std::optional<Error> misread_state(const StateEdge& state, const std::vector<std::string>& inputs,
                                   const std::vector<std::string>& outputs) {
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  for (const auto& end : {state.from, state.to}) {
    if (has(inputs, end) && has(outputs, end)) return both_in_one(end);
  }
  if (has(inputs, state.to)) return std::nullopt;
  if (has(inputs, state.from) && has(outputs, state.to)) {
    return invalid_argument("the ends are swapped: expected ",
                            in_words_of_caller("OUT=IN", "{OUT: IN}"),
                            ", found an input and an output; give ",
                            in_words_of_caller(concat(state.to, "=", state.from),
                                               concat("{'", state.to, "': '", state.from, "'}")),
                            " (", OptionName::kStates, ")");
  }
  const auto colon = state.to.rfind(':');
  const auto input = state.to.substr(0, colon);
  if (colon == state.to.npos || !state.initial.empty() || !has(inputs, input)) return std::nullopt;
  return invalid_argument(
      "expected a file of the first value (.npy) ",
      in_words_of_caller(concat("behind '", input, ":', found '", state.to.substr(colon + 1), "'"),
                         concat("beside the input, ('", input, "', FILE), found '", state.to, "'")),
      "; write one (numpy.save), or leave it out for zeros (", OptionName::kStates, ")");
}

Status add_state(Plan& plan, const StateEdge& state, bool keep_output) {
  const auto place = concat("state '", state.from, "' -> '", state.to, "'");
  if (auto misread = misread_state(state, names_of(plan.inputs), names_of(plan.outputs))) {
    return (*std::move(misread)).within(place);
  }
  const auto input = std::ranges::find(plan.inputs, state.to, &TensorInfo::name);
  if (input == plan.inputs.end()) return no_input_for(plan, state).within(place);
  const auto output = std::ranges::find(plan.outputs, state.from, &TensorInfo::name);
  if (output == plan.outputs.end()) return no_output_for(plan, state).within(place);
  plan.states.push_back(state);
  plan.tensors.push_back(*input);
  plan.inputs.erase(input);
  if (!keep_output) {
    TensorInfo info = *output;
    std::erase_if(plan.outputs, [&](const TensorInfo& other) { return other.name == info.name; });
    if (plan.find_tensor(info.name) == nullptr) plan.tensors.push_back(std::move(info));
  }
  connect(plan);
  return validate(plan);
}

Result<Tensor> initial_value(const Plan& plan, const std::filesystem::path& folder,
                             const StateEdge& state) {
  const Type& type = plan.find_tensor(state.to)->type;
  if (state.initial.empty()) {
    std::vector<std::int64_t> dims;
    dims.reserve(type.dims.size());
    for (const auto& dim : type.dims) dims.push_back(dim.size);
    return Tensor::allocate(type.dtype, std::move(dims));
  }
  auto value = read_npy(folder / state.initial, type.dtype);
  const Status fits = value ? check_matches(type, *value) : Status(value.error());
  if (fits) return value;
  return Error(fits.error())
      .within(concat("state '", state.from, "' -> '", state.to, "': initial value"));
}

void connect(Plan& plan) {
  const auto readers = readers_of(plan);
  plan.edges.clear();
  std::vector<std::string> inputs;
  inputs.reserve(plan.inputs.size());
  for (const auto& input : plan.inputs) inputs.push_back(input.name);
  connect_producer(kPipelineInput, inputs, readers, plan.edges);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    connect_producer(static_cast<int>(i), plan.stages[i].outputs, readers, plan.edges);
  }
}

}  // namespace penstock::plan
