// Finds the edge, state, parameter or local of each port by its name, and compares the types.
#include "penstock/pipeline/ports.h"

#include <algorithm>
#include <optional>

#include "penstock/base/option_name.h"

namespace penstock::pipeline {
namespace {

std::optional<Wire> find_wire(const std::vector<Edge*>& edges, Wire::Kind kind,
                              const std::string& name) {
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const auto found = std::ranges::find(edges[e]->tensors, name);
    if (found == edges[e]->tensors.end()) continue;
    const auto tensor = static_cast<std::size_t>(found - edges[e]->tensors.begin());
    return Wire{kind, e, tensor, !edges[e]->types[tensor].max_bytes()};
  }
  return std::nullopt;
}

const Type* declared_type(const plan::Plan& plan, const std::string& name) {
  const auto parameter = std::ranges::find(plan.parameters, name, &plan::Parameter::name);
  if (parameter != plan.parameters.end()) return &parameter->type;
  const auto* info = plan.find_tensor(name);
  return info == nullptr ? nullptr : &info->type;
}

std::string name_of(const plan::Partition& partition) {
  if (partition.served) return "model '" + to_string(*partition.served) + "'";
  if (partition.backend != plan::kFunctionBackend) return "model '" + partition.model + "'";
  const auto named = partition.options.find("function");
  return "function '" + (named == partition.options.end() ? partition.model : named->second) + "'";
}

// The type of one item, where a stage runs for each.
Type item_type(Type type) {
  if (!type.dims.empty()) type.dims.erase(type.dims.begin());
  return type;
}

// Each call gets a view of its item, which begins at a whole byte.
bool begins_at_bytes(const Type& item) {
  std::size_t bits = bits_of(item.dtype);
  for (const auto& dim : item.dims) bits *= dim.fixed() ? static_cast<std::size_t>(dim.size) : 1;
  return bits % 8 == 0;
}

// An engine may infer other shapes than ONNX does; then the plan is right.
std::string how_to_mend(const plan::Partition& partition) {
  if (partition.backend == plan::kFunctionBackend) return "; change one of them";
  const std::string again = "; split the model again";
  if (partition.served) return again;
  return again + ", or give the stage to another backend than " + partition.backend;
}

// plan.json may have been edited: then it must still fit the models.
Status check_type(const plan::Plan& plan, const plan::Partition& partition, const std::string& name,
                  const backend::Port& port, bool items) {
  const Type* declared = declared_type(plan, name);
  if (items && !begins_at_bytes(port.type)) {
    return invalid_argument("tensor '", name, "': items of ", port.type,
                            " are not of whole bytes: a stage with 'each' cannot take them apart; "
                            "give them a type of 8 bits or more");
  }
  if (declared == nullptr || plan::agree(items ? item_type(*declared) : *declared, port.type))
    return {};
  return invalid_argument("tensor '", name, "': the plan says ", *declared,
                          items ? ", one item of it for each call, " : ", ", name_of(partition),
                          " says ", port.type, how_to_mend(partition));
}

Status check_count(const plan::Partition& partition, std::string_view what, std::size_t declared,
                   std::size_t given) {
  if (declared == given) return {};
  return invalid_argument(name_of(partition), " has ", declared, " ", what, ", the plan gives it ",
                          given);
}

// What the plan expects of the model, the model must give.
Status check_all_given(const plan::Partition& partition, const backend::Executable& executable) {
  const auto given = executable.outputs();
  for (const auto& expected : partition.outputs) {
    const bool found = std::ranges::any_of(given, [&](const backend::Port& port) {
      return partition.tensor_of(port.name) == expected;
    });
    if (found) continue;
    return invalid_argument(name_of(partition), ": expected an output '", expected, "', found '",
                            join(given, "', '", [](const auto& port) { return port.name; }), "'");
  }
  return {};
}

std::optional<std::size_t> find_state(const std::vector<StateEdge*>& list,
                                      const std::string StateEdge::* end, const std::string& name) {
  const auto found = std::ranges::find_if(list, [&](const auto* s) { return s->*end == name; });
  if (found == list.end()) return std::nullopt;
  return static_cast<std::size_t>(found - list.begin());
}

// Where the stage writes a tensor that leaves it.
std::optional<Wire> find_written(const plan::Plan& plan, const Stage& stage,
                                 const std::string& name) {
  if (auto edge = find_wire(stage.out_edges, Wire::Kind::kOutEdge, name)) return edge;
  const auto state = find_state(stage.states_out, &StateEdge::from, name);
  if (!state) return std::nullopt;
  return Wire{Wire::Kind::kStateOut, *state, 0, !plan.find_tensor(name)->type.max_bytes()};
}

}  // namespace

void find_state_sources(const plan::Plan& plan, Stage& stage) {
  for (std::size_t s = 0; s < stage.states_out.size(); ++s) {
    const auto wire = find_written(plan, stage, stage.states_out[s]->from);
    const bool itself = wire->kind == Wire::Kind::kStateOut && wire->where == s;
    stage.state_sources.push_back(itself ? std::nullopt : wire);
  }
}

Status join_ports(const plan::Plan& plan, Stage& stage, CompiledPartition& partition,
                  const backend::Executable& executable) {
  const auto local = [&](const std::string& name, const Type& type) {
    for (std::size_t i = 0; i < stage.locals.size(); ++i) {
      if (stage.local_names[i] == name)
        return Wire{Wire::Kind::kLocal, i, 0, !stage.locals[i].max_bytes()};
    }
    stage.locals.push_back(type);
    stage.local_names.push_back(name);
    return Wire{Wire::Kind::kLocal, stage.locals.size() - 1, 0, !type.max_bytes()};
  };
  const auto& each = stage.plan->each;
  // Of what passes between the stage's own partitions, the plan knows the type of one item.
  const auto holds_items = [&](const std::string& name) {
    const auto& written = stage.plan->outputs;
    return !each.empty() && (std::ranges::find(each, name) != each.end() ||
                             std::ranges::find(written, name) != written.end());
  };
  // A function's ports are the plan's in order: an input and an output may have one name.
  const bool in_order = partition.plan->backend == plan::kFunctionBackend;
  if (in_order) {
    PENSTOCK_CHECK_OK(check_count(*partition.plan, "inputs", executable.inputs().size(),
                                  partition.plan->inputs.size()));
    PENSTOCK_CHECK_OK(check_count(*partition.plan, "outputs", executable.outputs().size(),
                                  partition.plan->outputs.size()));
  }
  for (std::size_t i = 0; i < executable.outputs().size(); ++i) {
    const auto& port = executable.outputs()[i];
    const auto& name = in_order ? partition.plan->outputs[i] : partition.plan->tensor_of(port.name);
    auto wire = find_written(plan, stage, name);
    if (wire) wire->items = !each.empty();
    PENSTOCK_CHECK_OK(check_type(plan, *partition.plan, name, port, holds_items(name)));
    const Type& storage = wire ? *declared_type(plan, name) : port.type;
    const bool items = wire && holds_items(name);
    partition.outputs.push_back({wire ? *wire : local(name, port.type), name,
                                 items ? item_type(storage) : storage, storage});
  }
  if (!in_order) PENSTOCK_CHECK_OK(check_all_given(*partition.plan, executable));
  for (std::size_t i = 0; i < executable.inputs().size(); ++i) {
    const auto& port = executable.inputs()[i];
    const auto& name = in_order ? partition.plan->inputs[i] : partition.plan->tensor_of(port.name);
    const auto& parameters = stage.plan->parameters;
    Wire wire;
    if (const auto at = std::ranges::find(parameters, name); at != parameters.end()) {
      wire = {Wire::Kind::kParameter, static_cast<std::size_t>(at - parameters.begin()), 0, false};
    } else if (const auto in = find_wire(stage.in_edges, Wire::Kind::kInEdge, name)) {
      wire = *in;
      wire.items = std::ranges::find(each, name) != each.end();
    } else if (const auto state = find_state(stage.states_in, &StateEdge::to, name)) {
      wire = {Wire::Kind::kStateIn, *state, 0, false};
      wire.items = std::ranges::find(each, name) != each.end();
    } else if (const auto written = find_written(plan, stage, name)) {
      wire = *written;
      wire.items = !each.empty();
    } else if (std::ranges::find(stage.local_names, name) != stage.local_names.end()) {
      wire = local(name, port.type);
    } else {
      return invalid_argument(name_of(*partition.plan), " reads tensor '", name,
                              "', which no edge brings to this stage; split the model again");
    }
    PENSTOCK_CHECK_OK(check_type(plan, *partition.plan, name, port, holds_items(name)));
    partition.inputs.push_back(wire);
  }
  partition.ports.assign(executable.inputs().begin(), executable.inputs().end());
  partition.ports.insert(partition.ports.end(), executable.outputs().begin(),
                         executable.outputs().end());
  return {};
}

Status check_same_ports(const CompiledPartition& partition, const backend::Executable& executable,
                        const device::Device& place) {
  std::vector<backend::Port> found(executable.inputs().begin(), executable.inputs().end());
  found.insert(found.end(), executable.outputs().begin(), executable.outputs().end());
  const auto same = [](const backend::Port& a, const backend::Port& b) {
    return a.name == b.name && plan::agree(a.type, b.type);
  };
  if (std::ranges::equal(partition.ports, found, same)) return {};
  const auto text = [](const backend::Port& port) {
    return concat(port.name, " ", to_string(port.type));
  };
  return invalid_argument("device '", device::to_string(place), "': ", name_of(*partition.plan),
                          " is another than on the first device: expected ",
                          join(partition.ports, ", ", text), ", found ", join(found, ", ", text));
}

Status check_output(const CompiledPartition& partition, std::size_t i, const Type& type,
                    const Tensor& value) {
  Status fits = check_matches(type, value);
  if (fits) return {};
  const auto& name = partition.outputs[i].name;
  const bool of_network = partition.plan->backend != plan::kFunctionBackend;
  const bool other_sizes = type.kind == Type::Kind::kTensor &&
                           value.kind() == Tensor::Kind::kDense && value.dtype() == type.dtype;
  // A file may claim sizes that no operator tells, as of a reduction whose axes are an input.
  const auto advice =
      of_network && other_sizes
          ? concat(
                "the model declares the first, this frame gave the second: where an input's "
                "values decide its sizes, declare them open in the model or bind that input (",
                OptionName::kConstants,
                "); where not, take another backend, and tell the authors of this one")
          : "its outputs must be as it declares them: take another backend, and tell the authors "
            "of this one";
  return internal_error("backend '", partition.plan->backend, "': ", name_of(*partition.plan),
                        ": output '", name, "': ", std::move(fits).error().message(), "; ", advice);
}

Status check_place(const CompiledPartition& partition, std::size_t i, const backend::Memory* memory,
                   const Tensor& value) {
  if (memory == nullptr || memory->reaches_host() || !value.in_host_memory()) return {};
  return internal_error("backend '", partition.plan->backend, "': output '",
                        partition.outputs[i].name, "' lies in the host's memory: expected '",
                        memory->name(), "'");
}

Status check_given(const Type& type, const Tensor& value) {
  PENSTOCK_CHECK_OK(check_matches(type, value));
  if (value.in_host_memory()) return {};
  return invalid_argument("expected a tensor in the host's memory, found one in memory domain ",
                          static_cast<int>(value.domain()), "; copy it to the host's first");
}

}  // namespace penstock::pipeline
