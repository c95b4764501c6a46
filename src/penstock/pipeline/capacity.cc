// Chooses slots by tensor sizes and workers, and adds up the bytes of edges, states and calls.
#include "penstock/pipeline/capacity.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "penstock/pipeline/edge.h"
#include "penstock/pipeline/stage.h"
#include "penstock/pipeline/state_edge.h"

namespace penstock::pipeline {
namespace {

constexpr std::size_t kEdgeBudget = 1U << 20U;   // Bytes. Slots beyond a cache's size gain nothing.
constexpr int kMostSlots = 512;                  // bench/hand_over: where the cost flattens out.
constexpr int kLeastSlots = 4;                   // While they take less than a large edge.
constexpr std::size_t kLargeEdge = 256U << 20U;  // Bytes from which slots are spared.
constexpr std::size_t kUnbounded =
    kEdgeBudget / 16;                   // Most that a tensor without bound is taken for.
constexpr std::int64_t kOpenSize = 64;  // What an open dimension of such a tensor is taken for.

// Frames that one call of the stage takes; 1 for the pipeline's own ends.
std::size_t frames_of(const plan::Plan& plan, int stage) {
  if (stage < 0) return 1;
  const auto& made = plan.stages[static_cast<std::size_t>(stage)];
  return made.each.empty() ? static_cast<std::size_t>(made.batch.frames) : 1;
}

// Frames that one instance of the stage may hold: full calls in all its lanes, as far as the plan
// says how many.
std::size_t held_by(const plan::Plan& plan, int stage) {
  const int lanes = plan.stages[static_cast<std::size_t>(stage)].lanes;
  return frames_of(plan, stage) * static_cast<std::size_t>(std::clamp(lanes, 1, kMostSlots));
}

// Frames that the stage may be reading from an edge of that capacity, or writing to it; the
// pipeline writes one. No instance has more calls than the edge holds.
std::size_t in_calls_of(const plan::Plan& plan, int stage, int capacity) {
  if (stage < 0) return 1;
  const auto most = std::max(frames_of(plan, stage), static_cast<std::size_t>(capacity));
  return replicas_of(plan, stage) * std::min(held_by(plan, stage), most);
}

// How many frames the workers between the edge's ends can hold.
std::size_t held_between(const plan::Plan& plan, const plan::Edge& edge) {
  const bool to_output = edge.to.empty() || edge.to.back() == plan::kPipelineOutput;
  const int first = to_output ? 0 : std::max(edge.from, 0);
  const int last = to_output ? static_cast<int>(plan.stages.size()) - 1 : edge.to.back();
  std::size_t workers = to_output ? 1 : 0;
  for (int stage = first; stage <= last; ++stage) {
    workers += replicas_of(plan, stage) * held_by(plan, stage);
  }
  return workers;
}

// Enough that every worker has a frame and another one ready; where that takes too much memory,
// that every worker has one and one is ready for all.
std::size_t least_slots(std::size_t workers, std::size_t bytes) {
  const std::size_t doubled = std::bit_ceil(std::max<std::size_t>(2 * workers, kLeastSlots));
  return doubled * bytes <= kLargeEdge ? doubled : workers + 1;
}

std::uint64_t slot_count(const plan::Plan& plan, const plan::Edge& edge, const Options& options,
                         const Memories& memories) {
  return static_cast<std::uint64_t>(choose_capacity(plan, edge)) +
         static_cast<std::uint64_t>(spare_slots(plan, edge, memories)) +
         static_cast<std::uint64_t>(kept_slots(edge, options));
}

// How often the host's memory holds what one slot holds, over all slots.
std::uint64_t host_slots(const plan::Plan& plan, const plan::Edge& edge, const Options& options,
                         const Memories& memories) {
  const auto places = memories_of(plan, edge, memories);
  const std::uint64_t slots = slot_count(plan, edge, options, memories);
  const auto kept = static_cast<std::uint64_t>(kept_slots(edge, options));
  std::uint64_t sum = places.own == nullptr ? slots : 0;
  if (std::ranges::find(places.mirrors, nullptr) != places.mirrors.end()) sum += slots - kept;
  return sum;
}

// Bytes of one frame, without those of tensors that have no bound.
std::size_t bounded_bytes(const plan::Plan& plan, const plan::Edge& edge) {
  std::size_t bytes = 0;
  for (const auto& name : edge.tensors) {
    const auto* info = plan.find_tensor(name);
    bytes += info == nullptr ? 0 : info->type.max_bytes().value_or(0);
  }
  return bytes;
}

// Bytes that a tensor takes; where nothing bounds them a guess, so that a few numbers are not taken
// for a picture.
std::size_t likely_bytes(Type type) {
  if (const auto known = type.max_bytes()) return *known;
  for (auto& dim : type.dims) {
    if (!dim.fixed() && dim.bound == Dim::kOpen) dim.bound = std::max(dim.usual, kOpenSize);
  }
  return std::min(type.max_bytes().value_or(kUnbounded), kUnbounded);
}

// Bytes of one frame, guessed where tensors have no bound.
std::size_t likely_bytes(const plan::Plan& plan, const plan::Edge& edge) {
  std::size_t bytes = 0;
  for (const auto& name : edge.tensors) {
    const auto* info = plan.find_tensor(name);
    bytes += info == nullptr ? kUnbounded : likely_bytes(info->type);
  }
  return bytes;
}

// What a slot takes beside the bytes of its tensors, about: small tensors take far more than
// theirs.
std::uint64_t bookkeeping_bytes(const plan::Edge& edge) {
  constexpr std::uint64_t kOwner = 64;  // The heap's block that counts a tensor's owners.
  constexpr std::uint64_t kTensor =
      2 * sizeof(Tensor) + sizeof(const Tensor*) + Tensor::kAlignment + kOwner;
  return sizeof(Slot) + sizeof(Slot*) + edge.tensors.size() * kTensor;
}

// Files may ask for anything: what is over the largest number is as good as it.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}
std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? UINT64_MAX : result;
}

// Of one frame; what has no bound, the backend allocates.
std::uint64_t bytes_of(const plan::Plan& plan, const std::vector<std::string>& names) {
  std::uint64_t sum = 0;
  for (const auto& name : names) {
    const auto* info = plan.find_tensor(name);
    sum = sum_of(sum, info == nullptr ? 0 : info->type.max_bytes().value_or(0));
  }
  return sum;
}

// What passes between the partitions of a stage only.
std::vector<std::string> locals_of(const plan::Stage& stage) {
  std::vector<std::string> names;
  for (const auto& partition : stage.partitions) {
    for (const auto& name : partition.outputs) {
      const bool leaves = std::ranges::find(stage.outputs, name) != stage.outputs.end();
      if (!leaves && std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

// Whether what the instance reads and writes lies in a memory of its own.
bool lies_elsewhere(const MemoryPtr& memory) {
  return memory != nullptr && !memory->reaches_host();
}

// What the calls have besides the slots: what passes between their partitions, and where those for
// several frames copy such frames to that do not lie one behind the other; elsewhere the way there.
std::uint64_t calls_bytes(const plan::Plan& plan, const Memories& memories) {
  std::uint64_t sum = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& stage = plan.stages[s];
    const std::uint64_t locals = bytes_of(plan, locals_of(stage));
    // Of each size up to the largest, as each of them is at least twice the one before.
    const std::uint64_t rows = stage.batch.frames > 1 ? 2 * stage.batch.frames : 0;
    const auto of_frame =
        sum_of(sum_of(bytes_of(plan, stage.inputs), bytes_of(plan, stage.outputs)), locals);
    const auto here = sum_of(locals, product(of_frame, rows));
    std::size_t sizes = 0;
    for (const auto& partition : stage.partitions) sizes = partition.batched.size();
    const auto elsewhere = product(of_frame, sizes);
    const std::size_t places = places_of(stage).size();
    for (std::size_t place = 0; place < places; ++place) {
      const bool far = !memories.empty() && lies_elsewhere(memories[s][place]);
      sum = sum_of(sum, product(far ? elsewhere : here, std::max(stage.lanes, 1)));
    }
  }
  return sum;
}

// Steps of which StateEdge knows the version for each seat: those of the frames in flight, where a
// reader may be behind.
std::uint64_t state_steps(const plan::Plan& plan, const plan::StateEdge& state) {
  if (state_versions(plan, state) == StateEdge::kVersions) return StateEdge::kVersions;
  std::uint64_t most = kLossyWindow;
  for (const auto& edge : plan.edges) {
    const bool leaves = !edge.to.empty() && edge.to.back() == plan::kPipelineOutput;
    if (edge.policy != plan::FullPolicy::kBlock) return std::uint64_t{2} * kLossyWindow;
    if (leaves) most = std::min(most, static_cast<std::uint64_t>(choose_capacity(plan, edge)));
  }
  return 2 * std::bit_ceil(most);
}

// What a state of all streams takes here beside the bytes of its values, about: small ones take far
// more than theirs.
std::uint64_t state_bookkeeping(const plan::Plan& plan, const plan::StateEdge& state) {
  constexpr std::uint64_t kChunk = 16, kLeastChunk = 32, kHead = 8;  // Of the heap.
  const auto* info = plan.find_tensor(state.to);
  const std::uint64_t dims = info == nullptr ? 0 : info->type.dims.size() * sizeof(std::int64_t);
  const auto dims_chunk = std::max((dims + kHead + kChunk - 1) / kChunk * kChunk, kLeastChunk);
  const std::uint64_t value = sizeof(Tensor) + dims_chunk + sizeof(std::atomic<bool>);
  const auto seat = sum_of(product(value, state_versions(plan, state)), state_steps(plan, state));
  return product(seat, static_cast<std::uint64_t>(plan.streams.most));
}

// Of a state's versions for all streams, if they lie here, what keeps them, and its initial value;
// nothing where its shape has no bound.
std::optional<std::uint64_t> state_bytes(const plan::Plan& plan, const plan::StateEdge& state,
                                         const Memories& memories) {
  const auto* info = plan.find_tensor(state.to);
  const auto bytes = info == nullptr ? std::nullopt : info->type.max_bytes();
  if (!bytes) return std::nullopt;
  const bool here = memory_of(plan, state, memories) == nullptr;
  const auto most = here ? static_cast<std::uint64_t>(plan.streams.most) : 0;
  return sum_of(product(*bytes, product(most, state_versions(plan, state)) + 1),
                state_bookkeeping(plan, state));
}

}  // namespace

std::size_t replicas_of(const plan::Plan& plan, int stage) {
  return stage < 0 ? 1 : plan.stages[static_cast<std::size_t>(stage)].devices.size();
}

int most_together(const plan::Plan& plan, const plan::Edge& edge) {
  std::size_t most = frames_of(plan, edge.from);
  for (const int to : edge.to) most = std::max(most, frames_of(plan, to));
  return static_cast<int>(most);
}

namespace {

// By stage: whether its frames get to `stage` through edges, or from there, or it is that one.
std::vector<bool> before_or_at(const plan::Plan& plan, int stage) {
  std::vector<bool> found(plan.stages.size());
  found[static_cast<std::size_t>(stage)] = true;
  for (int at = stage - 1; at >= 0; --at) {  // Edges lead forward.
    found[static_cast<std::size_t>(at)] = std::ranges::any_of(plan.edges, [&](const auto& edge) {
      return edge.from == at && std::ranges::any_of(edge.to, [&](int to) {
               return to >= 0 && found[static_cast<std::size_t>(to)];
             });
    });
  }
  return found;
}
std::vector<bool> behind_or_at(const plan::Plan& plan, int stage) {
  std::vector<bool> found(plan.stages.size());
  found[static_cast<std::size_t>(stage)] = true;
  for (int at = stage; at < std::ssize(plan.stages); ++at) {
    if (!found[static_cast<std::size_t>(at)]) continue;
    for (const auto& edge : plan.edges) {
      if (edge.from != at) continue;
      for (const int to : edge.to) {
        if (to >= 0) found[static_cast<std::size_t>(to)] = true;
      }
    }
  }
  return found;
}

bool names(const std::vector<std::string>& list, const std::string& name) {
  return std::ranges::find(list, name) != list.end();
}

}  // namespace

Waiting most_waiting(const plan::Plan& plan, int stage, std::uint64_t in_flight) {
  const auto before = before_or_at(plan, stage), behind = behind_or_at(plan, stage);
  const auto is_in = [](const std::vector<bool>& list, int at) {
    return at >= 0 && list[static_cast<std::size_t>(at)];
  };
  Waiting most{.come = in_flight, .kept = UINT64_MAX};
  for (const auto& edge : plan.edges) {
    const bool comes = edge.from == plan::kPipelineInput || is_in(before, edge.from);
    const bool passes = edge.from != stage && std::ranges::any_of(edge.to, [&](int to) {
                          return to == plan::kPipelineOutput || is_in(behind, to);
                        });
    if (!comes || !passes) continue;
    auto& least = edge.policy == plan::FullPolicy::kBlock ? most.come : most.kept;
    least = std::min(least, static_cast<std::uint64_t>(choose_capacity(plan, edge)));
  }
  return most;
}

bool one_of_each_stream(const plan::Plan& plan, int stage) {
  const auto before = before_or_at(plan, stage), behind = behind_or_at(plan, stage);
  return std::ranges::any_of(plan.states, [&](const plan::StateEdge& state) {
    bool is_read = false, is_written = false;
    for (std::size_t at = 0; at < plan.stages.size(); ++at) {
      is_read |= before[at] && names(plan.stages[at].inputs, state.to);
      is_written |= behind[at] && names(plan.stages[at].outputs, state.from);
    }
    return is_read && is_written;
  });
}

std::optional<std::size_t> slot_bytes(const plan::Plan& plan, const plan::Edge& edge) {
  const auto bounded = [&](const std::string& name) {
    const auto* info = plan.find_tensor(name);
    return info != nullptr && info->type.max_bytes();
  };
  if (!std::ranges::all_of(edge.tensors, bounded)) return std::nullopt;
  return bounded_bytes(plan, edge);
}

std::size_t state_versions(const plan::Plan& plan, const plan::StateEdge& state) {
  // Whose frames the writer gets through edges, or itself.
  std::vector<bool> before(plan.stages.size());
  for (std::size_t stage = plan.stages.size(); stage-- > 0;) {
    const auto leads_there = [&](const plan::Edge& edge) {
      return edge.from == static_cast<int>(stage) && std::ranges::any_of(edge.to, [&](int to) {
               return to >= 0 && before[static_cast<std::size_t>(to)];
             });
    };
    before[stage] = names(plan.stages[stage].outputs, state.from) ||
                    std::ranges::any_of(plan.edges, leads_there);
    if (!before[stage] && names(plan.stages[stage].inputs, state.to))
      return StateEdge::kVersionsBehind;
  }
  return StateEdge::kVersions;
}

int choose_capacity(const plan::Plan& plan, const plan::Edge& edge) {
  if (edge.policy == plan::FullPolicy::kLatest) return 1;
  if (edge.capacity > 0) return edge.capacity;
  const std::size_t bytes = std::max<std::size_t>(likely_bytes(plan, edge), 1);
  if (edge.policy != plan::FullPolicy::kBlock) return static_cast<int>(least_slots(1, bytes));
  const auto affordable = std::clamp<std::size_t>(kEdgeBudget / bytes, 1, kMostSlots);
  const std::size_t slots =
      std::max(std::bit_floor(affordable), least_slots(held_between(plan, edge), bytes));
  // Full calls, one after the other, find their frames one behind the other.
  const auto together = static_cast<std::size_t>(most_together(plan, edge));
  return static_cast<int>((slots + together - 1) / together * together);
}

int choose_wake_batch(const plan::Plan& plan) {
  const auto drops = [](const plan::Edge& edge) { return edge.policy != plan::FullPolicy::kBlock; };
  const auto crosses = [&](const plan::StateEdge& state) {
    return std::ranges::none_of(plan.stages, [&](const plan::Stage& stage) {
      return std::ranges::find(stage.outputs, state.from) != stage.outputs.end() &&
             std::ranges::find(stage.inputs, state.to) != stage.inputs.end();
    });
  };
  if (std::ranges::any_of(plan.edges, drops) || std::ranges::any_of(plan.states, crosses)) return 1;
  int least = kMostSlots;
  for (const auto& edge : plan.edges) least = std::min(least, choose_capacity(plan, edge));
  return std::max(least / 2, 1);
}

int kept_slots(const plan::Edge& edge, const Options& options) {
  const bool leaves = !edge.to.empty() && edge.to.back() == plan::kPipelineOutput;
  return leaves ? std::max(options.max_held, 0) : 0;
}

namespace {

/// Whether tensors of the stage are looked at, or copied, here.
bool needs_host(const plan::Plan& plan, const plan::Stage& stage) {
  const auto is_of = [](const std::vector<std::string>& names) {
    return
        [&names](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  };
  const bool has_states = std::ranges::any_of(plan.states, [&](const plan::StateEdge& state) {
    return is_of(stage.inputs)(state.to) || is_of(stage.outputs)(state.from);
  });
  const bool batches = std::ranges::any_of(
      stage.partitions, [](const auto& partition) { return !partition.batched.empty(); });
  return has_states || batches || !stage.each.empty() || !stage.parameters.empty() ||
         stage.partitions.size() > 1;
}

}  // namespace

bool has_homes(const plan::Plan& plan, const plan::Stage& stage) {
  return stage.devices.size() > 1 &&
         std::ranges::any_of(plan.states, [&](const plan::StateEdge& state) {
           return std::ranges::find(stage.outputs, state.from) != stage.outputs.end();
         });
}

Memories memories_of(const plan::Plan& plan, const backend::Registry& backends) {
  Memories memories;
  for (const auto& stage : plan.stages) {
    auto& of_stage = memories.emplace_back();
    for (const auto& device : places_of(stage)) {
      auto& memory = of_stage.emplace_back();
      for (const auto& partition : stage.partitions) {
        if (memory || partition.backend == plan::kFunctionBackend) continue;
        const auto name =
            device.is_remote() ? std::string(plan::kRemoteBackend) : partition.backend;
        if (const auto found = backends.find(name)) memory = (*found)->memory(device);
      }
      if (memory && memory->reaches_host() && needs_host(plan, stage)) memory = nullptr;
    }
  }
  return memories;
}

EdgeMemories memories_of(const plan::Plan& plan, const plan::Edge& edge, const Memories& memories) {
  // Where a stage has homes, a frame whose input was lost cannot go back to be read once more.
  const bool comes_back = std::ranges::none_of(edge.to, [&](int to) {
    return to >= 0 && has_homes(plan, plan.stages[static_cast<std::size_t>(to)]);
  });
  // Elsewhere there is no storage without a bound: then what reaches the host's memory is asked to.
  const bool bounded = std::ranges::all_of(edge.tensors, [&](const auto& name) {
    const auto* info = plan.find_tensor(name);
    return info != nullptr && info->type.max_bytes().has_value();
  });
  const auto add = [&](std::vector<backend::Memory*>& to, int stage) {
    if (stage < 0) return to.push_back(nullptr);
    for (const auto& memory : memories[static_cast<std::size_t>(stage)]) {
      const bool stays = bounded && comes_back;
      to.push_back(memory && memory->reaches_host() && !stays ? nullptr : memory.get());
    }
  };
  std::vector<backend::Memory*> writers, readers;
  add(writers, edge.from);
  for (const int to : edge.to) add(readers, to);
  const bool leaves = std::ranges::find(edge.to, plan::kPipelineOutput) != edge.to.end();
  return memories_for(writers, readers, leaves);
}

backend::Memory* memory_of(const plan::Plan& plan, const plan::StateEdge& state,
                           const Memories& memories) {
  std::vector<backend::Memory*> found;
  for (std::size_t stage = 0; stage < memories.size(); ++stage) {
    const auto& made = plan.stages[stage];
    if (!names(made.inputs, state.to) && !names(made.outputs, state.from)) continue;
    for (const auto& memory : memories[stage]) found.push_back(memory.get());
  }
  const bool of_one = !found.empty() && std::ranges::all_of(found, [&](const auto* memory) {
    return memory != nullptr && !memory->reaches_host() && same_memory(memory, found.front());
  });
  return of_one ? found.front() : nullptr;
}

std::vector<int> keepers_of(const plan::Plan& plan, const plan::Edge& edge,
                            const Memories& memories) {
  std::vector<bool> reached(plan.stages.size());
  const auto reach = [&](const plan::Edge& through) {
    for (const int to : through.to) {
      if (to >= 0) reached[static_cast<std::size_t>(to)] = true;
    }
  };
  reach(edge);
  for (int stage = 0; stage < std::ssize(plan.stages); ++stage) {  // Edges lead forward.
    if (!reached[static_cast<std::size_t>(stage)]) continue;
    for (const auto& made : plan.edges) {
      const auto* memory = made.from == stage ? memories_of(plan, made, memories).own : nullptr;
      if (memory != nullptr && memory->may_lose()) reach(made);
    }
  }
  std::vector<int> keepers;
  for (int stage = 0; stage < std::ssize(plan.stages); ++stage) {
    const bool reads = std::ranges::find(edge.to, stage) != edge.to.end();
    if (reached[static_cast<std::size_t>(stage)] && !reads) keepers.push_back(stage);
  }
  return keepers;
}

// As many as there are frames between push and release, so that none waits for those that are kept;
// where frames are dropped these are far more, and the stages get what keeps all of them busy.
int keeping_slots(const plan::Plan& plan, const plan::Edge& edge, const Memories& memories) {
  if (keepers_of(plan, edge, memories).empty()) return 0;
  constexpr std::size_t kCalls = 8;  // In flight on another machine.
  const auto drops = [](const plan::Edge& of) { return of.policy != plan::FullPolicy::kBlock; };
  if (std::ranges::any_of(plan.edges, drops)) {
    const std::size_t workers = held_between(plan, {.from = edge.from, .to = {}, .tensors = {}});
    return static_cast<int>(kCalls * workers);
  }
  int most = kMostSlots;
  for (const auto& leaves : plan.edges) {
    const bool is_output = !leaves.to.empty() && leaves.to.back() == plan::kPipelineOutput;
    if (is_output) most = std::min(most, choose_capacity(plan, leaves));
  }
  return std::max(most - choose_capacity(plan, edge), 0);
}

int spare_slots(const plan::Plan& plan, const plan::Edge& edge, const Memories& memories) {
  std::size_t spare = static_cast<std::size_t>(keeping_slots(plan, edge, memories));
  if (edge.policy == plan::FullPolicy::kBlock) return static_cast<int>(spare);
  const int capacity = choose_capacity(plan, edge);
  spare += in_calls_of(plan, edge.from, capacity);
  for (const int to : edge.to) spare += to < 0 ? kLeastSlots : in_calls_of(plan, to, capacity);
  return static_cast<int>(spare);
}

std::optional<std::uint64_t> memory_ceiling(const plan::Plan& plan, const Options& options,
                                            const backend::Registry& backends) {
  return memory_ceiling(plan, options, memories_of(plan, backends));
}

std::optional<std::uint64_t> memory_ceiling(const plan::Plan& plan, const Options& options,
                                            const Memories& memories) {
  std::uint64_t sum = 0;
  for (const auto& edge : plan.edges) {
    const auto bytes = slot_bytes(plan, edge);
    if (!bytes) return std::nullopt;
    sum = sum_of(sum, product(*bytes, host_slots(plan, edge, options, memories)));
  }
  for (const auto& state : plan.states) {
    const auto bytes = state_bytes(plan, state, memories);
    if (!bytes) return std::nullopt;
    sum = sum_of(sum, *bytes);
  }
  return sum_of(sum, calls_bytes(plan, memories));
}

Status check_memory(const plan::Plan& plan, const Options& options, const Memories& memories,
                    std::uint64_t available_bytes) {
  std::uint64_t sum = 0;
  std::uint64_t most = 0;
  const plan::Edge* largest = nullptr;
  for (const auto& edge : plan.edges) {
    const auto tensors =
        product(bounded_bytes(plan, edge), host_slots(plan, edge, options, memories));
    const auto bytes = sum_of(
        tensors, product(bookkeeping_bytes(edge), slot_count(plan, edge, options, memories)));
    sum = sum_of(sum, bytes);
    if (bytes > most) {
      most = bytes;
      largest = &edge;
    }
  }
  std::uint64_t states = 0;
  for (const auto& state : plan.states) {
    const auto bytes = state_bytes(plan, state, memories);
    states = sum_of(states, bytes ? *bytes : state_bookkeeping(plan, state));
  }
  const std::uint64_t calls = calls_bytes(plan, memories);
  sum = sum_of(sum_of(sum, states), calls);
  if (sum <= available_bytes) return {};
  const auto beside = [&](const char* what, std::uint64_t bytes, const std::string& advice) {
    return make_error(Code::kResourceExhausted, "the edges and ", what, " may take ", sum,
                      " bytes of memory, ", available_bytes, " are available; the ", what,
                      " alone take ", bytes, " bytes", advice);
  };
  if (calls > std::max(states, most)) return beside("calls", calls, "");
  if (states > most || largest == nullptr) {
    const int streams = plan.streams.most;
    return beside("states", states,
                  streams > 1 ? concat(" for ", streams, " streams; allow fewer") : "");
  }
  return make_error(Code::kResourceExhausted, "the edges may take ", sum, " bytes of memory, ",
                    available_bytes, " are available; the largest is '", edge_name(plan, *largest),
                    "' with ", slot_count(plan, *largest, options, memories), " slots and ", most,
                    " bytes; give it a smaller capacity");
}

}  // namespace penstock::pipeline
