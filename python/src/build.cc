#include "build.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "callable.h"
#include "errors.h"
#include "held.h"
#include "penstock/app/tune.h"
#include "penstock/base/files.h"
#include "penstock/base/words.h"
#include "penstock/cost/database.h"
#include "penstock/frames/random.h"
#include "penstock/hosts/hosts.h"
#include "penstock/plan/bound.h"
#include "penstock/session/identify.h"
#include "penstock/session/load.h"
#include "penstock/session/verify.h"
#include "penstock/site/build.h"
#include "penstock/site/reach.h"
#include "penstock/tune/build.h"
#include "request.h"
#include "tensors.h"
#include "text.h"

namespace penstock::python {
namespace {

namespace fs = std::filesystem;

struct BuildRequest {
  SplitRequest model;
  tune::Options build;
  fs::path costs;  ///< Empty: where the program has them.
  fs::path hosts;  ///< Empty: devices of this machine.
  bool standby = false;
  std::shared_ptr<PyObject> frames;  ///< A list, of what to_frame() takes.
};

/// Tells a Python callable, which may be None, from another thread.
std::function<void(const std::string&, double)> to_progress(nb::object call) {
  if (call.is_none()) return [](const std::string&, double) {};
  auto held = std::make_unique<Held>();
  held->object = std::move(call);
  PyObject* const object = held->object.ptr();
  return [object, holder = share(std::move(held))](const std::string& what, double share_spent) {
    const WithGil gil;
    try {
      nb::borrow(object)(what, share_spent);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("the progress of penstock.build()");
    }
  };
}

using Infos = std::vector<plan::TensorInfo>;

/// The value copied: what runs it goes without Python.
Result<Tensor> to_value(nb::handle value, const plan::TensorInfo& input) {
  auto tensor = from_python(value, input);
  if (!tensor) return std::move(tensor).error().within({Where::kInput, input.name});
  return tensor->kind() == Tensor::Kind::kDense ? tensor->clone() : *std::move(tensor);
}

/// What a dict has beside the inputs: values that are bound, or a mistake.
Status check_others(const nb::dict& values, const Infos& inputs, const plan::BoundValues& bound) {
  for (const auto& [key, value] : values) {
    const auto name = text_of(key);
    if (std::ranges::find(inputs, name, &plan::TensorInfo::name) != inputs.end()) continue;
    const auto known = bound.find(name);
    if (known == bound.end()) {
      return invalid_argument("no input '", name, "'; the inputs are ", quoted_names(inputs));
    }
    PENSTOCK_TRY(const auto sent, to_value(value, {name, known->second.type()}));
    PENSTOCK_CHECK_OK(plan::check_bound(bound, name, sent));
  }
  return {};
}

/// What a dict has, beside the values that are bound; the inputs that it leaves out are random.
Result<frames::Frame> to_frame_of_dict(const nb::dict& given, const Infos& inputs,
                                       const plan::BoundValues& bound,
                                       const frames::RandomValues& random, std::uint64_t number) {
  PENSTOCK_CHECK_OK(check_others(given, inputs, bound));
  std::map<std::size_t, Tensor> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PyObject* const value = PyDict_GetItemString(given.ptr(), inputs[i].name.c_str());
    if (value == nullptr) continue;
    PENSTOCK_TRY(values[i], to_value(value, inputs[i]));
  }
  if (values.empty() && !inputs.empty()) {
    return invalid_argument("expected a value of one of the inputs ", quoted_names(inputs),
                            " or more, found none");
  }
  return frames::completed_frame(inputs, values, random, number);
}

/// A dict of values, a list in the order of the inputs, or what the only input reads.
Result<frames::Frame> to_frame(nb::handle given, const Infos& inputs,
                               const plan::BoundValues& bound, const frames::RandomValues& random,
                               std::uint64_t number) {
  if (PyDict_Check(given.ptr()) != 0) {
    return to_frame_of_dict(nb::borrow<nb::dict>(given), inputs, bound, random, number);
  }
  frames::Frame frame;
  const bool listed = PyTuple_Check(given.ptr()) != 0 || PyList_Check(given.ptr()) != 0;
  const auto count = listed ? nb::len(given) : 1;
  if (count != inputs.size()) {
    return invalid_argument("expected a dict of the inputs ", quoted_names(inputs), ", found ",
                            text_of(given.type().attr("__name__")));
  }
  for (std::size_t i = 0; i < count; ++i) {
    PENSTOCK_TRY(frame.emplace_back(),
                 listed ? to_value(nb::object(given[i]), inputs[i]) : to_value(given, inputs[i]));
  }
  return frame;
}

/// Of each in a list. With Python's lock held.
Result<std::vector<frames::Frame>> to_frames(nb::handle given, const Infos& inputs,
                                             const plan::BoundValues& bound,
                                             const frames::RandomValues& random) {
  std::vector<frames::Frame> frames;
  for (const auto values : nb::borrow<nb::list>(given)) {
    auto frame = to_frame(values, inputs, bound, random, frames.size());
    if (!frame) {
      return std::move(frame).error().within({Where::kFrame, frames.size()}).within("frames");
    }
    frames.push_back(*std::move(frame));
  }
  return frames;
}

/// Once the inputs are known.
Result<std::vector<frames::Frame>> frames_of(const BuildRequest& request, const Infos& inputs,
                                             const plan::BoundValues& bound) {
  const WithGil gil;
  return to_frames(request.frames.get(), inputs, bound, request.build.random);
}

frames::RandomValues to_random(const Options& options) {
  return {.seed = options.get<std::uint64_t>("seed"),
          .integer_limit = options.get<std::uint64_t>("integer_limit")};
}

Result<BuildRequest> to_build_request(nb::handle model, const Options& options) {
  BuildRequest request;
  PENSTOCK_TRY(request.model, to_request(model, options));
  PENSTOCK_TRY(request.model.run.callables, to_callables(options.get<nb::list>("functions")));
  request.costs = options.get<std::string>("costs");
  request.build.rules = options.get<std::string>("rules");
  request.hosts = options.get<std::string>("hosts");
  request.standby = options.get<bool>("host_standby");
  auto& build = request.build;
  build.output = request.model.output;
  build.devices = request.model.split.devices;
  build.custom_ops = request.model.split.custom_ops;
  const auto goal = options.get<std::string>("goal");
  if (goal != "throughput" && goal != "latency") {
    return invalid_argument("goal: expected 'throughput' or 'latency', found '", goal, "'");
  }
  build.goal = goal == "latency" ? tune::Goal::kLatency : tune::Goal::kThroughput;
  build.budget_seconds = options.get<double>("budget");
  constexpr double kMostSeconds = 1e7;
  if (!(build.budget_seconds > 0 && build.budget_seconds < kMostSeconds)) {
    return invalid_argument("budget: expected seconds, above 0, found ", build.budget_seconds);
  }
  if (const auto most = options.maybe<std::int64_t>("most_parts")) {
    if (*most < 0) return invalid_argument("most_parts: expected 0 or more, found ", *most);
    build.most_parts = *most;
  }
  build.backends = options.get<std::vector<std::string>>("backends");
  for (const auto& name : build.backends) {
    if (const auto found = backends().find(name); !found) return found.error();
  }
  PENSTOCK_TRY(build.backend_options, to_backend_options(options, "settings"));
  build.tolerance = options.maybe<double>("tolerance");
  if (build.tolerance && !(*build.tolerance > 0)) {
    return invalid_argument("tolerance: expected a number above 0, found ", *build.tolerance);
  }
  build.random = to_random(options);
  PENSTOCK_TRY(build.most_frames, tune::to_most_frames(request.model.split.batches));
  build.refresh = options.get<bool>("refresh");
  build.progress = to_progress(options.get<nb::object>("progress"));
  build.warn = [](const std::string& what) {
    const WithGil gil;
    warn(what);
  };
  auto held = std::make_unique<Held>();
  held->object = options.get<nb::object>("frames");
  PyObject* const frames = held->object.ptr();
  request.frames = std::shared_ptr<PyObject>(share(std::move(held)), frames);
  return request;
}

/// The database of costs; one in memory, with a warning, where there is none to be had.
Result<cost::Database> open_costs(const fs::path& file, std::vector<std::string>& warnings) {
  if (!file.empty()) return cost::Database::open(file);
  auto database = cost::Database::open(cost::Database::default_path());
  if (database) return database;
  warnings.push_back(database.error().message() + "; what is measured now will be forgotten");
  return cost::Database::in_memory();
}

/// The pipeline is then started with the files of the hosts' connections.
Result<hosts::Hosts> read_hosts(BuildRequest& request) {
  PENSTOCK_TRY(auto all, hosts::read_hosts(request.hosts));
  const std::string name(plan::kRemoteBackend);
  if (const auto given = request.build.backend_options.find(name);
      given != request.build.backend_options.end()) {
    hosts::reach_by(all, given->second);
  }
  for (const auto& host : all.hosts) {
    if (host.connection.empty()) continue;
    auto& remote = request.model.run.pipeline.backend_options[name];
    remote.insert(host.connection.begin(), host.connection.end());
  }
  return all;
}

Status build_over(BuildRequest& request, const graph::Graph& graph, cost::Database& costs) {
  PENSTOCK_TRY(auto all, read_hosts(request));
  PENSTOCK_TRY(const auto reach, site::load_reach());
  const auto report = site::build_over(graph, std::move(all), reach,
                                       {request.build, request.standby}, backends(), costs);
  return report ? Status() : report.error();
}

Status build_network(BuildRequest& request, cost::Database& costs) {
  if (!request.model.run.callables.empty()) {
    return invalid_argument("functions: are for an application (.yaml), found a model");
  }
  auto& build = request.build;
  build.import = request.model.import;
  build.states = request.model.states;
  build.streams = request.model.run.stream.streams;
  PENSTOCK_TRY(const auto graph, import_model(request.model.model.file, request.model.import,
                                              backends(), build.custom_ops));
  plan::BoundValues bound;
  for (const auto& input : graph.bound_inputs) bound.insert_or_assign(input.name, input.value);
  PENSTOCK_TRY(build.frames, frames_of(request, inputs_of(graph, build.states), bound));
  if (!request.hosts.empty()) return build_over(request, graph, costs);
  const auto report = tune::build_model(graph, build, backends(), costs);
  return report ? Status() : report.error();
}

Status build_application(BuildRequest& request, cost::Database& costs) {
  const auto& model = request.model;
  const bool plain = model.import.shapes.empty() && model.import.constants.empty() &&
                     model.import.parameters.empty() && !model.import.as_is &&
                     model.states.empty() && model.split.custom_ops.empty();
  if (!plain) {
    return invalid_argument(
        "'", model.model.file.string(),
        "': shapes, constants, parameters, as_is, states and custom_ops are for a model: an "
        "application says so at its nodes and 'states'");
  }
  PENSTOCK_TRY(auto application, app::read_yaml(model.model.file));
  if (model.run.stream.streams) application.streams = *model.run.stream.streams;
  std::vector<function::Function> functions;
  for (const auto& callable : model.run.callables) functions.push_back(callable.function);
  PENSTOCK_TRY(const auto written, app::pack(application, backends(), functions));
  PENSTOCK_TRY(const auto bound, plan::read_bound_values(written.plan, written.folder));
  PENSTOCK_TRY(request.build.frames, frames_of(request, written.plan.inputs, bound));
  if (request.hosts.empty()) {
    const auto report = app::build_app(application, request.build, backends(), costs, functions);
    return report ? Status() : report.error();
  }
  PENSTOCK_TRY(const auto all, read_hosts(request));
  PENSTOCK_TRY(const auto reach, site::load_reach());
  const auto report = site::build_app_over(
      application, all, reach, {request.build, request.standby}, backends(), costs, functions);
  return report ? Status() : report.error();
}

Status make_built(BuildRequest request, Made& made, const Abandoned& abandoned) {
  auto& build = request.build;
  build.stopped = abandoned;
  std::shared_ptr<const fs::path> temporary;
  if (build.output.empty()) {
    PENSTOCK_TRY(temporary, make_temporary_folder());
    build.output = *temporary / "package";
  }
  PENSTOCK_TRY(auto costs, open_costs(request.costs, made.warnings));
  const bool is_app = identify(request.model.model.file) == FileKind::kApplication;
  PENSTOCK_CHECK_OK((is_app ? build_application : build_network)(request, costs));
  PENSTOCK_TRY(auto package, load_package(build.output));
  if (temporary) package.files = temporary;
  return start(std::move(package), std::move(request.model.run), made);
}

nb::object build_and_start(nb::handle model, nb::dict options) {
  auto request = value_or_raise(to_build_request(model, Options(std::move(options))));
  return make_aside([request = std::move(request)](Made& made, const Abandoned& abandoned) {
    return make_built(request, made, abandoned);
  });
}

std::string explain(const std::string& package) {
  return tune::to_json(value_or_raise(without_gil([&] { return tune::read_report(package); })));
}

Result<VerifyOptions> to_verify_options(const Options& options, const plan::Package& package) {
  VerifyOptions verify;
  verify.model = options.get<std::string>("model");
  verify.optimized = options.get<bool>("optimised");
  verify.random = to_random(options);
  verify.frames = options.get<std::uint64_t>("count");
  PENSTOCK_TRY(const auto bound, plan::read_bound_values(package.plan, package.folder));
  PENSTOCK_TRY(verify.given, to_frames(options.get<nb::list>("frames"), package.plan.inputs, bound,
                                       verify.random));
  if (const auto tolerance = options.maybe<double>("tolerance")) {
    if (!(*tolerance > 0)) {
      return invalid_argument("tolerance: expected a number above 0, found ", *tolerance);
    }
    verify.tolerance = Tolerance::of(*tolerance);
  } else if (const auto built = tune::read_report(package)) {
    verify.tolerance = Tolerance::of(built->tolerance);
  }
  return verify;
}

Result<measure::VerifyReport> verify_package(const fs::path& path, VerifyOptions options,
                                             pipeline::Options settings,
                                             const Abandoned& abandoned) {
  std::vector<std::string> warnings;
  settings.stopped = abandoned;
  settings.warn = [&](const std::string& text) { warnings.push_back(text); };
  options.stopped = abandoned;
  PENSTOCK_TRY(auto opened, open_package(path, settings, backends()));
  PENSTOCK_TRY(auto report, penstock::verify(opened, std::move(options), settings, backends()));
  report.warnings = std::move(warnings);
  return report;
}

/// \returns the report as JSON.
std::string verify(const std::string& package, nb::dict given) {
  const Options options(std::move(given));
  const auto loaded = value_or_raise(without_gil([&] { return load_package(package); }));
  const auto asked = value_or_raise(to_verify_options(options, loaded));
  pipeline::Options settings;
  settings.native_code = options.get<bool>("native_code");
  settings.backend_options = value_or_raise(to_backend_options(options, "backend_options"));
  const auto callables = value_or_raise(to_callables(options.get<nb::list>("functions")));
  for (const auto& callable : callables) settings.functions.push_back(callable.function);
  auto report = std::make_shared<std::optional<Result<measure::VerifyReport>>>();
  run_aside([=](const Abandoned& abandoned) {
    report->emplace(verify_package(package, asked, settings, abandoned));
  });
  auto told = value_or_raise(**std::move(report));
  return measure::to_json(told);
}

}  // namespace

void bind_build(nb::module_& module) {
  module.def("build", &build_and_start, nb::arg("model"), nb::arg("options"));
  module.def("explain", &explain, nb::arg("package"));
  module.def("verify", &verify, nb::arg("package"), nb::arg("options"));
}

}  // namespace penstock::python
