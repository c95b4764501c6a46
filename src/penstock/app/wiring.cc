// Checks names and ports, orders nodes depth first, then connects tensors and compares types.
#include "penstock/app/wiring.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "penstock/session/identify.h"
#include "penstock/session/state_loops.h"
#include "penstock/tensor/npy.h"

namespace penstock::app {
namespace {

/// Not `quoted`: of a text that may be changed, the standard library's would be taken.
std::string in_quotes(const std::string& name) {
  return "'" + name + "'";
}

std::string port_names(const std::vector<plan::TensorInfo>& ports) {
  if (ports.empty()) return "none";
  return join(ports, ", ", [](const auto& info) { return in_quotes(info.name); });
}

bool is_node_name(const std::string& name) {
  return !name.empty() && name != "input" && name != "output" &&
         std::ranges::all_of(
             name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

class Wirer {
 public:
  Wirer(const App& app, const std::vector<Part>& parts) : app_(app), parts_(parts) {}

  Result<Wiring> run() {
    PENSTOCK_CHECK_OK(check_names());
    take_states();
    PENSTOCK_CHECK_OK(check_ports());
    PENSTOCK_CHECK_OK(order_nodes());
    PENSTOCK_CHECK_OK(infer_inputs());
    wiring_.reads.resize(parts_.size());
    wiring_.writes.resize(parts_.size());
    wiring_.items.resize(parts_.size());
    PENSTOCK_CHECK_OK(name_outputs());
    PENSTOCK_CHECK_OK(read_states());
    for (const auto p : wiring_.order) PENSTOCK_CHECK_OK(connect(p));
    PENSTOCK_CHECK_OK(write_states());
    PENSTOCK_CHECK_OK(connect_outputs());
    return std::move(wiring_);
  }

 private:
  /// A node's port, or an input of the application: then `part` is empty.
  struct End {
    std::optional<std::size_t> part;
    std::string name;
  };

  Status check_names() {
    std::set<std::string> names;
    for (const auto& node : app_.nodes) {
      const auto place = place_of(node);
      if (!is_node_name(node.name)) {
        return invalid_argument(
                   "expected a name of letters, digits, '_' and '-', not "
                   "'input' or 'output'")
            .within(place);
      }
      if (!names.insert(node.name).second) return invalid_argument("is there twice").within(place);
    }
    if (app_.nodes.empty()) return invalid_argument("application '", app_.name, "': has no nodes");
    for (const auto& input : app_.inputs) {
      if (input.name.empty() || !names.insert(input.name).second) {
        return at(input.place, invalid_argument("expected a name that is not taken")
                                   .within({Where::kInput, input.name}));
      }
      if (node_end(input.name, true)) {
        return at(input.place, invalid_argument("a node's output is called so; choose another")
                                   .within({Where::kInput, input.name}));
      }
    }
    return {};
  }

  [[nodiscard]] std::optional<std::size_t> find_part(std::string_view name) const {
    const auto found =
        std::ranges::find_if(parts_, [&](const Part& part) { return part.node->name == name; });
    if (found == parts_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - parts_.begin());
  }

  /// "node.port", of which ports may hold dots. `otherwise`: what else it might have been.
  Result<End> node_end(const std::string& text, bool output,
                       const std::string& otherwise = "") const {
    const auto dot = text.find('.');
    const auto node = text.substr(0, dot);
    const auto part = find_part(node);
    if (!part || dot == text.npos) {
      return not_found("no ", output ? "source " : "port ", in_quotes(text), "; expected ",
                       otherwise, "'node.port', the nodes being ",
                       join(app_.nodes, ", ", [](const auto& n) { return in_quotes(n.name); }));
    }
    const auto port = text.substr(dot + 1);
    const auto& ports = output ? parts_[*part].plan.outputs : parts_[*part].plan.inputs;
    if (std::ranges::find(ports, port, &plan::TensorInfo::name) == ports.end()) {
      return not_found("node ", in_quotes(node), " has no ", output ? "output " : "input ",
                       in_quotes(port), "; there are: ", port_names(ports));
    }
    return End{part, port};
  }

  Result<End> source_end(const std::string& text) const {
    if (std::ranges::find(app_.inputs, text, &Input::name) != app_.inputs.end()) {
      return End{std::nullopt, text};
    }
    if (app_.inputs.empty()) return node_end(text, true);
    const auto names =
        join(app_.inputs, ", ", [](const auto& input) { return in_quotes(input.name); });
    return node_end(text, true, "an input (" + names + ") or ");
  }

  /// Whether anything in the part reads the port: a model may list inputs for nothing.
  static bool is_read(const Part& part, const std::string& port) {
    if (part.network() == nullptr) return true;
    return std::ranges::any_of(part.plan.stages,
                               [&](const plan::Stage& stage) {
                                 return std::ranges::find(stage.inputs, port) != stage.inputs.end();
                               }) ||
           part.find_output(port) != nullptr;
  }

  static bool is_bound(const Part& part, const std::string& port) {
    const auto& bound = part.plan.bound_inputs;
    return std::ranges::find(bound, port, &plan::BoundInput::name) != bound.end();
  }

  /// Whoever writes a number where a source is expected means a value that never changes.
  static std::string advice_on_source(const Connection& connection) {
    const auto& text = connection.source;
    const bool value = !text.empty() && text.find_first_not_of("0123456789.-+e") == text.npos;
    return value || text == "true" || text == "false"
               ? concat("; a value that never changes stands in the node's 'constants: {",
                        connection.port, ": ", text, "}'")
               : "";
  }

  /// A package's inputs were settled when it was made, and a function's are never bound.
  static std::string advice_on_binding(const Node& node, const std::string& port) {
    const auto* network = std::get_if<Network>(&node.runs);
    if (network == nullptr || identify(network->model) == FileKind::kPackage) return {};
    return concat(", or bind it where it never changes ('constants: {", port, ": VALUE}')");
  }

  /// The application's, and those of packages that it does not name anew.
  void take_states() {
    states_ = app_.states;
    for (const auto& part : parts_) {
      for (const auto& state : part.states) {
        if (std::ranges::find(app_.states, state.to, &State::to) == app_.states.end())
          states_.push_back(state);
      }
    }
  }

  Status check_ports() {
    for (const auto& state : states_) {
      if (std::ranges::find(app_.inputs, state.from, &Input::name) != app_.inputs.end()) {
        return at(state.place,
                  invalid_argument("states: ", in_quotes(state.from),
                                   " is an input of the application: expected a node's output, "
                                   "'node.port'; let a function hand the input on"));
      }
      auto to = node_end(state.to, false);
      if (!to) return at(state.place, std::move(to).error().within("states"));
      if (!state_ports_.insert({*to->part, to->name}).second) {
        return at(state.place,
                  invalid_argument("states: ", in_quotes(state.to), " ends two of them"));
      }
    }
    for (std::size_t p = 0; p < parts_.size(); ++p) PENSTOCK_CHECK_OK(check_ports_of(p));
    return {};
  }

  Status check_ports_of(std::size_t p) {
    const auto& part = parts_[p];
    const auto& node = *part.node;
    std::set<std::string> connected;
    for (const auto& connection : node.inputs) {
      const std::vector<Where> place{{Where::kNode, node.name}, {Where::kInput, connection.port}};
      if (is_bound(part, connection.port)) {
        return at(connection.place,
                  invalid_argument("is bound to a value (constants): leave out its source ",
                                   in_quotes(connection.source))
                      .within(place));
      }
      if (part.find_input(connection.port) == nullptr) {
        return at(connection.place,
                  not_found("the node has no such input; there are: ", port_names(part.plan.inputs))
                      .within(place));
      }
      if (!connected.insert(connection.port).second) {
        return at(connection.place,
                  invalid_argument("has two sources; connect it once").within(place));
      }
      if (state_ports_.contains({p, connection.port})) {
        return at(
            connection.place,
            invalid_argument("has a source and a state; leave one of them out").within(place));
      }
      auto source = source_end(connection.source);
      if (!source) {
        auto error = std::move(source).error().adding(advice_on_source(connection));
        return at(connection.place, std::move(error).within(place));
      }
    }
    for (const auto& port : node.each) {
      if (connected.contains(port)) continue;
      return invalid_argument("each: ", in_quotes(port), " is no connected input of it")
          .within(place_of(node, "each"));
    }
    for (const auto& input : part.plan.inputs) {
      if (connected.contains(input.name) || state_ports_.contains({p, input.name})) continue;
      if (!is_read(part, input.name)) continue;
      return invalid_argument("input ", in_quotes(input.name), " (", input.type,
                              ") has no source; connect it to an input of the application or to "
                              "'node.port'",
                              advice_on_binding(node, input.name))
          .within(place_of(node));
    }
    return {};
  }

  /// Depth first in the given order, so that the plan's stages stand as the file's nodes do.
  Status order_nodes() {
    std::vector<int> seen(parts_.size(), 0);  // 1: being visited, 2: done.
    std::vector<std::size_t> path;
    for (std::size_t p = 0; p < parts_.size(); ++p) PENSTOCK_CHECK_OK(visit(p, seen, path));
    return {};
  }

  Status visit(std::size_t p, std::vector<int>& seen, std::vector<std::size_t>& path) {
    if (seen[p] == 2) return {};
    path.push_back(p);
    if (seen[p] == 1) {
      const auto first = std::ranges::find(path, p);
      std::vector<std::string> names;
      for (auto step = path.end(); step-- != first;) names.push_back(parts_[*step].node->name);
      return invalid_argument("the nodes feed each other in a cycle: ", join(names, " -> "),
                              "; a value of the frame before is a state (states: from, to)")
          .within(place_of(*parts_[p].node));
    }
    seen[p] = 1;
    for (const auto& connection : parts_[p].node->inputs) {
      const auto source = source_end(connection.source);
      if (source->part) PENSTOCK_CHECK_OK(visit(*source->part, seen, path));
    }
    seen[p] = 2;
    path.pop_back();
    wiring_.order.push_back(p);
    return {};
  }

  [[nodiscard]] bool anything_reads(const std::string& input) const {
    const auto reads = [&](const auto& end) { return end.source == input; };
    return std::ranges::any_of(app_.outputs, reads) ||
           std::ranges::any_of(app_.nodes, [&](const Node& node) {
             return std::ranges::any_of(node.inputs, reads);
           });
  }

  Status infer_inputs() {
    for (const auto& input : app_.inputs) {
      if (!anything_reads(input.name)) {
        return at(input.place, invalid_argument("nothing reads it; connect it to a node's input, "
                                                "or leave it out")
                                   .within({Where::kInput, input.name}));
      }
      auto type = input.type;
      std::optional<WholeRange> range;
      std::vector<std::string> words;
      for (const auto p : wiring_.order) {
        for (const auto& connection : parts_[p].node->inputs) {
          if (connection.source != input.name) continue;
          const auto& each = parts_[p].node->each;
          if (std::ranges::find(each, connection.port) != each.end()) continue;
          const auto& info = *parts_[p].find_input(connection.port);
          range = meet(range, info.range);
          if (words.empty()) words = info.words;
          if (!type) type = info.type;
        }
      }
      if (!type) {
        return at(input.place,
                  invalid_argument("nothing tells its type; write it, such as f32[1,3,224,224]")
                      .within({Where::kInput, input.name}));
      }
      inputs_[input.name] = {input.name, *type};
      wiring_.inputs.push_back({input.name, *type, range, words});
    }
    return {};
  }

  /// An output of the application gives its name to the tensor.
  Status name_outputs() {
    for (const auto& output : app_.outputs) {
      const std::vector<Where> place{{Where::kOutput, output.name}};
      auto source = source_end(output.source);
      if (!source) return at(output.place, std::move(source).error().within(place));
      const bool is_input = inputs_.contains(output.name);
      if (is_input != !source->part || (is_input && source->name != output.name)) {
        return at(output.place,
                  invalid_argument(is_input ? "an input has that name; choose another"
                                            : "an input that comes out keeps its name")
                      .within(place));
      }
      if (!source->part) continue;
      const auto [known, fresh] =
          output_names_.emplace(std::pair(*source->part, source->name), output.name);
      if (output.name.empty())
        return at(output.place, invalid_argument("expected a name").within(place));
      if (!fresh || !taken_.insert(output.name).second) {
        return at(output.place, invalid_argument(in_quotes(output.source), " is output ",
                                                 in_quotes(known->second), " already")
                                    .within(place));
      }
    }
    if (!app_.outputs.empty()) return {};
    return invalid_argument("application ", in_quotes(app_.name), ": has no outputs");
  }

  std::string unique(std::string name) {
    while (!taken_.insert(name).second || inputs_.contains(name)) name += "'";
    return name;
  }

  Status read_states() {
    for (const auto& [p, port] : state_ports_) {
      const auto& info = *parts_[p].find_input(port);
      wiring_.reads[p][port] = {unique(parts_[p].node->name + "." + port + ".last"), info.type};
    }
    return {};
  }

  [[nodiscard]] const Source& source_of(const End& end) const {
    return end.part ? wiring_.writes[*end.part].at(end.name) : inputs_.at(end.name);
  }

  Status connect(std::size_t p) {
    PENSTOCK_CHECK_OK(connect_inputs(p));
    return connect_outputs(p);
  }

  /// What a function is given is checked for each frame; an engine knows no bounds.
  static bool exceeds(const Type& given, const Part& part, const Type& port) {
    if (part.network() == nullptr || !given.ranked || !port.ranked) return false;
    return !std::ranges::equal(given.dims, port.dims, [](const Dim& one, const Dim& other) {
      return one.bound == Dim::kOpen || other.bound == Dim::kOpen || one.bound <= other.bound;
    });
  }

  Status connect_inputs(std::size_t p) {
    const auto& part = parts_[p];
    const auto& node = *part.node;
    for (const auto& connection : node.inputs) {
      const auto& source = source_of(*source_end(connection.source));
      const bool each = std::ranges::find(node.each, connection.port) != node.each.end();
      const auto& port = *part.find_input(connection.port);
      auto item = source.type;
      if (each) {
        if (!plan::holds_items(item)) {
          return invalid_argument("each: ", in_quotes(connection.port), ": ", plan::kItemsExpected,
                                  ", found ", item, " from ", in_quotes(connection.source),
                                  "; bound it where it is declared, such as f32[n<=8,4]")
              .within(place_of(node, "each"));
        }
        if (!wiring_.items[p]) wiring_.items[p] = item.dims.front();
        item.dims.erase(item.dims.begin());
      }
      if (!plan::agree(item, port.type) || exceeds(item, part, port.type)) {
        return at(
            connection.place,
            invalid_argument("expected ", port.type, ", found ", item,
                             each ? " as one item of " : " from ", in_quotes(connection.source),
                             each ? concat(", ", source.type) : "",
                             inputs_.contains(connection.source)
                                 ? "; give the input the type that is expected, or convert "
                                   "it in a function between"
                                 : "; convert it in a function between")
                .within({Where::kInput, connection.port})
                .within({Where::kNode, node.name}));
      }
      wiring_.reads[p][connection.port] = source;
    }
    return check_sizes(part);
  }

  /// Items of one frame are as many in every list of `each`, and a function's open dimensions of
  /// one symbol have one size. Sizes that differ from frame to frame are checked when they are
  /// known.
  [[nodiscard]] Status check_sizes(const Part& part) const {
    struct Known {
      const Connection* connection;
      std::int64_t size;
    };
    std::map<std::string, Known> known;  // By symbol; "" stands for the items.
    const auto& node = *part.node;
    const auto check = [&](const std::string& symbol, const Connection& connection,
                           const Dim& dim) -> Status {
      if (!dim.fixed()) return {};
      const auto [first, fresh] = known.try_emplace(symbol, Known{&connection, dim.size});
      if (fresh || first->second.size == dim.size) return {};
      return at(
          connection.place,
          invalid_argument("node ", in_quotes(node.name), ": expected as many ",
                           symbol.empty() ? "items" : in_quotes(symbol), " in ",
                           in_quotes(connection.port), " as in ",
                           in_quotes(first->second.connection->port), ", found ", dim.size,
                           " from ", in_quotes(connection.source), " and ", first->second.size,
                           " from ", in_quotes(first->second.connection->source)));
    };
    for (const auto& connection : node.inputs) {
      const auto& given = source_of(*source_end(connection.source)).type.dims;
      const bool each = std::ranges::find(node.each, connection.port) != node.each.end();
      if (each) PENSTOCK_CHECK_OK(check("", connection, given.front()));
      const auto& declared = part.find_input(connection.port)->type.dims;
      const std::size_t items = each ? 1 : 0;
      if (part.network() != nullptr || given.size() != declared.size() + items) continue;
      for (std::size_t i = 0; i < declared.size(); ++i) {
        if (declared[i].fixed() || declared[i].symbol.empty()) continue;
        PENSTOCK_CHECK_OK(check(declared[i].symbol, connection, given[i + items]));
      }
    }
    return {};
  }

  Status connect_outputs(std::size_t p) {
    const auto& part = parts_[p];
    for (const auto& output : part.plan.outputs) {
      // A network may hand an input on as it is.
      const auto through =
          part.network() == nullptr ? wiring_.reads[p].end() : wiring_.reads[p].find(output.name);
      if (through != wiring_.reads[p].end()) {
        wiring_.writes[p][output.name] = through->second;
        continue;
      }
      auto type = output.type;
      if (wiring_.items[p]) type.dims.insert(type.dims.begin(), *wiring_.items[p]);
      if (wiring_.items[p] && !plan::holds_items(type)) {
        return invalid_argument("output ", in_quotes(output.name),
                                ", made for each item: expected a fixed shape, found ", output.type,
                                part.network() == nullptr ? "; fix it where it is declared"
                                                          : "; fix the input's with 'shapes'")
            .within(place_of(*part.node, "each"));
      }
      const auto named = output_names_.find({p, output.name});
      wiring_.writes[p][output.name] = {named != output_names_.end()
                                            ? named->second
                                            : unique(part.node->name + "." + output.name),
                                        std::move(type)};
    }
    return {};
  }

  /// Of the stage that writes the port. \pre a node's
  [[nodiscard]] std::size_t replicas_of(const End& end) const {
    const auto& part = parts_[*end.part];
    const auto writes = [&](const plan::Stage& stage) {
      return part.network() == nullptr ||
             std::ranges::find(stage.outputs, end.name) != stage.outputs.end();
    };
    const auto stage = std::ranges::find_if(part.plan.stages, writes);
    return stage == part.plan.stages.end() ? 0 : stage->devices.size();
  }

  Status write_states() {
    for (const auto& state : states_) {
      const auto place = concat("state ", in_quotes(state.from), " -> ", in_quotes(state.to));
      auto from = node_end(state.from, true);
      if (!from) return at(state.place, std::move(from).error().within(place));
      const auto replicas = replicas_of(*from);
      if (replicas > 1 && app_.streams.most == 1) {
        return at(state.place,
                  invalid_argument("node ", in_quotes(parts_[*from->part].node->name),
                                   " writes it: expected one replica, found ", replicas,
                                   "; leave 'replicas' out there, or give several streams, of "
                                   "which each has one of them ('streams: {most: ",
                                   replicas, "}')")
                      .within(place));
      }
      const auto& source = source_of(*from);
      const auto to = node_end(state.to, false);
      const auto& read = wiring_.reads[*to->part].at(to->name);
      if (const auto refused = why_no_state(read.type); !refused.empty()) {
        return at(state.place, invalid_argument(refused).within(place));
      }
      if (!plan::agree(source.type, read.type)) {
        return at(state.place,
                  invalid_argument("expected ", read.type, ", which the next frame reads, found ",
                                   source.type, "; both ends of a state have one type")
                      .within(place));
      }
      if (state.initial.empty() && !read.type.fixed()) {
        return at(state.place, invalid_argument("the first frame reads zeros of ", read.type,
                                                ": expected a fixed shape, or 'initial: FILE.npy' "
                                                "(of a cache that grows, an empty array)")
                                   .within(place));
      }
      if (Status fits = check_initial(state, read.type); !fits) {
        return at(state.place, std::move(fits).error().within(place + ": initial value"));
      }
      wiring_.states.push_back({source.tensor, read.tensor, state.initial.string()});
    }
    return {};
  }

  static Status check_initial(const State& state, const Type& type) {
    if (state.initial.empty()) return {};
    PENSTOCK_TRY(const Tensor value, read_npy(state.initial, type.dtype));
    return check_matches(type, value);
  }

  Status connect_outputs() {
    for (const auto& output : app_.outputs) {
      const auto& source = source_of(*source_end(output.source));
      if (source.tensor != output.name) {
        return at(output.place, invalid_argument(in_quotes(output.source), " is '", source.tensor,
                                                 "' handed on; name that")
                                    .within({Where::kOutput, output.name}));
      }
      wiring_.outputs.push_back({output.name, source.type});
    }
    return {};
  }

  const App& app_;
  const std::vector<Part>& parts_;
  std::vector<State> states_;
  Wiring wiring_;
  std::map<std::string, Source> inputs_;
  std::set<std::pair<std::size_t, std::string>> state_ports_;
  std::map<std::pair<std::size_t, std::string>, std::string> output_names_;
  std::set<std::string> taken_;
};

}  // namespace

Result<Wiring> wire(const App& app, const std::vector<Part>& parts) {
  return Wirer(app, parts).run();
}

}  // namespace penstock::app
