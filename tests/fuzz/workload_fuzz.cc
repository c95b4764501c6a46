// libFuzzer target over planning workloads.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "penstock/planner/baselines/baselines.h"
#include "penstock/planner/workload/workload.h"

/// Any text is a problem that can be searched, or an error; a split read for it can be judged.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::planner;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto goal : {Goal::kThroughput, Goal::kLatency}) {
    WorkloadOptions options;
    options.goal = goal;
    const auto problem = parse_workload(text, options);
    if (!problem) continue;
    const auto instance = make_instance(*problem, Partner::kLowest);
    // Only nodes that must stay together can be too much for every device unnoticed until here.
    if (!instance && problem->colocated.empty()) std::abort();
    if (!instance) continue;
    for (const auto& baseline : make_baselines(*problem, *instance, {})) {
      if (baseline.why_not.empty() && !baseline.split) std::abort();
    }
    if (const auto split = parse_workload_split(text, *problem)) evaluate(*problem, *split);
  }
  return 0;
}
