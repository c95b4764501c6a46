#include "penstock/pipeline/supported.h"

#include "penstock/base/error.h"

namespace penstock::pipeline {
namespace {

template <typename... Args>
Error not_yet(const Args&... what) {
  return make_error(Code::kUnimplemented, what..., "; leave it out of the plan");
}

Status check_stage(const plan::Stage& stage) {
  if (!stage.standby.empty()) {
    return not_yet("standby: expected no device, found '", device::to_string(stage.standby.front()),
                   "': this release moves no frames from one device to another");
  }
  for (const auto& partition : stage.partitions) {
    if (partition.address.empty()) continue;
    return not_yet("address: expected none, found '", partition.address,
                   "': this release runs models in its own process only");
  }
  return {};
}

}  // namespace

Status check_supported(const plan::Plan& plan) {
  for (const auto& stage : plan.stages) {
    if (Status supported = check_stage(stage); !supported) {
      return std::move(supported).error().within({Where::kStage, stage.name});
    }
  }
  return {};
}

}  // namespace penstock::pipeline
