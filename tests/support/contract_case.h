// A random pipeline with what befalls it: one value, made of a seed. For contract_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/plan/plan.h"

namespace penstock::contract {

inline std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// SplitMix64's last mixing: a bijection.
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(mix(seed)) {}
  int below(std::size_t count) { return static_cast<int>(roll() % count); }
  int from_to(int least, int most) {
    return least + below(static_cast<std::size_t>(most) - static_cast<std::size_t>(least) + 1);
  }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <typename T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[below(list.size())];
  }

 private:
  std::uint64_t roll() { return state_ = mix(state_); }
  std::uint64_t state_;
};

/// A tensor's numbers. Every row is (the frame's tag, a value that tells all it was made of); tag 0
/// stands for no frame: a warm-up, or what depends on none. A tensor of items has 0 to kMostItems
/// rows, any other has one.
using Words = std::vector<std::int64_t>;
inline Words row_of(const Words& words, std::size_t row) {
  return {words[2 * row], words[2 * row + 1]};
}
inline void append(const Words& rows, Words& to) {
  to.insert(to.end(), rows.begin(), rows.end());
}
inline constexpr int kMostItems = 4;

enum class Fault : std::uint8_t {
  kNone,
  kError,
  kThrow,
  kThrowInt,
  kNoMemory,
  kDrop,
  kWrongShape,
  kWrongRank,
  kWrongType,
  kSpoil,  ///< An output of the wrong rank, and an error.
  kHang,
};

struct StageCase {
  std::vector<int> reads;   ///< Tensors; those of items one by one if `each`.
  std::vector<int> states;  ///< States that it reads.
  int writes = 1;           ///< How many tensors.
  int replicas = 1;
  bool function = false;  ///< Else a backend's model.
  bool stateful = false;  ///< As a function says of itself.
  bool finds = false;     ///< Writes items. \pre function
  bool each = false;      ///< Runs once for each item. \pre no states, in_two, accelerators nor far
  bool odd = false;       ///< Finds another number of items than others do.
  bool parameter = false;
  bool in_two = false;  ///< Of two partitions: one computes, one copies. \pre not function
  int together = 1;     ///< Frames in one call, or items if `each`. \pre no function, one part;
                        ///< else no items
  int wait_us = 0;      ///< For more of them.
  int lanes = 0;  ///< Calls in flight on a device; 0: it runs here. \pre no function, one part
  /// 1: on the first accelerator, 2: on the second, 3: a replica on each; 0: on none.
  /// \pre  fits_accelerator(), and keep_states_together() changes nothing
  int accelerators = 0;
  bool far = false;  ///< On a peer that comes and goes; another one stands by. \pre no function,
                     ///< one part, no lanes of its own
  Fault fault = Fault::kNone;
  std::size_t every = 1;  ///< About one call in so many meets the fault.
};

struct TensorCase {
  int producer = -1;  ///< A stage, or -1: an input.
  bool items = false;
};

struct EdgeCase {
  int capacity = 4;
  plan::FullPolicy policy = plan::FullPolicy::kBlock;
};

enum class StartFault : std::uint8_t { kNone, kCompile, kCompileThrows, kThread, kMemory };
enum class End : std::uint8_t { kClose, kCancel, kGiveUp, kDestroy };
enum class Pops : std::uint8_t { kAtOnce, kAnyTime, kWhenFull };

struct Case {
  std::uint64_t seed = 0;
  std::vector<TensorCase> tensors;  ///< Inputs first, then as the stages write them.
  std::vector<StageCase> stages;
  std::vector<int> states;      ///< The tensor that each is written from.
  std::vector<EdgeCase> edges;  ///< By position in the plan, over and over.
  std::vector<int> outputs;     ///< Tensors.
  int in_flight = 0;
  bool direct = false;  ///< What peers make stays there, and is lost with them.
  bool stop_at_error = false;
  int max_age_us = 0;       ///< 0: none.
  int max_left_behind = 0;  ///< As each stage says, of calls that hang.
  StartFault start_fault = StartFault::kNone;
  int start_fault_stage = 0;
  // The caller.
  int frames = 5;
  int pushers = 0;  ///< Threads that push; 0: the one that pops.
  int poppers = 0;  ///< Threads that pop beside the first. \pre pushers, hold 0
  Pops pops = Pops::kAnyTime;
  int hold = 0;          ///< Results held at a time, as far as slots allow it.
  int max_held = 1;      ///< As the option of that name.
  std::size_t past = 0;  ///< About one frame in so many has a deadline that is past; 0: none.
  bool cancels = false;  ///< Frames by their number, now and then. \pre no pushers
  bool borrow = false;   ///< By acquire_input() and push_acquired().
  bool settles = false;  ///< Pops once nothing moves any more: which frames edges drop, is certain.
  bool runs = false;     ///< The pushers call run(). \pre no states, no end before the last frame
  bool nags = false;     ///< Calls that are refused, parameters, resets and drains in between.
  End end = End::kClose;
  int end_at = 1 << 20;    ///< After so many frames; later than the last: when all are out.
  bool meddles = false;    ///< Another thread ends it, at any time. \pre not kDestroy
  int streams = 1;         ///< That the frames are of.
  int most_streams = 1;    ///< As the plan allows. Fewer than there are: \pre one thread pushes.
  bool evicts = false;     ///< As the plan says.
  int swap_at = -1;        ///< After so many frames another plan takes those that follow.
  int bad_swap_at = -1;    ///< One that does not start is to. \pre one thread pushes, no edge drops
  int drain_at = -1;       ///< After so many frames. \pre one thread pushes
  std::size_t called = 0;  ///< About one frame in so many has a callback; 0: none. \pre no runs

  [[nodiscard]] int inputs() const {
    return static_cast<int>(
        std::ranges::count_if(tensors, [](const auto& t) { return t.producer < 0; }));
  }
  [[nodiscard]] int first_written(int stage) const {
    int tensor = inputs();
    for (int s = 0; s < stage; ++s) tensor += stages[at(s)].writes;
    return tensor;
  }
  [[nodiscard]] bool writes_state(int stage) const {
    return std::ranges::any_of(states, [&](int t) { return tensors[at(t)].producer == stage; });
  }
  /// Positions among what the stage reads: it runs for each item of these.
  [[nodiscard]] std::vector<std::size_t> lists_of(const StageCase& stage) const {
    std::vector<std::size_t> lists;
    for (std::size_t i = 0; stage.each && i < stage.reads.size(); ++i) {
      if (tensors[at(stage.reads[i])].items) lists.push_back(i);
    }
    return lists;
  }
  [[nodiscard]] bool has(Fault fault) const {
    return std::ranges::any_of(stages, [&](const auto& s) { return s.fault == fault; });
  }
};

/// What the caller did, in the order in which the pipeline took it.
struct Event {
  enum class Kind : std::uint8_t { kPush, kParameter, kReset, kEnd, kSave, kRestore, kSwap };
  Kind kind = Kind::kPush;  ///< kReset: of all streams. kEnd: one begins anew, or is forgotten.
  std::int64_t value = 0;   ///< The frame's tag, or the parameter.
  std::uint64_t stream = 0;
  std::vector<Words> states;  ///< That were saved or restored.
};

/// The stream that the frame is of.
inline std::uint64_t stream_of(const Case& given, std::int64_t tag) {
  const auto which = mix(given.seed ^ mix(static_cast<std::uint64_t>(tag) ^ 0x57eaU)) %
                     static_cast<std::uint64_t>(given.streams);
  return which == 0 ? 0 : mix(which);
}

inline int items_of(std::int64_t tag, int odd) {
  return static_cast<int>(mix(static_cast<std::uint64_t>(tag * 64 + odd)) % (kMostItems + 1));
}

/// What an input of that frame holds.
inline Words input_of(const Case& given, std::int64_t tag, int input) {
  Words words;
  const int rows = given.tensors[at(input)].items ? items_of(tag, 0) : 1;
  for (int row = 0; row < rows; ++row) {
    words.push_back(tag);
    words.push_back(static_cast<std::int64_t>(
        mix(given.seed ^ mix(static_cast<std::uint64_t>(tag * 1024 + input * 16 + row)))));
  }
  return words;
}

inline bool is_past(const Case& given, std::int64_t tag) {
  return given.past > 0 && mix(given.seed + static_cast<std::uint64_t>(tag)) % given.past == 0;
}

/// Whether it is pushed before those of others that wait.
inline bool is_urgent(const Case& given, std::int64_t tag) {
  return mix(given.seed ^ mix(static_cast<std::uint64_t>(tag) ^ 0x11e0U)) % 3 == 0;
}

/// Whether the frame is given to a callback, and with those that are called in order.
inline bool calls_back(const Case& given, std::int64_t tag) {
  return given.called > 0 &&
         mix(~given.seed ^ mix(static_cast<std::uint64_t>(tag))) % given.called == 0;
}
inline bool in_order(std::int64_t tag) {
  return mix(static_cast<std::uint64_t>(tag)) % 2 == 0;
}

inline std::int64_t tag_of(std::span<const Words> inputs) {
  std::int64_t tag = 0;
  for (const auto& words : inputs) {
    for (std::size_t i = 0; i < words.size(); i += 2) tag = std::max(tag, words[i]);
  }
  return tag;
}

/// One call of a stage, by backend and model alike: outputs, or the fault that befalls it.
/// `version`: of the plan; 1 where another took the place of the first.
struct Answer {
  Fault fault = Fault::kNone;
  std::vector<Words> outputs;
};
inline Answer answer(const Case& given, int stage, std::span<const Words> inputs,
                     std::span<const Words> states, std::int64_t parameter, std::uint64_t version) {
  const auto& made = given.stages[at(stage)];
  const std::int64_t tag = tag_of(inputs);
  std::uint64_t hash = mix(static_cast<std::uint64_t>(stage) ^
                           static_cast<std::uint64_t>(parameter) ^ (version << 32U));
  for (const auto list : {inputs, states}) {
    for (const auto& words : list) {
      hash = mix(hash + words.size());
      for (const auto word : words) hash = mix(hash ^ static_cast<std::uint64_t>(word));
    }
  }
  if (tag > 0 && made.fault != Fault::kNone && (hash >> 20U) % made.every == 0) {
    return {made.fault, {}};
  }
  Answer result;
  const int rows = made.finds ? items_of(tag, made.odd ? stage + 1 : 0) : 1;
  for (int output = 0; output < made.writes; ++output) {
    auto& words = result.outputs.emplace_back();
    for (int row = 0; row < rows; ++row) {
      words.push_back(tag);
      words.push_back(
          static_cast<std::int64_t>(mix(hash + static_cast<std::uint64_t>(output * 16 + row + 1))));
    }
  }
  return result;
}

/// Outputs: what nobody reads, and some more.
inline void choose_outputs(Case& made, std::uint64_t salt) {
  Dice dice(made.seed ^ salt);
  made.outputs.clear();
  for (std::size_t t = 0; t < made.tensors.size(); ++t) {
    const int tensor = static_cast<int>(t);
    bool read = std::ranges::find(made.states, tensor) != made.states.end();
    for (const auto& stage : made.stages) {
      read |= std::ranges::find(stage.reads, tensor) != stage.reads.end();
    }
    const bool wanted = read ? dice.one_in(6) : !dice.one_in(12);
    if (wanted) made.outputs.push_back(tensor);
  }
  if (made.outputs.empty()) made.outputs.push_back(static_cast<int>(made.tensors.size()) - 1);
}

inline StageCase make_stage(const Case& made, Dice& dice, bool chain) {
  StageCase stage;
  const auto count = made.tensors.size();
  const int reads =
      chain || count == 1 ? 1 : dice.from_to(1, static_cast<int>(std::min<std::size_t>(3, count)));
  while (std::ssize(stage.reads) < reads) {
    const auto recent = std::min<std::size_t>(count, chain ? 1 : 3);
    const int tensor =
        static_cast<int>(count) - 1 - dice.below(dice.one_in(3) && !chain ? count : recent);
    if (std::ranges::find(stage.reads, tensor) == stage.reads.end()) stage.reads.push_back(tensor);
  }
  if (dice.one_in(40)) stage.reads.clear();
  const bool items =
      std::ranges::any_of(stage.reads, [&](int t) { return made.tensors[at(t)].items; });
  stage.writes = dice.one_in(4) ? 2 : 1;
  stage.function = dice.one_in(3) && !stage.reads.empty();
  stage.each = items && !dice.one_in(3);
  stage.finds = !stage.each && dice.one_in(8) && !stage.reads.empty();
  stage.odd = stage.finds && dice.one_in(4);
  stage.function |= stage.each || stage.finds;
  stage.stateful = stage.function && dice.one_in(5);
  stage.replicas = !stage.stateful && dice.one_in(3) ? dice.from_to(2, 3) : 1;
  stage.parameter = !stage.function && dice.one_in(6);
  stage.in_two = !stage.function && dice.one_in(5);
  stage.lanes = !stage.function && !stage.in_two && dice.one_in(4) ? dice.from_to(1, 4) : 0;
  if (!stage.function && !stage.in_two && !items && !stage.reads.empty() && dice.one_in(3)) {
    stage.together = dice.from_to(2, 4);
    stage.wait_us = dice.one_in(4) ? 200 : 0;
  }
  return stage;
}

inline void plant_faults(Case& made, Dice& dice) {
  for (auto& stage : made.stages) {
    if (!dice.one_in(5) || stage.reads.empty()) continue;
    stage.fault = dice.one_of({Fault::kError, Fault::kError, Fault::kThrow, Fault::kThrowInt,
                               Fault::kNoMemory, Fault::kDrop, Fault::kWrongShape,
                               Fault::kWrongRank, Fault::kWrongType, Fault::kSpoil});
    stage.every = dice.one_of<std::size_t>({1, 2, 3, 5, 9});
    const bool wrong = stage.fault >= Fault::kWrongShape && stage.fault <= Fault::kSpoil;
    if (wrong && stage.each) stage.fault = Fault::kError;
    const bool thrown = stage.fault >= Fault::kThrow && stage.fault <= Fault::kNoMemory;
    if (thrown && stage.lanes > 0) stage.fault = Fault::kError;  // A device throws nothing.
  }
}

inline bool reads_plain_input(const Case& made, const StageCase& stage) {
  return std::ranges::any_of(stage.reads, [&](int tensor) {
    const auto& read = made.tensors[at(tensor)];
    return read.producer < 0 && !read.items;
  });
}

inline void plant_states(Case& made, Dice& dice) {
  const int count = dice.from_to(1, 2);
  for (int i = 0; i < count; ++i) {
    const int writer = dice.below(made.stages.size());
    auto& stage = made.stages[at(writer)];
    if (stage.each || stage.finds || stage.reads.empty()) continue;
    const int reader = dice.one_in(2) ? writer : dice.below(made.stages.size());
    auto& reading = made.stages[at(reader)];
    if (reading.function || reading.reads.empty()) continue;
    if (!reads_plain_input(made, stage)) {  // Its frames' tags tell later for which of them it ran.
      if (made.tensors.front().items) continue;
      stage.reads.push_back(0);
    }
    stage.replicas = 1;
    reading.states.push_back(static_cast<int>(made.states.size()));
    made.states.push_back(made.first_written(writer) + dice.below(at(stage.writes)));
  }
}

/// Of stages that run for each item, some are networks.
inline void choose_networks_for_items(Case& made) {
  Dice dice(made.seed ^ 0xeac4U);
  for (auto& stage : made.stages) {
    if (!stage.each || !dice.one_in(2)) continue;
    stage.function = stage.stateful = false;
    stage.parameter = dice.one_in(6);
    stage.lanes = dice.one_in(4) ? 1 : 0;  // Its items run one after the other.
    if (!dice.one_in(3)) stage.together = dice.from_to(2, kMostItems);
    const bool thrown = stage.fault >= Fault::kThrow && stage.fault <= Fault::kNoMemory;
    if (thrown && stage.lanes > 0) stage.fault = Fault::kError;  // A device throws nothing.
  }
}

inline void choose_edges(Case& made, Dice& dice) {
  using plan::FullPolicy;
  const bool lossy = dice.one_in(3);
  for (int e = 0; e < 12; ++e) {
    EdgeCase edge{dice.from_to(1, 4), FullPolicy::kBlock};
    if (lossy && dice.one_in(3)) {
      edge.policy = dice.one_of({FullPolicy::kDropOldest, FullPolicy::kDropNewest,
                                 FullPolicy::kLatest, FullPolicy::kError});
      if (edge.policy == FullPolicy::kLatest) edge.capacity = 1;
    }
    made.edges.push_back(edge);
  }
  made.in_flight =
      lossy ? dice.one_of({4, 8, 16, 16, 16, 16, 16, 0}) : dice.one_of({0, 0, 0, 1, 2, 3, 7});
}

/// Only the edges to the output drop frames, and they get more than they hold.
inline void settle(Case& made, Dice& dice) {
  using plan::FullPolicy;
  made.settles = true;
  made.meddles = false;
  made.most_streams = made.streams;  // Nothing is popped meanwhile.
  made.in_flight = 32;
  for (auto& stage : made.stages) stage.fault = Fault::kNone;
  for (auto& edge : made.edges) {
    edge.policy = dice.one_of({FullPolicy::kDropOldest, FullPolicy::kDropNewest,
                               FullPolicy::kLatest, FullPolicy::kError});
    if (edge.policy == FullPolicy::kLatest) edge.capacity = 1;
  }
}

inline void choose_caller(Case& made, Dice& dice) {
  made.frames = dice.one_in(4) ? dice.from_to(1, 5) : dice.from_to(5, 24);
  made.pushers = dice.one_in(4) ? dice.from_to(1, 3) : 0;
  made.pops = dice.one_of({Pops::kAtOnce, Pops::kAnyTime, Pops::kAnyTime, Pops::kWhenFull});
  made.hold = dice.one_in(3) ? dice.from_to(1, 4) : 0;
  made.borrow = dice.one_in(4);
  made.nags = dice.one_in(3);
  made.runs = made.states.empty() && dice.one_in(15);
  if (made.runs) made.pushers = dice.from_to(1, 3);
  if (made.runs || !dice.one_in(5)) return;
  made.end = dice.one_of({End::kClose, End::kCancel, End::kGiveUp, End::kDestroy});
  made.end_at = dice.from_to(0, made.frames);
  made.meddles = made.end != End::kDestroy && dice.one_in(2);
}

inline void add_poppers(Case& made, Dice& dice) {
  if (made.pushers == 0 || made.runs || !dice.one_in(3)) return;
  if (made.end_at <= made.frames && !made.meddles) return;
  made.poppers = dice.from_to(1, 2);
  made.hold = 0;
}

inline void choose_streams(Case& made) {
  Dice dice(made.seed ^ 0x57eaU);
  if (!dice.one_in(made.states.empty() ? 6 : 2)) return;
  made.streams = made.most_streams = dice.from_to(2, 6);
  made.evicts = dice.one_in(2);
  if (made.pushers == 0) made.most_streams = dice.from_to(2, made.streams);
  for (const int state : made.states) {  // Each stream has a replica of the writer for its home.
    auto& writer = made.stages[at(made.tensors[at(state)].producer)];
    if (!writer.stateful && dice.one_in(2)) writer.replicas = dice.from_to(2, 3);
  }
}

inline void plant_hang(Case& made, Dice& dice) {
  const int index = dice.below(made.stages.size());
  auto& stage = made.stages[at(index)];
  if (!stage.reads.empty()) stage.fault = Fault::kHang;
  stage.every = 6;
  made.max_left_behind = dice.one_of({0, 1, 2, 1000});
  // The frames of one call fail together, and for those beside the guilty one it did not hang.
  if (!made.states.empty()) stage.together = 1;
}

/// What the runtime refuses there, stays here.
inline bool fits_accelerator(const Case& made, const StageCase& stage) {
  const auto is_items = [&](int t) { return made.tensors[at(t)].items; };
  return !stage.function && stage.lanes == 0 && !stage.reads.empty() &&
         std::ranges::none_of(stage.reads, is_items);
}

/// Whose frames read or write the state.
inline std::vector<StageCase*> ends_of(Case& made, int state) {
  const int written = made.states[at(state)];
  const int writer = made.tensors[at(written)].producer;
  std::vector<StageCase*> ends;
  for (int s = 0; s < std::ssize(made.stages); ++s) {
    auto& stage = made.stages[at(s)];
    const bool reads = std::ranges::find(stage.states, state) != stage.states.end();
    if (reads || s == writer) ends.push_back(&stage);
  }
  return ends;
}

/// A state lies in one memory: its stages are on one accelerator all, or none is.
inline void keep_states_together(Case& made) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int state = 0; state < std::ssize(made.states); ++state) {
      const auto ends = ends_of(made, state);
      const int first = ends.front()->accelerators;
      const bool agree =
          first < 3 &&
          std::ranges::all_of(
              ends, [&](const StageCase* stage) { return stage->accelerators == first; });
      if (agree) continue;
      for (StageCase* stage : ends) stage->accelerators = 0;
      changed = true;
    }
  }
}

inline void choose_accelerators(Case& made) {
  Dice dice(made.seed ^ 0xaccU);
  if (!dice.one_in(4) || made.start_fault != StartFault::kNone || made.has(Fault::kHang)) return;
  const auto fits = [&](const StageCase* stage) { return fits_accelerator(made, *stage); };
  for (auto& stage : made.stages) {
    if (fits(&stage) && dice.one_in(2)) stage.accelerators = dice.one_of({1, 1, 1, 2, 2, 3});
  }
  for (int state = 0; state < std::ssize(made.states); ++state) {
    const auto ends = ends_of(made, state);
    const int device = dice.one_of({1, 1, 2});
    if (!std::ranges::all_of(ends, fits) || dice.one_in(3)) continue;
    for (StageCase* stage : ends) stage->accelerators = device;
  }
  keep_states_together(made);
  for (auto& stage : made.stages) {
    if (stage.accelerators == 0) continue;
    stage.replicas = stage.accelerators == 3 ? 2 : 1;
    // A device throws nothing, and has no other outputs than it was given.
    const bool fails = stage.fault == Fault::kDrop || stage.fault == Fault::kNone;
    if (!fails) stage.fault = Fault::kError;
  }
}

/// Frames that are lost with a peer are computed at the other one.
inline void choose_peers(Case& made) {
  Dice dice(made.seed ^ 0xfa4U);
  made.direct = Dice(made.seed ^ 0xd17U).one_in(2);
  if (!dice.one_in(5) || made.start_fault != StartFault::kNone || made.has(Fault::kHang)) return;
  for (auto& stage : made.stages) {
    const bool plain = !stage.function && !stage.each && !stage.in_two && stage.lanes == 0;
    if (!plain || stage.accelerators > 0 || !dice.one_in(2)) continue;
    stage.far = true;
    stage.replicas = 1;
    const bool thrown = stage.fault >= Fault::kThrow && stage.fault <= Fault::kNoMemory;
    if (thrown) stage.fault = Fault::kError;  // A peer throws nothing.
  }
}

inline void choose_callbacks(Case& made) {
  Dice dice(made.seed ^ 0xd0e5U);
  if (!dice.one_in(4) || made.runs || made.most_streams < made.streams) return;
  made.called = dice.one_of<std::size_t>({1, 2, 4});
}

inline void choose_swaps(Case& made) {
  Dice dice(made.seed ^ 0x54a9U);
  const auto drops = [](const EdgeCase& e) { return e.policy != plan::FullPolicy::kBlock; };
  if (!dice.one_in(4) || made.pushers > 0 || made.runs || made.end != End::kClose ||
      made.start_fault != StartFault::kNone || made.most_streams < made.streams ||
      std::ranges::any_of(made.edges, drops)) {
    return;
  }
  if (!dice.one_in(4)) made.swap_at = dice.from_to(0, made.frames - 1);
  if (dice.one_in(2)) made.bad_swap_at = dice.from_to(0, made.frames - 1);
}

inline Case make_case(std::uint64_t seed) {
  Dice dice(seed);
  Case made;
  made.seed = seed;
  const int inputs = dice.one_in(2) ? 1 : dice.from_to(1, 3);
  for (int i = 0; i < inputs; ++i) made.tensors.push_back({-1, dice.one_in(6)});
  const int stages = dice.one_in(6) ? dice.from_to(1, 8) : dice.from_to(1, 4);
  const bool chain = dice.one_in(4);
  for (int s = 0; s < stages; ++s) {
    made.stages.push_back(make_stage(made, dice, chain));
    const auto& stage = made.stages.back();
    for (int w = 0; w < stage.writes; ++w) made.tensors.push_back({s, stage.each || stage.finds});
  }
  if (dice.one_in(2)) plant_faults(made, dice);
  if (dice.one_in(4)) plant_states(made, dice);
  choose_networks_for_items(made);
  choose_edges(made, dice);
  choose_outputs(made, 1);
  choose_caller(made, dice);
  add_poppers(made, dice);
  choose_streams(made);
  made.stop_at_error = !made.runs && dice.one_in(6);
  if (made.pushers == 0 && made.end == End::kClose && dice.one_in(8)) {
    settle(made, dice);
    return made;
  }
  choose_callbacks(made);
  if (!made.runs && dice.one_in(8)) made.past = dice.one_of<std::size_t>({1, 2, 5});
  made.cancels = made.pushers == 0 && !made.runs && dice.one_in(6);
  if (made.hold > 0) made.max_held = dice.from_to(0, 3);
  if (!made.runs && dice.one_in(20)) made.max_age_us = dice.one_of({1, 20, 200, 60'000'000});
  if (dice.one_in(40)) {
    made.start_fault = dice.one_of({StartFault::kCompile, StartFault::kCompileThrows,
                                    StartFault::kThread, StartFault::kMemory});
    made.start_fault_stage = dice.below(made.stages.size());
  } else if (!made.runs && dice.one_in(300)) {
    plant_hang(made, dice);
  }
  choose_accelerators(made);
  choose_peers(made);
  choose_swaps(made);
  return made;
}

/// For people: what a failing case is.
inline std::string describe(const Case& c) {
  const auto numbers = [](const auto& list) {
    return "[" + join(list, " ", [](int n) { return std::to_string(n); }) + "]";
  };
  std::string text = concat("seed ", c.seed, ": ", c.inputs(), " inputs, ", c.frames, " frames");
  if (c.pushers > 0) text += concat(", ", c.pushers, " pushers, ", c.poppers, " more poppers");
  text += concat(", pops ", static_cast<int>(c.pops), ", hold ", c.hold,
                 c.borrow ? ", borrows" : "", c.nags ? ", nags" : "", c.settles ? ", settles" : "",
                 c.runs ? ", runs" : "", c.meddles ? ", meddles" : "", ", max_held ", c.max_held,
                 ", past ", c.past, c.cancels ? ", cancels" : "", ", in_flight ", c.in_flight,
                 c.direct ? ", direct" : "", ", streams ", c.streams, " of ", c.most_streams,
                 c.evicts ? ", evicts" : "", ", called ", c.called, ", swaps at ", c.swap_at,
                 ", badly at ", c.bad_swap_at, c.stop_at_error ? ", on_error stop" : "",
                 ", max_age ", c.max_age_us, ", max_left_behind ", c.max_left_behind, ", end ",
                 static_cast<int>(c.end), " at ", c.end_at, ", start fault ",
                 static_cast<int>(c.start_fault), " at stage ", c.start_fault_stage, "\n");
  for (std::size_t s = 0; s < c.stages.size(); ++s) {
    const auto& stage = c.stages[s];
    text += concat("  s", s, stage.function ? " function" : "", stage.stateful ? " stateful" : "",
                   stage.each ? " each" : "", stage.finds ? " finds" : "", stage.odd ? " odd" : "",
                   stage.parameter ? " parameter" : "", stage.in_two ? " in two" : "", " reads t",
                   numbers(stage.reads), " states ", numbers(stage.states), " writes t",
                   c.first_written(static_cast<int>(s)), "+", stage.writes, " replicas ",
                   stage.replicas, " accelerators ", stage.accelerators, " together ",
                   stage.together, " lanes ", stage.lanes, stage.far ? " far" : "", " fault ",
                   static_cast<int>(stage.fault), "/", stage.every, "\n");
  }
  text += concat("  states written from t", numbers(c.states), ", outputs t", numbers(c.outputs),
                 ", items t[");
  for (std::size_t t = 0; t < c.tensors.size(); ++t) {
    if (c.tensors[t].items) text += concat(t, " ");
  }
  text += "], edges";
  for (const auto& edge : c.edges) {
    text += concat(" ", plan::to_string(edge.policy), "/", edge.capacity);
  }
  return text;
}

}  // namespace penstock::contract
