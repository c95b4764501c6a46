#include "request.h"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "errors.h"
#include "gil.h"
#include "penstock/backend/plugin_places.h"
#include "penstock/base/option_name.h"
#include "penstock/session/load.h"
#include "penstock/session/refused_node.h"
#include "pipeline.h"
#include "tensors.h"
#include "to_object.h"

namespace penstock::python {
namespace {

constexpr int kCallsToTheUser = 3;  // penstock.make._start(), who calls it, and the user.

/// Whoever needs the backends first, on whichever thread.
void warn_once(const std::vector<std::string>& texts) {
  const WithGil gil;
  static bool warned = false;  // Guarded by the GIL.
  if (std::exchange(warned, true)) return;
  for (const auto& text : texts) warn(text);
}

}  // namespace

Result<graph::InputValue> to_input_value(const std::string& name, nb::handle value) {
  if (PyUnicode_Check(value.ptr())) return graph::InputValue(text_of(value));
  auto dtype_name = text_of(value.attr("dtype").attr("name"));
  const auto kind = text_of(value.attr("dtype").attr("kind"));
  if (kind == "U" || kind == "S") dtype_name = numpy_name(DType::kString);  // Of a fixed length.
  constexpr int kDtypes = 32;
  for (int number = 1; number < kDtypes; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (numpy_name(dtype) != dtype_name) continue;
    const auto dims = nb::cast<std::vector<std::int64_t>>(value.attr("shape"));
    auto tensor = from_python(value, {name, Type::tensor(dtype, dims)});
    if (!tensor) return std::move(tensor).error().within({Where::kInput, name});
    return graph::InputValue(tensor->clone());
  }
  return invalid_argument(OptionName::kConstants,
                          ": expected an array of numbers, booleans or texts, found ", dtype_name)
      .within({Where::kInput, name});
}

const backend::Registry& backends() {
  static const auto* registry = new backend::Registry(backend::Registry::load());
  static const auto* empty = new std::vector<std::string>(backend::empty_places());
  if (!empty->empty()) warn_once(*empty);
  return *registry;
}

Result<std::optional<int>> Options::within(const char* name, int least, int most) const {
  const nb::object value = dict_[name];
  const auto refused = [&](const auto& found) {
    return invalid_argument(name, ": expected ", least, " to ", most, ", found ", found);
  };
  int overflow = 0;
  if (PyLong_CheckExact(value.ptr())) PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0) {
    const double about = PyLong_AsDouble(value.ptr());
    if (PyErr_Occurred() == nullptr) return refused(about);
    PyErr_Clear();
    return refused(concat("a number of ", text_of(nb::str(value.attr("bit_length")())), " bits"));
  }
  const auto number = maybe<std::int64_t>(name);
  if (!number) return std::optional<int>();
  if (*number < least || *number > most) return refused(*number);
  return std::optional(static_cast<int>(*number));
}

void Options::refuse(const char* name, const char* expected, const nb::object& value) {
  raise(invalid_argument(name, ": expected ", expected, ", found ", text_of(nb::repr(value)), " (",
                         text_of(value.type().attr("__name__")), ")"));
}

Result<std::optional<std::chrono::microseconds>> to_microseconds(const Options& options,
                                                                 const char* name) {
  const auto time = options.maybe<double>(name);
  if (!time) return std::optional<std::chrono::microseconds>();
  constexpr double kShortestMs = 0.001, kLongestMs = 1e12;
  // Written so that what is no number fails too.
  if (!(*time >= kShortestMs && *time <= kLongestMs)) {
    return invalid_argument(name, ": expected 0.001 to 1e12 milliseconds, found ", *time);
  }
  return std::optional(std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::duration<double, std::milli>(*time)));
}

Result<BackendOptions> to_backend_options(const Options& options, const char* name) {
  auto by_backend = options.get<BackendOptions>(name);
  for (const auto& [backend, settings] : by_backend) {
    if (auto found = backends().find(backend); !found) {
      return std::move(found).error().within("backend_options");
    }
  }
  return by_backend;
}

Result<RunOptions> to_run_options(const Options& options) {
  RunOptions run;
  if (const auto policy = options.maybe<std::string>("policy")) {
    run.stream.input_policy = plan::parse_full_policy(*policy);
    if (!run.stream.input_policy) {
      return invalid_argument(
          "policy: expected 'block', 'drop_oldest', 'drop_newest', 'latest' or 'error', found '",
          *policy, "'");
    }
  }
  constexpr int kMostSlots = 1'000'000;
  PENSTOCK_TRY(run.stream.capacity, options.within("capacity", 1, kMostSlots));
  PENSTOCK_TRY(const auto in_flight, options.within("in_flight", 1, kMostSlots));
  run.pipeline.in_flight = in_flight.value_or(0);
  PENSTOCK_TRY(run.stream.max_age, to_microseconds(options, "max_age_ms"));
  PENSTOCK_TRY(run.stream.max_run, to_microseconds(options, "max_run_ms"));
  PENSTOCK_TRY(run.stream.max_left_behind, options.within("max_left_behind", 0, plan::kMostLanes));
  if (const auto on_error = options.maybe<std::string>("on_error")) {
    if (*on_error != "deliver" && *on_error != "stop") {
      return invalid_argument("on_error: expected 'deliver' or 'stop', found '", *on_error, "'");
    }
    run.stream.on_error = *on_error == "stop" ? plan::OnError::kStop : plan::OnError::kDeliver;
  }
  PENSTOCK_TRY(const auto streams, options.within("streams", 1, std::numeric_limits<int>::max()));
  const bool evict = options.get<bool>("evict");
  if (streams) run.stream.streams = {*streams, evict};
  if (evict && !streams) {
    return invalid_argument(
        "evict: expected streams beside it, after how many one gives its place, such as "
        "streams=8, found none");
  }
  run.stream.pinned = options.maybe<bool>("pinned");
  run.pipeline.native_code = options.get<bool>("native_code");
  run.pipeline.trace = options.get<bool>("trace");
  PENSTOCK_TRY(run.pipeline.backend_options, to_backend_options(options, "backend_options"));
  return run;
}

Result<std::vector<device::Device>> to_devices(const std::string& text) {
  if (text.empty()) return std::vector<device::Device>();
  auto devices = device::parse_devices(text);
  if (!devices) return std::move(devices).error().within("devices");
  for (const auto& device : *devices) {
    if (!device.is_remote()) PENSTOCK_CHECK_OK(device::check_available(device));
  }
  return devices;
}

Model to_model(nb::handle model) {
  if (nb::isinstance<nb::bytes>(model)) {
    const auto bytes = nb::borrow<nb::bytes>(model);
    return {.file = {}, .bytes = std::string(bytes.c_str(), bytes.size())};
  }
  return {.file = text_of(model), .bytes = {}};
}

bool names_another_machine(const SplitRequest& request) {
  const auto is_elsewhere = [](const auto& pin) {
    const auto device = device::parse_device(pin.second);
    return device && device->is_remote();
  };
  return std::ranges::any_of(request.split.devices, &device::Device::is_remote) ||
         std::ranges::any_of(request.split.standby, &device::Device::is_remote) ||
         std::ranges::any_of(request.pins, is_elsewhere);
}

/// Those of the stages' backend go into the plan; those of the way to other machines are the run's.
Status take_backend_options(SplitRequest& request) {
  auto& split = request.split;
  const bool elsewhere = names_another_machine(request);
  for (const auto& [backend, settings] : request.run.pipeline.backend_options) {
    if (backend == split.backend) {
      split.backend_options = settings;
    } else if (backend != plan::kRemoteBackend || !elsewhere) {
      return invalid_argument(
          "backend_options: expected those of backend '", split.backend, "', which runs the stages",
          elsewhere ? ", or of 'remote', the way to other machines" : "", ", found some of '",
          backend, "'",
          backend == plan::kRemoteBackend ? ", though no device is of another machine" : "");
    }
  }
  return {};
}

Result<SplitRequest> to_request(nb::handle model, const Options& options) {
  SplitRequest request;
  request.model = to_model(model);
  request.output = options.get<std::string>("output");
  for (const auto& text : options.get<std::vector<std::string>>("shapes")) {
    PENSTOCK_TRY(auto shape, graph::parse_shape(text));
    request.import.shapes.insert(std::move(shape));
  }
  for (const nb::handle pair : options.get<nb::list>("constants")) {
    auto name = text_of(pair[0]);
    PENSTOCK_TRY(auto value, to_input_value(name, pair[1]));
    request.import.constants.insert_or_assign(std::move(name), std::move(value));
  }
  request.import.parameters = options.get<std::vector<std::string>>("parameters");
  request.import.as_is = options.get<bool>("as_is");
  auto& split = request.split;
  request.cuts = options.get<std::vector<std::string>>("cuts");
  request.annotations = options.get<bool>("annotations");
  split.replicas = options.get<int>("replicas");
  if (split.replicas < 1) {
    return invalid_argument("replicas: expected 1 or more, found ", split.replicas);
  }
  for (const auto& text : options.get<std::vector<std::string>>("lanes")) {
    PENSTOCK_TRY(auto lanes, partition::parse_lanes(text));
    split.lanes.insert(std::move(lanes));
  }
  split.backend = options.get<std::string>("backend");
  split.pinned = options.maybe<bool>("pinned").value_or(true);
  for (const auto& text : options.get<std::vector<std::string>>("batch")) {
    PENSTOCK_TRY(auto batch, partition::parse_batch(text));
    split.batches.insert(std::move(batch));
  }
  for (const auto& file : options.get<std::vector<std::string>>("custom_ops")) {
    split.custom_ops.emplace_back(file);
  }
  for (const auto& [from, to, initial] :
       options.get<std::vector<std::tuple<std::string, std::string, std::string>>>("states")) {
    request.states.push_back({from, to, initial});
  }
  request.pins = options.get<std::vector<std::pair<std::string, std::string>>>("pins");
  PENSTOCK_TRY(split.devices, to_devices(options.get<std::string>("devices")));
  PENSTOCK_TRY(split.standby, to_devices(options.get<std::string>("standby")));
  PENSTOCK_TRY(request.run, to_run_options(options));
  PENSTOCK_CHECK_OK(take_backend_options(request));
  return request;
}

Result<partition::SplitBy> to_split_by(const SplitRequest& request) {
  std::vector<std::pair<std::string, device::Device>> pins;
  for (const auto& [node, text] : request.pins) {
    PENSTOCK_TRY(auto device, device::parse_device(text));
    pins.emplace_back(node, std::move(device));
  }
  return partition::split_by(request.cuts, std::move(pins), request.annotations);
}

Status start(plan::Package package, RunOptions run, Made& made) {
  plan::apply(run.stream, package.plan);
  for (auto& note : plan::options_without_effect(run.stream, package.plan)) {
    made.warnings.push_back(std::move(note));
  }
  for (const auto& callable : run.callables) {
    run.pipeline.functions.push_back(callable.function);
  }
  run.pipeline.label = "at the start";
  auto options = run.pipeline;
  options.warn = [&made](const std::string& text) { made.warnings.push_back(text); };
  options.stopped = made.abandoned;
  auto started = pipeline::Pipeline::start(package.plan, package.folder, backends(), options);
  if (!started) return name_refused_node(std::move(started).error(), package);
  made.running = *std::move(started);
  made.package = std::move(package);
  made.run = std::move(run);
  return {};
}

Status replace(pipeline::Pipeline& running, const std::filesystem::path& path,
               const RunOptions& run, Replaced& replaced) {
  PENSTOCK_TRY(auto package, load_package(path));
  plan::apply(run.stream, package.plan);
  replaced.warnings = plan::options_without_effect(run.stream, package.plan);
  auto options = run.pipeline;
  options.label = path.string();
  options.warn = [&](const std::string& text) { replaced.warnings.push_back(text); };
  options.stopped = replaced.abandoned;
  PENSTOCK_CHECK_OK(running.replace(package.plan, package.folder, backends(), options));
  replaced.package = std::move(package);
  return {};
}

nb::object make_aside(std::function<Status(Made&, const Abandoned&)> work) {
  auto made = std::make_shared<Made>();
  try {
    run_aside([made, work = std::move(work)](const Abandoned& abandoned) {
      made->abandoned = abandoned;
      if (Status status = work(*made, abandoned); !status) made->error = std::move(status).error();
    });
    if (made->error) {
      for (const auto& text : made->warnings) warn(text, kCallsToTheUser);
      raise(*made->error);
    }
    auto pipeline = std::make_unique<Pipeline>(std::move(made->package), std::move(made->running),
                                               std::move(made->run));
    return nb::make_tuple(to_object(std::move(pipeline)), made->warnings);
  } catch (...) {
    // What was started may wait for the GIL to end.
    without_gil([&] { made.reset(); });
    throw;
  }
}

}  // namespace penstock::python
