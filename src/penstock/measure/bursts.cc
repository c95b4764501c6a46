// By the sizes that the models of the plan's stages are for, and the calls that were counted.
#include "penstock/measure/bursts.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>

#include "penstock/base/option_name.h"
#include "penstock/pipeline/capacity.h"

namespace penstock::measure {
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

/// What may let larger calls run. `needed`: frames that a call holds at least, for the smallest
/// model that none ran.
std::string advice(const plan::Plan& plan, std::size_t number, std::size_t needed) {
  const std::string more_frames = concat("more frames may help (", OptionName::kFrameCount, ")");
  if (!pipeline::one_of_each_stream(plan, static_cast<int>(number))) return more_frames;
  const auto& stage = plan.stages[number];
  const std::size_t homes = pipeline::has_homes(plan, stage) ? stage.devices.size() : 1;
  const auto most = static_cast<std::size_t>(plan.streams.most);
  if ((most + homes - 1) / homes >= needed) return more_frames;
  const auto wanted = (needed - 1) * homes + 1;
  return concat("a call of it holds one frame of each stream, and there ",
                most == 1 ? "is 1" : concat("are ", most),
                homes > 1 ? concat(" for ", homes, " replicas") : "", ": expected ", wanted,
                " or more for that (", in_words_of_caller("split --streams", "streams of split"),
                "), or a smaller batch");
}

}  // namespace

std::uint64_t streams_in_turn(const pipeline::Pipeline& pipeline) {
  const auto& plan = pipeline.plan();
  if (plan.states.empty()) return 1;
  std::size_t wanted = 2;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (!pipeline::one_of_each_stream(plan, static_cast<int>(s))) continue;
    const auto& stage = plan.stages[s];
    const auto sizes = sizes_of_calls(stage);
    wanted = std::max(wanted, (sizes.empty() ? 1 : sizes.back()) * stage.devices.size());
  }
  const int most = std::min(plan.streams.most, pipeline.in_flight_limit());
  return std::min(wanted, static_cast<std::size_t>(most));
}

std::vector<std::size_t> bursts_of(const pipeline::Pipeline& pipeline) {
  constexpr std::chrono::seconds kLong(1);
  const auto most = static_cast<std::size_t>(pipeline.in_flight_limit());
  std::size_t full = 0;
  std::set<std::size_t> sizes;
  bool waits_long = false;
  for (const auto& stage : pipeline.plan().stages) {
    // Frames of streams in turn come to the replicas in turn.
    const auto parts = pipeline::has_homes(pipeline.plan(), stage) ? stage.devices.size() : 1;
    for (const auto size : sizes_of_calls(stage)) {
      full = std::max(full, 2 * size * stage.devices.size());
      sizes.insert(std::min(size * parts, most));
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
    std::size_t below = 0, needed = 0;
    for (const auto size : sizes_of_calls(pipeline.plan().stages[s])) {
      const auto end = std::min(size, calls.size());
      bool seen = false;
      for (auto n = below; n < end; ++n) seen = seen || calls[n] > 0;
      if (!seen && unseen.empty()) needed = below + 1;
      if (!seen) unseen.push_back(size);
      below = end;
    }
    if (unseen.empty()) continue;
    sentences.push_back(
        concat("stage '", stats.stages[s].name, "': no call held so many frames that its ",
               unseen.size() == 1 ? "model" : "models", " for ",
               join(unseen, ", ", [](std::size_t size) { return std::to_string(size); }),
               " ran, so that nothing is said of ", unseen.size() == 1 ? "it" : "them", "; ",
               advice(pipeline.plan(), s, needed)));
  }
  return sentences;
}

}  // namespace penstock::measure
