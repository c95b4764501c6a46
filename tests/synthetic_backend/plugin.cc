// A backend of known truth, for tests of what measures, searches and checks: right results,
// computed by ONNX Runtime, in the time that its settings give, with the faults that they give.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "penstock/backend/backend.h"
#include "penstock/backend/registry.h"
#include "penstock/backend/request.h"
#include "penstock/device/topology.h"
#include "penstock/graph/import.h"
#include "tests/synthetic_backend/accelerator.h"
#include "tests/synthetic_backend/faults.h"
#include "tests/synthetic_backend/name.h"
#include "tests/synthetic_backend/settings.h"

namespace penstock::synthetic {
namespace {

using Clock = std::chrono::steady_clock;

Result<Settings> load_settings() {
  const char* const file = std::getenv("PENSTOCK_SYNTHETIC");
  if (file == nullptr) {
    return not_found("the environment variable PENSTOCK_SYNTHETIC names no settings file");
  }
  std::ifstream in(file);
  if (!in) return not_found("no such file '", file, "' (environment variable PENSTOCK_SYNTHETIC)");
  std::ostringstream text;
  text << in.rdbuf();
  auto settings = parse_settings(text.str(), kName);
  if (settings) return settings;
  return std::move(settings).error().within(concat("settings '", file, "'"));
}

/// One write for each line, so that several processes may share the file.
void append(const std::filesystem::path& log, std::string_view what, const graph::Graph& model) {
  if (log.empty()) return;
  const auto line =
      concat(kName, " ", what, " ",
             join(model.nodes, ",", [](const graph::Node& node) { return node.name; }), "\n");
  std::ofstream out(log, std::ios::app);
  out.write(line.data(), static_cast<std::streamsize>(line.size()));
}

/// Of this thread: like a real engine, it takes longer where others share its CPU.
double computed_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// What a computer of results is to this backend: ONNX Runtime, found once.
Result<std::shared_ptr<backend::Backend>> engine() {
  static const backend::Registry kRegistry = backend::Registry::load();
  return kRegistry.find("onnxruntime");
}

using Cpus = std::vector<int>;

/// Those of the calling thread, held as long as the answer lives. As OpenVINO's threads are one
/// pool for the process. \error kFailedPrecondition  others are held.
Result<std::shared_ptr<const Cpus>> hold_place() {
  static std::mutex mutex;
  static std::weak_ptr<const Cpus> held;
  auto cpus = device::inherited_cpus();
  const std::scoped_lock lock(mutex);
  auto place = held.lock();
  if (place && *place != cpus) {
    return make_error(Code::kFailedPrecondition, kName, " stands on other CPUs of this process");
  }
  if (!place) held = place = std::make_shared<const Cpus>(std::move(cpus));
  return place;
}

/// Room for a model in this process, held as long as the answer lives. \error kResourceExhausted
Result<std::shared_ptr<void>> hold_room(std::int64_t nodes, std::int64_t room) {
  static std::mutex mutex;
  static std::int64_t held = 0;
  const std::scoped_lock lock(mutex);
  if (held + nodes > room) {
    return make_error(Code::kResourceExhausted, kName, " has no memory for ", nodes,
                      " nodes more in this process");
  }
  held += nodes;
  return std::shared_ptr<void>(nullptr, [nodes](void*) {
    const std::scoped_lock release(mutex);
    held -= nodes;
  });
}

struct Model {
  std::shared_ptr<void> room;
  std::shared_ptr<const Cpus> place;  ///< Null: it may stand anywhere.
  Settings settings;
  graph::Graph graph;
  double seconds = 0;
  Faults faults;
  std::unique_ptr<backend::Executable> inner;
};

class Context final : public backend::Context {
 public:
  Context(std::shared_ptr<const Model> model, std::unique_ptr<backend::Context> inner)
      : model_(std::move(model)), inner_(std::move(inner)) {}

  Status run(const backend::Call& call, std::span<const Tensor* const> inputs,
             std::span<Tensor* const> outputs) override {
    const double takes = seconds();
    const double end = computed_seconds() + takes;
    const auto ends = Clock::now() + std::chrono::duration<double>(takes);
    const auto time = runs_++;
    append(model_->settings.log, "run", model_->graph);
    PENSTOCK_CHECK_OK(model_->faults.commit(time));
    PENSTOCK_CHECK_OK(inner_->run(call, inputs, outputs));
    PENSTOCK_CHECK_OK(inner_->wait(backend::kNoDeadline));
    model_->faults.spoil(time, outputs, past_);
    if (model_->settings.accelerator) std::this_thread::sleep_until(ends);  // No CPU computes.
    while (!cancelled_.load(std::memory_order_relaxed) && !model_->settings.accelerator &&
           computed_seconds() < end) {
      continue;
    }
    if (!cancelled_.exchange(false)) return {};
    return make_error(Code::kCancelled, kName, " was told to stop");
  }

  void cancel() noexcept override { cancelled_ = true; }
  [[nodiscard]] Counters counters() const override { return inner_->counters(); }

 private:
  double seconds() {
    std::uniform_real_distribution<double> more(1, 1 + model_->settings.noise);
    return model_->seconds * more(random_);
  }

  std::shared_ptr<const Model> model_;
  std::unique_ptr<backend::Context> inner_;
  std::int64_t runs_ = 0;
  Faults::Past past_;
  std::mt19937 random_;  // NOLINT(*-msc51-cpp): the same times in every process
  std::atomic<bool> cancelled_ = false;
};

class Executable final : public backend::Executable {
 public:
  explicit Executable(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  [[nodiscard]] std::span<const backend::Port> inputs() const override {
    return model_->inner->inputs();
  }
  [[nodiscard]] std::span<const backend::Port> outputs() const override {
    return model_->inner->outputs();
  }
  Result<std::unique_ptr<backend::Context>> create_context() override {
    PENSTOCK_TRY(auto inner, model_->inner->create_context());
    return std::unique_ptr<backend::Context>(std::make_unique<Context>(model_, std::move(inner)));
  }

 private:
  std::shared_ptr<const Model> model_;
};

class Backend final : public backend::Backend {
 public:
  [[nodiscard]] backend::Description describe() const override {
    backend::Description description;
    description.name = kName;
    if (!settings_) {
      description.unavailable = settings_.error().message();
      return description;
    }
    description.engine_version = settings_->version;
    description.unavailable = settings_->unavailable;
    description.whole_graph = settings_->whole_graph;
    return description;
  }

  [[nodiscard]] std::string rules() const override {
    return settings_ ? settings_->rules : Settings().rules;
  }

  [[nodiscard]] std::vector<backend::Precision> lower_precisions() const override {
    std::vector<backend::Precision> precisions;
    for (const auto& [name, lower] : settings_ ? settings_->precisions : Settings().precisions) {
      if (const auto known = backend::parse_precision(name)) precisions.push_back(*known);
    }
    return precisions;
  }

  [[nodiscard]] bool accepts(const device::Device& device) const override {
    if (!settings_ || !settings_->accelerator) return device.is_local_cpu();
    return device.kind == device::Device::Kind::kCuda && !device.is_remote();
  }

  [[nodiscard]] std::shared_ptr<backend::Memory> memory(
      const device::Device& device) const override {
    if (!settings_ || !settings_->accelerator || !accepts(device)) return nullptr;
    return memory_of(*settings_, device.index);
  }

  [[nodiscard]] std::string device_name(const device::Device& device) const override {
    return is_there(device) ? settings_->accelerator->name : "";
  }

  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& given) override {
    PENSTOCK_TRY(const auto request, backend::with_precision(given));
    if (const auto why = describe().unavailable; !why.empty()) {
      return make_error(Code::kUnavailable, kName, ": ", why);
    }
    if (settings_->accelerator && !is_there(request.device)) {
      return make_error(Code::kUnavailable, kName, ": device '", device::to_string(request.device),
                        "' is not there");
    }
    const auto end = Clock::now() + std::chrono::duration<double>(settings_->compile_seconds);
    const graph::ImportOptions as_it_is{
        .shapes = {}, .constants = {}, .parameters = {}, .as_is = true, .engine = {}};
    PENSTOCK_TRY(auto read, request.file.empty()
                                ? graph::import_onnx_bytes(request.bytes, {}, as_it_is)
                                : graph::import_onnx(request.file, as_it_is));
    append(settings_->log, "compile", read);
    PENSTOCK_CHECK_OK(Faults(*settings_, read, true).commit(compilations_++));
    auto model = std::make_shared<Model>();
    if (settings_->one_place) {
      PENSTOCK_TRY(model->place, hold_place());
    }
    PENSTOCK_TRY(model->room,
                 hold_room(static_cast<std::int64_t>(read.nodes.size()), settings_->room));
    model->settings = *settings_;
    model->graph = std::move(read);
    model->seconds = settings_->seconds_of(model->graph, spot_of(request.threads));
    if (request.precision != backend::Precision::kF32) {
      PENSTOCK_CHECK_OK(lower(*model, request.precision));
    }
    model->faults = Faults(model->settings, model->graph, false);
    PENSTOCK_TRY(model->inner, compile_inner(request));
    while (Clock::now() < end) continue;
    auto made = std::make_unique<Executable>(std::move(model));
    if (!settings_->accelerator) return std::unique_ptr<backend::Executable>(std::move(made));
    return on_accelerator(*settings_, request.device.index, std::move(made));
  }

 private:
  [[nodiscard]] bool is_there(const device::Device& device) const {
    return settings_ && settings_->accelerator && settings_->accelerator->absent.empty() &&
           accepts(device) && device.index < settings_->accelerator->devices;
  }

  /// Where the calling thread stands, while whatever may run on the machine does.
  [[nodiscard]] Spot spot_of(int threads) const {
    Spot spot{.threads = threads, .cores = threads};
    if (settings_->kinds.empty() && settings_->bandwidth == 0 && settings_->sibling == 1) {
      return spot;
    }
    const auto topology = device::read_topology();
    if (!topology) return spot;
    std::vector<int> all;
    for (const auto& cpu : topology->cpus) all.push_back(cpu.number);
    spot = synthetic::spot_of(*topology, device::inherited_cpus(), all);
    spot.threads = threads;
    spot.cores = std::min(spot.cores, threads);
    return spot;
  }

  static Status lower(Model& model, backend::Precision precision) {
    const std::string name(backend::to_string(precision));
    const auto found = model.settings.precisions.find(name);
    if (found == model.settings.precisions.end()) {
      return make_error(Code::kUnimplemented, kName, " does not compute in ", name);
    }
    model.seconds /= found->second.speedup;
    model.settings.faults.push_back({.kind = Kind::kWrong, .by = found->second.error});
    return {};
  }

  static Result<std::unique_ptr<backend::Executable>> compile_inner(
      backend::CompileRequest request) {
    request.threads = 1;  // Times are ours: the engine only computes.
    request.optimize = false;
    request.options.clear();
    request.precision = backend::Precision::kF32;
    request.device = {.host = {}, .cpus = device::inherited_cpus()};
    PENSTOCK_TRY(const auto inner, engine());
    return inner->compile(request);
  }

  Result<Settings> settings_ = load_settings();
  std::atomic<std::int64_t> compilations_ = 0;
};

}  // namespace
}  // namespace penstock::synthetic

PENSTOCK_PLUGIN(penstock::synthetic::kName, penstock::synthetic::Backend)
