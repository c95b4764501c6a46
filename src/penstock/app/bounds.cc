// Refuses libraries, and devices and models of other machines, where they are not allowed.
#include "penstock/app/bounds.h"

#include <string>
#include <utility>
#include <vector>

#include "penstock/app/parts.h"
#include "penstock/base/option_name.h"

namespace penstock::app {
namespace {

Error of_another_machine(const std::string& what) {
  return make_error(Code::kPermissionDenied, what,
                    " is of another machine, which what a client sends may not connect to: leave "
                    "it out, or start the server with ",
                    OptionName::kAllowNativeCode);
}

Status refuse_remote(const std::vector<device::Device>& devices) {
  for (const auto& device : devices) {
    if (device.is_remote()) return of_another_machine("'" + device::to_string(device) + "'");
  }
  return {};
}

/// The first of the node's fields that names another machine, in its place.
Status refuse_other_machines(const Node& node) {
  const auto check = [&](const std::vector<device::Device>& devices, const char* field) -> Status {
    Status allowed = refuse_remote(devices);
    return allowed ? Status() : Status(std::move(allowed).error().within(place_of(node, field)));
  };
  if (const auto* served = std::get_if<ServedNode>(&node.runs)) {
    return of_another_machine("'" + to_string(served->model) + "'").within(place_of(node, "model"));
  }
  if (const auto* function = std::get_if<FunctionNode>(&node.runs)) {
    return check(function->devices, "devices");
  }
  const auto& split = std::get<Network>(node.runs).split;
  PENSTOCK_CHECK_OK(check(split.devices, "devices"));
  return check(split.standby, "standby");
}

Status refuse_other_machines(const plan::Plan& plan) {
  for (const auto& stage : plan.stages) {
    const Where place{Where::kStage, stage.name};
    for (const auto* devices : {&stage.devices, &stage.standby}) {
      Status allowed = refuse_remote(*devices);
      if (!allowed) return std::move(allowed).error().within(place);
    }
    for (const auto& partition : stage.partitions) {
      if (!partition.served) continue;
      return of_another_machine("'" + to_string(*partition.served) + "'").within(place);
    }
  }
  return {};
}

}  // namespace

Status check_bounds(const App& app, const Bounds& bounds) {
  if (!bounds.native_code) PENSTOCK_CHECK_OK(refuse_native_code(app));
  if (bounds.other_machines) return {};
  for (const auto& node : app.nodes) PENSTOCK_CHECK_OK(refuse_other_machines(node));
  return {};
}

Status check_bounds(const plan::Plan& plan, const Bounds& bounds) {
  if (!bounds.native_code) PENSTOCK_CHECK_OK(plan::refuse_native_code(plan));
  return bounds.other_machines ? Status() : refuse_other_machines(plan);
}

}  // namespace penstock::app
