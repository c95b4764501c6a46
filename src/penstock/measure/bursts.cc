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

/// What no call of a stage ran.
struct Unseen {
  std::size_t stage = 0;
  std::vector<std::size_t> sizes;  ///< Of its models.
  std::size_t needed = 0;          ///< Frames that a call holds at least, for the smallest of them.
};

/// Of each stage with models for several frames that no call ran.
std::vector<Unseen> find_unseen(const plan::Plan& plan, const pipeline::Stats& stats) {
  std::vector<Unseen> found;
  for (std::size_t s = 0; s < stats.stages.size(); ++s) {
    const auto& calls = stats.stages[s].calls;
    Unseen unseen{.stage = s, .sizes = {}};
    std::size_t below = 0;
    for (const auto size : sizes_of_calls(plan.stages[s])) {
      const auto end = std::min(size, calls.size());
      bool seen = false;
      for (auto n = below; n < end; ++n) seen = seen || calls[n] > 0;
      if (!seen && unseen.sizes.empty()) unseen.needed = below + 1;
      if (!seen) unseen.sizes.push_back(size);
      below = end;
    }
    if (!unseen.sizes.empty()) found.push_back(std::move(unseen));
  }
  return found;
}

/// How many replicas share the plan's streams among them.
std::size_t homes_of(const plan::Plan& plan, const plan::Stage& stage) {
  return pipeline::has_homes(plan, stage) ? stage.devices.size() : 1;
}

/// Whether a call can hold as many frames as the stage needs.
bool can_fill(const plan::Plan& plan, const Unseen& unseen) {
  if (!pipeline::one_of_each_stream(plan, static_cast<int>(unseen.stage))) return true;
  const std::size_t homes = homes_of(plan, plan.stages[unseen.stage]);
  return (static_cast<std::size_t>(plan.streams.most) + homes - 1) / homes >= unseen.needed;
}

/// What may let larger calls run.
std::string advice(const plan::Plan& plan, const Unseen& unseen) {
  if (can_fill(plan, unseen)) return concat("more frames may help (", OptionName::kFrameCount, ")");
  const auto most = plan.streams.most;
  const std::size_t homes = homes_of(plan, plan.stages[unseen.stage]);
  const auto wanted = (unseen.needed - 1) * homes + 1;
  return concat("a call of it holds one frame of each stream, and there ",
                most == 1 ? "is 1" : concat("are ", most),
                homes > 1 ? concat(" for ", homes, " replicas") : "", ": expected ", wanted,
                " or more for that (", in_words_of_caller("split --streams", "streams of split"),
                "), or a smaller batch");
}

/// So that calls which are not full would hold a run up.
bool waits_long(const plan::Stage& stage) {
  return sizes_of_calls(stage).size() > 1 && stage.batch.wait > std::chrono::seconds(1);
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
  const auto most = static_cast<std::size_t>(pipeline.in_flight_limit());
  const auto& plan = pipeline.plan();
  std::size_t full = 0;
  std::set<std::size_t> sizes;
  for (const auto& stage : plan.stages) {
    // Frames of streams in turn come to the replicas in turn.
    const auto parts = homes_of(plan, stage);
    for (const auto size : sizes_of_calls(stage)) {
      full = std::max(full, 2 * size * stage.devices.size());
      sizes.insert(std::min(size * parts, most));
    }
  }
  if (sizes.empty()) return {};
  std::vector<std::size_t> bursts{std::min(full, most)};
  if (std::ranges::none_of(plan.stages, waits_long)) {
    bursts.insert(bursts.end(), sizes.rbegin(), sizes.rend());
  }
  return bursts;
}

bool may_see_more(const pipeline::Pipeline& pipeline) {
  const auto& plan = pipeline.plan();
  return std::ranges::none_of(plan.stages, waits_long) &&
         std::ranges::any_of(find_unseen(plan, pipeline.stats()),
                             [&](const Unseen& unseen) { return can_fill(plan, unseen); });
}

std::vector<std::string> unseen_sizes(const pipeline::Pipeline& pipeline) {
  const auto& plan = pipeline.plan();
  std::vector<std::string> sentences;
  for (const auto& unseen : find_unseen(plan, pipeline.stats())) {
    const bool one = unseen.sizes.size() == 1;
    sentences.push_back(concat(
        "stage '", plan.stages[unseen.stage].name, "': no call held so many frames that its ",
        one ? "model" : "models", " for ",
        join(unseen.sizes, ", ", [](std::size_t size) { return std::to_string(size); }),
        " ran, so that nothing is said of ", one ? "it" : "them", "; ", advice(plan, unseen)));
  }
  return sentences;
}

}  // namespace penstock::measure
