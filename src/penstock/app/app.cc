// An application's parts, wired, put into one plan and one package.
#include "penstock/app/app.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <system_error>
#include <utility>

#include "penstock/app/parts.h"
#include "penstock/app/wiring.h"
#include "penstock/base/files.h"
#include "penstock/device/topology.h"
#include "penstock/partition/lanes.h"
#include "penstock/plan/package_files.h"
#include "penstock/session/session.h"

namespace penstock::app {
namespace {

namespace fs = std::filesystem;

/// Stages of a network whose lanes are not given by the names that they have in it.
partition::AskedOfAll asked_as_all_of(const Node& node) {
  return [&node](const plan::Stage& stage) {
    const auto* network = std::get_if<Network>(&node.runs);
    if (network == nullptr || !belongs_to(stage.name, node)) return false;
    const bool only = stage.name == node.name;
    const auto number = only ? "0" : stage.name.substr(node.name.size() + 1);
    return !network->split.lanes.contains("stage" + number);
  };
}

class Builder {
 public:
  Builder(const App& app, const std::vector<Part>& parts, const Wiring& wiring, fs::path folder)
      : app_(app), parts_(parts), wiring_(wiring), folder_(std::move(folder)) {}

  Result<plan::Plan> run() {
    plan_.model = app_.name;
    plan_.streams = app_.streams;
    plan_.max_age = app_.max_age;
    plan_.on_error = app_.on_error;
    plan_.inputs = wiring_.inputs;
    plan_.outputs = wiring_.outputs;
    plan_.origin.penstock = version();
    if (const auto topology = device::read_topology()) plan_.origin.cpu = topology->fingerprint;
    for (const auto p : wiring_.order) {
      list_tensors(p);
      const auto* network = parts_[p].network();
      PENSTOCK_CHECK_OK(network == nullptr ? add_function(p) : add_network(p, *network));
    }
    PENSTOCK_CHECK_OK(add_states());
    // Which stages may have one lane only is known once the application's states are.
    for (const auto& node : app_.nodes) partition::spare_lanes(plan_, asked_as_all_of(node));
    plan::connect(plan_);
    return std::move(plan_);
  }

 private:
  void list(const std::string& name, const Type& type) {
    if (plan_.find_tensor(name) == nullptr) plan_.tensors.push_back({name, type});
  }

  void list_tensors(std::size_t p) {
    for (const auto& [port, source] : wiring_.reads[p]) list(source.tensor, source.type);
    for (const auto& [port, source] : wiring_.writes[p]) list(source.tensor, source.type);
  }

  /// What belongs to the node as a whole, and CPUs in turn where it names none.
  plan::Stage finish(std::size_t p, plan::Stage stage, const std::string& name) {
    const auto& part = parts_[p];
    stage.name = name;
    if (part.node->max_run) stage.max_run = part.node->max_run;
    if (part.node->max_left_behind) stage.max_left_behind = *part.node->max_left_behind;
    if (!part.devices_given && !cpus_.empty()) {
      for (auto& device : stage.devices) device.cpus = {cpus_[dealt_++ % cpus_.size()]};
    }
    return stage;
  }

  Status copy(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::create_directories((folder_ / to).parent_path(), error);
    if (!error) fs::copy(from, folder_ / to, fs::copy_options::recursive, error);
    if (!error) return {};
    return plan::file_error(from, "cannot be copied into the package", error);
  }

  /// A function's ports are told by their order, a server's by their names.
  static void name_ports(const plan::Plan& of_part, plan::Partition& partition) {
    const auto name = [&](const auto& ports, const auto& tensors) {
      for (std::size_t i = 0; i < ports.size(); ++i) partition.ports[ports[i].name] = tensors[i];
    };
    name(of_part.inputs, partition.inputs);
    name(of_part.outputs, partition.outputs);
  }

  /// A function, or a server's model.
  Status add_function(std::size_t p) {
    const auto& part = parts_[p];
    plan::Stage stage = part.plan.stages.front();
    auto& partition = stage.partitions.front();
    for (const auto& port : part.plan.inputs) {
      const auto& tensor = wiring_.reads[p].at(port.name).tensor;
      partition.inputs.push_back(tensor);
      if (std::ranges::find(stage.inputs, tensor) == stage.inputs.end()) {
        stage.inputs.push_back(tensor);
      }
    }
    for (const auto& port : part.plan.outputs) {
      partition.outputs.push_back(wiring_.writes[p].at(port.name).tensor);
    }
    stage.outputs = partition.outputs;
    for (const auto& port : part.node->each) {
      const auto& tensor = wiring_.reads[p].at(port).tensor;
      if (std::ranges::find(stage.each, tensor) == stage.each.end()) stage.each.push_back(tensor);
    }
    if (partition.served) name_ports(part.plan, partition);
    const auto* function = std::get_if<FunctionPart>(&part.of);
    if (function != nullptr && !function->library.empty()) {
      PENSTOCK_TRY(partition.model, add_library(function->library, "functions", part.node->name));
    }
    plan_.stages.push_back(finish(p, std::move(stage), part.node->name));
    return {};
  }

  /// Once, however many nodes name it.
  Result<std::string> add_library(const fs::path& file, const std::string& kind,
                                  const std::string& node) {
    std::error_code ignored;
    const auto [known, fresh] = libraries_.emplace(fs::weakly_canonical(file, ignored), "");
    if (!fresh) return known->second;
    auto path = kind + "/" + file.filename().string();
    const auto same = [&](const auto& other) { return &other != &*known && other.second == path; };
    if (std::ranges::any_of(libraries_, same)) {
      path = kind + "/" + node + "-" + file.filename().string();
    }
    PENSTOCK_CHECK_OK(copy(file, path));
    known->second = path;
    return path;
  }

  Status add_network(std::size_t p, const NetworkPart& network) {
    const auto& part = parts_[p];
    const auto& node = *part.node;
    Names names = names_of(p);
    PENSTOCK_CHECK_OK(check_models(part.plan, node));
    PENSTOCK_CHECK_OK(copy(network.folder / kStages, fs::path(kStages) / node.name));
    for (const auto& parameter : part.plan.parameters) {
      const auto file = moved(parameter.file, node.name);
      PENSTOCK_CHECK_OK(copy(network.folder / parameter.file, file));
      plan_.parameters.push_back({names.at(parameter.name), parameter.type, file});
    }
    for (const auto& file : network.custom_ops) {
      PENSTOCK_TRY(const auto path, add_library(file, "custom_ops", node.name));
      if (std::ranges::find(plan_.custom_ops, path) == plan_.custom_ops.end()) {
        plan_.custom_ops.push_back(path);
      }
    }
    for (const auto& [engine, version] : part.plan.origin.engines) {
      plan_.origin.engines[engine] = version;
    }
    for (std::size_t i = 0; i < part.plan.stages.size(); ++i) {
      const bool only = part.plan.stages.size() == 1;
      plan_.stages.push_back(finish(p, renamed(p, part.plan.stages[i], names),
                                    only ? node.name : concat(node.name, "/", i)));
    }
    return {};
  }

  static constexpr const char* kStages = "stages";  ///< The folder of a package's models.

  /// A network's models, with the files that they name, are copied as one folder.
  static Status check_models(const plan::Plan& plan, const Node& node) {
    const auto lies_there = [](const std::string& model) {
      return model.starts_with(concat(kStages, "/"));
    };
    for (const auto& stage : plan.stages) {
      for (const auto& partition : stage.partitions) {
        std::vector<std::string> models{partition.model};
        for (const auto& batched : partition.batched) models.push_back(batched.model);
        const auto other = std::ranges::find_if_not(models, lies_there);
        if (other == models.end()) continue;
        return invalid_argument("model '", *other, "' of its package: expected a file in '",
                                kStages, "/'; make the package again")
            .within(place_of(node, "network"));
      }
    }
    return {};
  }

  using Names = std::map<std::string, std::string>;

  /// From the network's own names to the plan's; what is not a port yet is listed.
  Names names_of(std::size_t p) {
    const auto& part = parts_[p];
    Names names;
    for (const auto& [port, source] : wiring_.reads[p]) names[port] = source.tensor;
    for (const auto& [port, source] : wiring_.writes[p]) names[port] = source.tensor;
    for (const auto& info : part.plan.tensors) {
      auto name = part.node->name + "." + info.name;
      auto type = info.type;
      const bool leaves = std::ranges::any_of(part.plan.stages, [&](const plan::Stage& stage) {
        return std::ranges::find(stage.outputs, info.name) != stage.outputs.end();
      });
      if (leaves && wiring_.items[p]) type.dims.insert(type.dims.begin(), *wiring_.items[p]);
      while (plan_.find_tensor(name) != nullptr) name += "'";
      list(name, type);
      names[info.name] = std::move(name);
    }
    for (const auto& parameter : part.plan.parameters) {
      names[parameter.name] = part.node->name + "." + parameter.name;
    }
    return names;
  }

  static std::string moved(const std::string& path, const std::string& node) {
    const auto slash = path.find('/');
    if (slash == std::string::npos) return node + "/" + path;
    return path.substr(0, slash) + "/" + node + path.substr(slash);
  }

  plan::Stage renamed(std::size_t p, plan::Stage stage, const Names& names) {
    const auto rename = [&](std::vector<std::string>& list) {
      for (auto& name : list) name = names.at(name);
    };
    const auto& node = *parts_[p].node;
    std::vector<std::string> items;
    for (const auto& port : node.each) items.push_back(wiring_.reads[p].at(port).tensor);
    for (const auto& other : parts_[p].plan.stages) {
      for (const auto& name : other.outputs) items.push_back(names.at(name));
    }
    rename(stage.inputs);
    rename(stage.outputs);
    rename(stage.parameters);
    // Two ports may have one source.
    std::vector<std::string> once;
    for (auto& name : stage.inputs) {
      if (std::ranges::find(once, name) == once.end()) once.push_back(std::move(name));
    }
    stage.inputs = std::move(once);
    for (const auto& name : stage.inputs) {
      if (!node.each.empty() && std::ranges::find(items, name) != items.end()) {
        stage.each.push_back(name);
      }
    }
    for (auto& partition : stage.partitions) {
      partition.model = moved(partition.model, node.name);
      for (auto& batched : partition.batched) batched.model = moved(batched.model, node.name);
      for (auto* list : {&partition.inputs, &partition.outputs}) {
        for (const auto& name : *list) {
          if (names.at(name) != name) partition.ports[name] = names.at(name);
        }
        rename(*list);
      }
    }
    return stage;
  }

  Status add_states() {
    for (auto state : wiring_.states) {
      if (!state.initial.empty()) {
        const auto file = concat("states/", plan_.states.size(), ".npy");
        PENSTOCK_CHECK_OK(copy(state.initial, file));
        state.initial = file;
      }
      plan_.states.push_back(std::move(state));
    }
    return {};
  }

  const App& app_;
  const std::vector<Part>& parts_;
  const Wiring& wiring_;
  const fs::path folder_;
  const std::vector<int> cpus_ = device::inherited_cpus();  ///< Dealt in turn.
  plan::Plan plan_;
  std::size_t dealt_ = 0;
  std::map<fs::path, std::string> libraries_;
};

}  // namespace

Result<plan::Plan> write_package(const App& app, const fs::path& target,
                                 const backend::Registry& backends,
                                 const std::vector<function::Function>& functions) {
  for (const auto& node : app.nodes) PENSTOCK_CHECK_OK(check_options(node));
  std::vector<Part> parts;
  for (const auto& node : app.nodes) {
    PENSTOCK_TRY(auto part, make_part(node, backends, functions));
    parts.push_back(std::move(part));
  }
  PENSTOCK_TRY(const auto wiring, wire(app, parts));
  PENSTOCK_TRY(auto writer, plan::PackageWriter::create(target));
  PENSTOCK_TRY(auto plan, Builder(app, parts, wiring, writer.folder()).run());
  if (Status valid = plan::validate(plan); !valid) {
    const bool of_a_stage = valid.error().find(Where::kStage) != nullptr;
    return of_a_stage ? place_error(app, std::move(valid).error())
                      : at(app.place, std::move(valid).error());
  }
  return writer.commit(std::move(plan));
}

std::vector<std::string> lanes_left_out(const App& app, const plan::Plan& plan) {
  std::vector<std::string> left_out;
  for (const auto& node : app.nodes) {
    const auto* network = std::get_if<Network>(&node.runs);
    if (network == nullptr) continue;
    const auto& lanes = network->split.lanes;
    const auto usual = lanes.find("");
    if (usual == lanes.end() || usual->second <= 1) continue;
    for (const auto& stage : partition::lanes_left_out(plan, asked_as_all_of(node))) {
      left_out.push_back(concat("node '", node.name, "': lanes ", usual->second, ": ", stage));
    }
  }
  return left_out;
}

Result<plan::Package> pack(const App& app, const backend::Registry& backends,
                           const std::vector<function::Function>& functions) {
  PENSTOCK_TRY(const auto temporary, make_temporary_folder());
  const auto folder = *temporary / "package";
  PENSTOCK_TRY(auto plan, write_package(app, folder, backends, functions));
  return plan::Package{std::move(plan), folder, temporary};
}

}  // namespace penstock::app
