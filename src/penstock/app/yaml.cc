// Applications as YAML: docs/app.schema.json says the same to editors.
#include <algorithm>
#include <limits>
#include <utility>

#include "penstock/app/app.h"
#include "penstock/base/near_names.h"
#include "penstock/device/topology.h"
#include "penstock/tune/budget.h"
#include "penstock/yaml/field.h"

namespace penstock::app {
namespace {

namespace fs = std::filesystem;
using yaml::Field;

std::chrono::microseconds milliseconds(const Field& field) {
  return std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::duration<double, std::milli>(field.positive()));
}

std::vector<device::Device> read_devices(const Field& field) {
  const auto cpus = field.take(device::cpus_to_plan_for());
  return field.take(device::parse_devices(field.string(), cpus));
}

class Reader {
 public:
  App read(const Field& field) {
    App app;
    app.place = field.place();
    if (field.is_nothing()) field.fail("expected an application, found an empty file");
    field.only({"penstock_app", "name", "functions", "inputs", "nodes", "outputs", "states",
                "streams", "max_age_ms", "on_error"});
    const auto version = field.find("penstock_app");
    if (!version) field.fail("expected 'penstock_app: 1', the version of the format, found none");
    if (version && version->string() != "1") version->fail_expected("1, the version of the format");
    if (const auto name = field.find("name")) app.name = name->string();
    if (const auto functions = field.find("functions")) functions_ = functions->existing_path();
    if (const auto inputs = field.find("inputs")) read_inputs(*inputs, app);
    if (const auto nodes = field.find("nodes")) {
      nodes->each_named([&](const std::string& name, const Field& node) {
        app.nodes.push_back(read_node(name, node));
      });
      if (app.nodes.empty()) nodes->fail("expected one node or more, found none");
    } else {
      field.fail("nodes: missing");
    }
    if (const auto outputs = field.find("outputs")) {
      outputs->each_named([&](const std::string& name, const Field& source) {
        app.outputs.push_back({name, source.string(), source.place()});
      });
      if (app.outputs.empty()) outputs->fail("expected one output or more, found none");
    } else {
      field.fail("outputs: missing");
    }
    if (const auto states = field.find("states")) {
      states->each([&](const Field& state) { app.states.push_back(read_state(state)); });
    }
    if (const auto streams = field.find("streams")) app.streams = read_streams(*streams);
    if (const auto max_age = field.find("max_age_ms")) app.max_age = milliseconds(*max_age);
    if (const auto on_error = field.find("on_error")) {
      const auto text = on_error->string();
      if (text != "deliver" && text != "stop") on_error->fail_expected("deliver or stop");
      app.on_error = text == "stop" ? plan::OnError::kStop : plan::OnError::kDeliver;
    }
    return app;
  }

 private:
  static void read_inputs(const Field& field, App& app) {
    field.each_named([&](const std::string& name, const Field& type) {
      Input input{name, std::nullopt, type.place()};
      if (const auto text = type.is_nothing() ? "any" : type.string(); text != "any") {
        input.type = type.take(parse_type(text));
      }
      app.inputs.push_back(std::move(input));
    });
  }

  Node read_node(const std::string& name, const Field& field) {
    Node node;
    node.name = name;
    node.place = field.place();
    field.each_named(
        [&](const std::string& key, const Field& value) { node.places[key] = value.place(); });
    const std::vector<std::string> all = {"network", "function", "ready", "model"};
    std::vector<std::string> kinds;
    for (const auto& kind : all) {
      if (field.find(kind)) kinds.push_back(kind);
    }
    if (kinds.size() != 1) {
      std::string near;  // A misspelt one.
      field.each_named([&](const std::string& key, const Field&) {
        if (kinds.empty() && near.empty()) near = did_you_mean(key, all);
      });
      field.fail(concat("expected one of 'network', 'function', 'ready' and 'model', found ",
                        kinds.empty() ? "none" : join(kinds, " and "), near));
      return node;
    }
    if (kinds.front() == "network") node.runs = read_network(field);
    if (kinds.front() == "function") node.runs = read_function(field);
    if (kinds.front() == "ready") node.runs = read_ready(field);
    if (kinds.front() == "model") node.runs = read_served(field);
    if (const auto inputs = field.find("inputs")) {
      inputs->each_named([&](const std::string& port, const Field& source) {
        node.inputs.push_back({port, source.string(), source.place()});
      });
    }
    if (const auto each = field.find("each")) node.each = each->strings();
    if (const auto max_run = field.find("max_run_ms")) node.max_run = milliseconds(*max_run);
    if (const auto most = field.find("max_left_behind")) {
      node.max_left_behind = most->integer(0, plan::kMostLanes);
    }
    return node;
  }

  Network read_network(const Field& field) {
    field.only({"network",    "inputs",   "each",      "max_run_ms", "max_left_behind",
                "cuts",       "replicas", "devices",   "standby",    "backend",
                "options",    "shapes",   "constants", "parameters", "as_is",
                "custom_ops", "unpinned", "batch",     "lanes",      "build"});
    Network network;
    network.model = field.find("network")->existing_path();
    auto& split = network.split;
    if (const auto cuts = field.find("cuts")) split.by = partition::Cuts{cuts->strings()};
    if (const auto replicas = field.find("replicas")) {
      split.replicas = replicas->integer(1, plan::kMostInstances);
    }
    if (const auto devices = field.find("devices")) split.devices = read_devices(*devices);
    if (const auto standby = field.find("standby")) split.standby = read_devices(*standby);
    if (const auto backend = field.find("backend")) split.backend = backend->string();
    if (const auto options = field.find("options")) split.backend_options = read_options(*options);
    if (const auto unpinned = field.find("unpinned")) split.pinned = !unpinned->boolean();
    if (const auto batch = field.find("batch")) split.batches = read_batches(*batch);
    if (const auto lanes = field.find("lanes")) split.lanes = read_lanes(*lanes);
    if (const auto libraries = field.find("custom_ops")) {
      libraries->each([&](const Field& file) { split.custom_ops.push_back(file.existing_path()); });
    }
    if (const auto shapes = field.find("shapes")) {
      shapes->each_named([&](const std::string& input, const Field& dims) {
        auto shape = graph::parse_shape(input + "=" + dims.string());
        if (shape) {
          network.import.shapes.insert(*std::move(shape));
        } else {
          dims.fail_expected("sizes such as 1x3x224x224, 1x1..512 (1 to 512) or ?x80 (open)");
        }
      });
    }
    if (const auto constants = field.find("constants")) {
      constants->each_named([&](const std::string& input, const Field& value) {
        auto text = value.literal();
        if (text.ends_with(".npy")) text = value.existing_path().string();
        network.import.constants[input] = std::move(text);
      });
    }
    if (const auto parameters = field.find("parameters")) {
      network.import.parameters = parameters->strings();
    }
    if (const auto as_is = field.find("as_is")) network.import.as_is = as_is->boolean();
    if (const auto build = field.find("build")) {
      network.build_budget = read_budget(*build);
      if (!network.is_undecided()) {
        build->fail(
            "is found by measuring: leave out cuts, replicas, devices, backend, options, batch, "
            "lanes and unpinned, or 'build'");
      }
    }
    return network;
  }

  /// {budget: 30s}
  static std::optional<double> read_budget(const Field& field) {
    field.only({"budget"});
    const auto budget = field.find("budget");
    if (!budget) {
      field.fail("budget: missing");
      return std::nullopt;
    }
    return budget->take(tune::parse_budget(budget->string()));
  }

  /// Of all stages what read_batch() reads, or of some: {stage0: 8, stage2: {frames: 4}}.
  static partition::Batches read_batches(const Field& field) {
    partition::Batches batches;
    if (field.is_mapping() && !field.find("frames") && !field.find("wait_ms")) {
      field.each_named([&](const std::string& stage, const Field& batch) {
        batches[stage] = read_batch(batch);
      });
    }
    if (batches.empty()) batches[""] = read_batch(field);
    return batches;
  }

  /// 4, or of some stages: {stage0: 4}.
  static partition::Lanes read_lanes(const Field& field) {
    if (!field.is_mapping()) return {{"", field.integer(0, plan::kMostLanes)}};
    partition::Lanes lanes;
    field.each_named([&](const std::string& stage, const Field& count) {
      lanes[stage] = count.integer(0, plan::kMostLanes);
    });
    if (lanes.empty()) field.fail_expected("a number, or stages with theirs, such as {stage0: 4}");
    return lanes;
  }

  /// 8, '8:2.5', auto, auto:16, or {frames: 8, wait_ms: 2}.
  static partition::AskedBatch read_batch(const Field& field) {
    if (!field.is_mapping()) return read_frames(field);
    field.only({"frames", "wait_ms"});
    partition::AskedBatch batch;
    if (const auto frames = field.find("frames")) {
      batch.frames = frames->integer(1, partition::kMostFrames);
    } else {
      field.fail("frames: missing");
    }
    if (const auto wait = field.find("wait_ms")) batch.wait = milliseconds(*wait);
    return batch;
  }

  /// In words as `split --batch` has them, but for the stage: the mapping says that.
  static partition::AskedBatch read_frames(const Field& field) {
    const auto batch = partition::parse_batch(field.scalar());
    if (batch && batch->first.empty()) return batch->second;
    field.fail_expected(concat("frames from 1 to ", partition::kMostFrames,
                               ", '8:2.5', 'auto', 'auto:16' or a mapping with frames and "
                               "wait_ms"));
    return {};
  }

  FunctionNode read_function(const Field& field) {
    field.only({"function", "name", "inputs", "each", "max_run_ms", "max_left_behind", "replicas",
                "devices", "options"});
    FunctionNode function;
    const auto source = *field.find("function");
    const auto text = source.string();
    if (text.empty())
      source.fail_expected("a path of a library or a Python module, or a function's name");
    const bool library =
        text.find('/') != text.npos || text.ends_with(".so") || text.ends_with(".py");
    if (library) {
      function.library = source.existing_path();
    } else {
      function.library = functions_;
      function.name = text;
    }
    if (const auto name = field.find("name")) {
      if (!library) name->fail("'name' says which function of a library; 'function' names it here");
      function.name = name->string();
    }
    read_instances(field, function);
    if (const auto options = field.find("options")) function.options = read_options(*options);
    return function;
  }

  static void read_instances(const Field& field, FunctionNode& function) {
    if (const auto replicas = field.find("replicas")) {
      function.replicas = replicas->integer(1, plan::kMostInstances);
    }
    if (const auto devices = field.find("devices")) function.devices = read_devices(*devices);
  }

  /// A ready-made function, whose options may be lists: size: [640, 640].
  static FunctionNode read_ready(const Field& field) {
    field.only({"ready", "inputs", "each", "max_run_ms", "max_left_behind", "replicas", "devices",
                "options"});
    FunctionNode function;
    const auto source = *field.find("ready");
    const auto name = source.string();
    if (name.empty()) source.fail_expected("a ready-made function's name");
    function.name = std::string(function::kReadyPrefix) + name;
    read_instances(field, function);
    if (const auto options = field.find("options")) {
      options->each_named([&](const std::string& option, const Field& value) {
        const auto list = value.is_list() ? value.strings() : std::vector{value.string()};
        if (list.empty()) value.fail_expected("one value or more");
        function.options[option] = join(list, ",");
      });
    }
    return function;
  }

  static ServedNode read_served(const Field& field) {
    field.only({"model", "inputs", "each", "max_run_ms", "max_left_behind", "devices", "standby",
                "idempotent", "lanes", "shapes", "options"});
    ServedNode served;
    const auto model = *field.find("model");
    served.model = model.take(plan::parse_served_model(model.string()));
    if (const auto devices = field.find("devices")) served.devices = read_devices(*devices);
    if (const auto standby = field.find("standby")) served.standby = read_devices(*standby);
    if (const auto idempotent = field.find("idempotent")) {
      served.idempotent = idempotent->boolean();
    }
    if (const auto lanes = field.find("lanes")) served.lanes = lanes->integer(0, plan::kMostLanes);
    if (const auto shapes = field.find("shapes")) {
      shapes->each_named([&](const std::string& port, const Field& dims) {
        auto shape = graph::parse_shape(port + "=" + dims.string());
        if (shape) {
          served.shapes.insert(*std::move(shape));
        } else {
          dims.fail_expected("sizes such as 1x3x224x224, 1x1..512 (1 to 512) or ?x80 (open)");
        }
      });
    }
    if (const auto options = field.find("options")) served.options = read_options(*options);
    return served;
  }

  State read_state(const Field& field) {
    field.only({"from", "to", "initial"});
    State state;
    state.place = field.place();
    for (const auto& [name, end] : {std::pair("from", &state.from), std::pair("to", &state.to)}) {
      if (const auto found = field.find(name)) {
        *end = found->string();
      } else {
        field.fail(concat(name, ": missing"));
      }
    }
    if (const auto initial = field.find("initial")) state.initial = initial->existing_path();
    return state;
  }

  static plan::Streams read_streams(const Field& field) {
    plan::Streams streams;
    field.only({"most", "evict"});
    if (const auto most = field.find("most")) {
      streams.most = most->integer(1, std::numeric_limits<int>::max());
    }
    if (const auto evict = field.find("evict")) streams.evict = evict->boolean();
    return streams;
  }

  static std::map<std::string, std::string> read_options(const Field& field) {
    std::map<std::string, std::string> options;
    field.each_named(
        [&](const std::string& name, const Field& value) { options[name] = value.string(); });
    return options;
  }

  fs::path functions_;  ///< The library or module that holds those called by name alone.
};

}  // namespace

Result<App> read_yaml(const fs::path& file, const fs::path& folder) {
  App app;
  PENSTOCK_CHECK_OK(yaml::read_document(
      file, "application", [&](const Field& top) { app = Reader().read(top); }, folder));
  if (app.name.empty()) app.name = file.stem().string();
  return app;
}

}  // namespace penstock::app
