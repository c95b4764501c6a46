// Compares the models with a size from which sharing is worth a lock.
#include "penstock/pipeline/sharing.h"

namespace penstock::pipeline {
namespace {

// Contending for one arena halves the rate of small networks (bench/compare.py: gtcrn_simple,
// dtln_1). From this size on a frame takes long beside a lock.
constexpr double kSharedFromBytes = 64U << 20U;

}  // namespace

bool compiled_once(const device::Device& device, double bytes) {
  // A pool of threads belongs to one replica, and so does what an accelerator holds.
  return device.is_local_cpu() && device.cpus.size() == 1 && bytes >= kSharedFromBytes;
}

}  // namespace penstock::pipeline
