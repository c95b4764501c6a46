// Functions of penstock.h that load a pipeline, tell its ports, change it while it runs and end it.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "penstock/backend/registry.h"
#include "penstock/c/convert.h"
#include "penstock/c/guarded.h"
#include "penstock/c/options.h"
#include "penstock/c/timeout.h"
#include "penstock/plan/plan_json.h"
#include "penstock/session/identify.h"
#include "penstock/session/load.h"
#include "penstock/session/session.h"

namespace penstock::c {
namespace {

namespace fs = std::filesystem;

/// Found once, kept for the life of the process: plugins are never closed.
const backend::Registry& backends() {
  static const auto* registry = new backend::Registry(backend::Registry::load());
  return *registry;
}

Result<plan::Package> package_of_model(const fs::path& path, partition::SplitOptions split) {
  PENSTOCK_TRY(const auto graph, import_model(path, {}, backends()));
  const auto* cuts = std::get_if<partition::Cuts>(&split.by);
  if (cuts != nullptr && !cuts->nodes.empty() && split.devices.empty()) {
    PENSTOCK_TRY(split.devices, device::parse_devices("all"));
  }
  return pack_model(graph, std::move(split), backends());
}

Result<plan::Package> package_at(const fs::path& path, LoadOptions& options) {
  switch (identify(path)) {
    case FileKind::kApplication:
      return invalid_argument("'", path.string(),
                              "': expected a package or a model, found an application; "
                              "'penstock split' makes a package of it");
    case FileKind::kModel:
      return package_of_model(path, std::move(options.split));
    case FileKind::kPackage:
      break;
  }
  if (!options.first_of_model.empty()) {
    return invalid_argument("option '", options.first_of_model, "': '", path.string(),
                            "' is a package, which is cut already; leave it out");
  }
  return load_package(path);
}

Status load(const fs::path& path, std::span<const penstock_option> given, penstock_pipeline& made) {
  PENSTOCK_TRY(auto options, read_options(given, backends()));
  PENSTOCK_TRY(made.package, package_at(path, options));
  plan::apply(options.stream, made.package.plan);
  made.warnings = plan::options_without_effect(options.stream, made.package.plan);
  made.stream = options.stream;
  made.options = std::move(options.pipeline);
  auto starting = made.options;
  starting.warn = [&made](const std::string& text) { made.warnings.push_back(text); };
  const auto& plan = made.package.plan;
  PENSTOCK_TRY(made.running,
               pipeline::Pipeline::start(plan, made.package.folder, backends(), starting));
  made.inputs = Ports(plan.inputs);
  made.outputs = Ports(plan.outputs);
  return {};
}

Status replace(penstock_pipeline& pipeline, const fs::path& path) {
  PENSTOCK_TRY(auto package, load_package(path));
  plan::apply(pipeline.stream, package.plan);
  return pipeline.running->replace(package.plan, package.folder, backends(), pipeline.options);
}

}  // namespace
}  // namespace penstock::c

using penstock::Status;
using penstock::c::expect;
using penstock::c::guarded;
using penstock::c::to_timeout;

extern "C" {

std::int32_t penstock_load(const char* path, const penstock_option* options,
                           std::size_t option_count, penstock_pipeline** pipeline,
                           penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(path, "path"));
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    if (option_count > 0) PENSTOCK_CHECK_OK(expect(options, "options"));
    auto made = std::make_unique<penstock_pipeline>();
    PENSTOCK_CHECK_OK(penstock::c::load(path, {options, option_count}, *made));
    *pipeline = made.release();
    return {};
  });
}

void penstock_free(penstock_pipeline* pipeline) {
  delete pipeline;
}

std::size_t penstock_warning_count(const penstock_pipeline* pipeline) {
  return pipeline == nullptr ? 0 : pipeline->warnings.size();
}

const char* penstock_warning(const penstock_pipeline* pipeline, std::size_t index) {
  return index < penstock_warning_count(pipeline) ? pipeline->warnings[index].c_str() : nullptr;
}

std::size_t penstock_input_count(const penstock_pipeline* pipeline) {
  return pipeline == nullptr ? 0 : pipeline->inputs.size();
}

const penstock_port* penstock_input(const penstock_pipeline* pipeline, std::size_t index) {
  return pipeline == nullptr ? nullptr : pipeline->inputs.at(index);
}

std::size_t penstock_output_count(const penstock_pipeline* pipeline) {
  return pipeline == nullptr ? 0 : pipeline->outputs.size();
}

const penstock_port* penstock_output(const penstock_pipeline* pipeline, std::size_t index) {
  return pipeline == nullptr ? nullptr : pipeline->outputs.at(index);
}

std::int32_t penstock_close(penstock_pipeline* pipeline, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    pipeline->running->close();
    return {};
  });
}

std::int32_t penstock_drain(penstock_pipeline* pipeline, std::int64_t timeout_ns,
                            penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    return pipeline->running->drain(to_timeout(timeout_ns));
  });
}

std::int32_t penstock_cancel(penstock_pipeline* pipeline, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    pipeline->running->cancel();
    return {};
  });
}

std::int32_t penstock_cancel_frame(penstock_pipeline* pipeline, std::uint64_t number,
                                   penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    if (pipeline->running->cancel(number)) return {};
    return penstock::not_found(
               "no such frame is in flight: it came out or failed before, or was "
               "never pushed")
        .within({penstock::Where::kFrame, number});
  });
}

std::int32_t penstock_replace(penstock_pipeline* pipeline, const char* path,
                              penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    PENSTOCK_CHECK_OK(expect(path, "path"));
    return penstock::c::replace(*pipeline, path);
  });
}

std::int32_t penstock_set_parameter(penstock_pipeline* pipeline, const char* stage,
                                    const char* name, const penstock_tensor* value,
                                    penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    PENSTOCK_CHECK_OK(expect(name, "name"));
    PENSTOCK_CHECK_OK(expect(value, "value"));
    auto tensor = penstock::c::to_tensor(*value, nullptr);
    if (!tensor) return std::move(tensor).error().within({penstock::Where::kParameter, name});
    return pipeline->running->set_parameters(stage == nullptr ? "" : stage,
                                             {{name, *std::move(tensor)}});
  });
}

std::int32_t penstock_plan_json(const penstock_pipeline* pipeline, char** text,
                                penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    PENSTOCK_CHECK_OK(expect(text, "text"));
    const std::string json = penstock::plan::to_json(pipeline->running->plan());
    char* copy = strdup(json.c_str());
    if (copy == nullptr) throw std::bad_alloc();
    *text = copy;
    return {};
  });
}

void penstock_text_free(char* text) {
  std::free(text);
}

std::int32_t penstock_write_trace(const penstock_pipeline* pipeline, const char* file,
                                  penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    PENSTOCK_CHECK_OK(expect(file, "file"));
    auto written = pipeline->running->write_trace(file);
    return written ? Status() : Status(std::move(written).error());
  });
}

}  // extern "C"
