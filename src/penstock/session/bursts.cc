// By the sizes that the models of the plan's stages are for, and the calls that were counted.
#include "penstock/session/bursts.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>

namespace penstock {
namespace {

/// How many frames the models of a stage are for, ascending; none where it takes one frame in a
/// call.
std::vector<std::size_t> sizes_of_calls(const plan::Stage& stage) {
  std::vector<std::size_t> sizes;
  if (!stage.each.empty() || stage.partitions.front().batched.empty()) return sizes;
  sizes.push_back(1);
  for (const auto& batched : stage.partitions.front().batched) {
    sizes.push_back(static_cast<std::size_t>(batched.frames));
  }
  return sizes;
}

}  // namespace

std::vector<std::size_t> bursts_of(const pipeline::Pipeline& pipeline) {
  constexpr std::chrono::seconds kLong(1);
  const auto most = static_cast<std::size_t>(pipeline.in_flight_limit());
  std::size_t full = 0;
  std::set<std::size_t> sizes;
  bool waits_long = false;
  for (const auto& stage : pipeline.plan().stages) {
    for (const auto size : sizes_of_calls(stage)) {
      full = std::max(full, 2 * size * stage.devices.size());
      sizes.insert(std::min(size, most));
      waits_long = waits_long || stage.batch.wait > kLong;
    }
  }
  if (sizes.empty()) return {};
  std::vector<std::size_t> bursts{std::min(full, most)};
  if (!waits_long) bursts.insert(bursts.end(), sizes.rbegin(), sizes.rend());
  return bursts;
}

std::vector<std::string> unseen_sizes(const pipeline::Pipeline& pipeline) {
  std::vector<std::string> sentences;
  const auto stats = pipeline.stats();
  for (std::size_t s = 0; s < stats.stages.size(); ++s) {
    const auto& calls = stats.stages[s].calls;
    std::vector<std::size_t> unseen;
    std::size_t below = 0;
    for (const auto size : sizes_of_calls(pipeline.plan().stages[s])) {
      const auto end = std::min(size, calls.size());
      bool seen = false;
      for (auto n = below; n < end; ++n) seen = seen || calls[n] > 0;
      if (!seen) unseen.push_back(size);
      below = end;
    }
    if (unseen.empty()) continue;
    sentences.push_back(
        concat("stage '", stats.stages[s].name, "': no call held so many frames that its ",
               unseen.size() == 1 ? "model" : "models", " for ",
               join(unseen, ", ", [](std::size_t size) { return std::to_string(size); }),
               " ran, so that nothing is said of ", unseen.size() == 1 ? "it" : "them",
               "; more frames may help (--frames)"));
  }
  return sentences;
}

}  // namespace penstock
