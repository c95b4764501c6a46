// Sharing: which replicas of a stage run one compiled model.
#pragma once

#include "penstock/device/device.h"

namespace penstock::pipeline {

/// Whether the replicas of a stage, on devices like this one, run what was compiled once, where its
/// models have so many bytes with their weights. Who shares a compiled model shares its weights, if
/// its backend can, and contends for its memory arena.
bool compiled_once(const device::Device& device, double bytes);

}  // namespace penstock::pipeline
