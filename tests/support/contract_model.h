// The pipeline's contract over a case, without threads, queues or slots: what each frame may be.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "tests/support/contract_case.h"

namespace penstock::contract {

/// What the caller did, in the order in which the pipeline took it.
struct Event {
  enum class Kind : std::uint8_t { kPush, kParameter, kReset, kEnd, kSave, kRestore, kSwap };
  Kind kind = Kind::kPush;  ///< kReset: of all streams. kEnd: one begins anew, or is forgotten.
  std::int64_t value = 0;   ///< The frame's tag, or the parameter.
  std::uint64_t stream = 0;
  std::vector<Words> states;  ///< That were saved or restored.
};

struct Failure {
  int stage = 0;
  Fault fault = Fault::kNone;  ///< kNone: two lists of items of different lengths.
};

/// A frame, where nothing from outside befalls it. It is ok with `outputs`, or ends as one of
/// `failures`: which, is up to the branches' race.
struct Expected {
  std::int64_t tag = 0;
  std::vector<Failure> failures;
  std::vector<Words> outputs;  ///< Empty where there is a failure.
};

/// Copies to a device, and back, for a frame that all stages run for: of each tensor one at most.
struct Copies {
  int in = 0, out = 0;
};
inline Copies copies_of(const Case& given, int device) {
  Copies copies;
  const auto is_there = [&](int stage) {
    return stage >= 0 && given.stages[static_cast<std::size_t>(stage)].accelerators == device + 1;
  };
  for (int t = 0; t < std::ssize(given.tensors); ++t) {
    bool there = false, elsewhere = std::ranges::find(given.outputs, t) != given.outputs.end();
    for (int s = 0; s < std::ssize(given.stages); ++s) {
      const auto& reads = given.stages[static_cast<std::size_t>(s)].reads;
      if (std::ranges::find(reads, t) != reads.end()) (is_there(s) ? there : elsewhere) = true;
    }
    const bool written = is_there(given.tensors[static_cast<std::size_t>(t)].producer);
    copies.in += !written && there ? 1 : 0;
    copies.out += written && elsewhere ? 1 : 0;
  }
  return copies;
}

class Model {
 public:
  /// `began`: whether the stage was called for the frame of that tag, where races decide it (an
  /// edge that drops, a cancellation); null where nothing does: then every stage runs that can. It
  /// is asked for writers of states only, since what they did shows in later frames.
  using Began = std::function<bool(int stage, std::int64_t tag)>;
  Model(const Case& given, Began began) : case_(given), began_(std::move(began)) {}

  std::vector<Expected> run(const std::vector<Event>& events) {
    std::vector<Expected> frames;
    for (const auto& event : events) {
      if (event.kind == Event::Kind::kParameter) parameter_ = event.value;
      if (event.kind == Event::Kind::kSwap) ++version_;  // States and parameters go over.
      if (event.kind == Event::Kind::kReset) streams_.clear();
      if (event.kind == Event::Kind::kEnd) streams_.erase(event.stream);
      if (event.kind == Event::Kind::kRestore) streams_[event.stream] = event.states;
      if (event.kind == Event::Kind::kSave) wrong_saves_ += states_of(event.stream) != event.states;
      if (event.kind == Event::Kind::kPush) frames.push_back(frame(event.value));
    }
    return frames;
  }
  /// How many streams were saved with other states than theirs.
  [[nodiscard]] int wrong_saves() const { return wrong_saves_; }

 private:
  using Tensors = std::vector<std::optional<Words>>;

  Expected frame(std::int64_t tag) {
    Expected result{tag, {}, {}};
    auto& states = states_of(stream_of(case_, tag));
    Tensors tensors(case_.tensors.size());
    for (int i = 0; i < case_.inputs(); ++i) tensors[at(i)] = input_of(case_, tag, i);
    for (int s = 0; s < std::ssize(case_.stages); ++s) stage(s, tensors, states, result);
    // A state advances with every frame that its writer computed, whatever became of it elsewhere.
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (const auto& written = tensors[at(case_.states[i])]) states[i] = *written;
    }
    if (result.failures.empty() && !kept_out_) {
      for (const int output : case_.outputs) result.outputs.push_back(*tensors[at(output)]);
    }
    kept_out_ = false;
    return result;
  }

  /// A stage runs for every frame for which those before it ran.
  void stage(int index, Tensors& tensors, const std::vector<Words>& before, Expected& result) {
    const auto& made = case_.stages[at(index)];
    std::vector<Words> inputs, states;
    for (const int tensor : made.reads) {
      if (!tensors[at(tensor)]) return;
      inputs.push_back(*tensors[at(tensor)]);
    }
    if (began_ && writes_state(index) && tag_of(inputs) > 0 && !began_(index, result.tag)) {
      kept_out_ = true;
      return;
    }
    for (const int state : made.states) states.push_back(before[at(state)]);
    const auto counts = items(made, inputs);
    if (made.each && std::ranges::adjacent_find(counts, std::not_equal_to()) != counts.end()) {
      return result.failures.push_back({index, Fault::kNone});
    }
    std::vector<Words> outputs(at(made.writes));
    for (std::size_t row = 0; row < (made.each ? counts.front() : 1); ++row) {
      const auto call = made.each ? of_item(made, inputs, row) : inputs;
      const auto answered =
          answer(case_, index, call, states, made.parameter ? parameter_ : 0, version_);
      if (answered.fault != Fault::kNone) return result.failures.push_back({index, answered.fault});
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        outputs[o].insert(outputs[o].end(), answered.outputs[o].begin(), answered.outputs[o].end());
      }
    }
    for (int o = 0; o < made.writes; ++o) {
      tensors[at(case_.first_written(index) + o)] = outputs[at(o)];
    }
  }

  /// What a stage that runs for each item reads for one of them: others' tensors whole.
  [[nodiscard]] std::vector<Words> of_item(const StageCase& made, std::vector<Words> inputs,
                                           std::size_t row) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!case_.tensors[at(made.reads[i])].items) continue;
      inputs[i] = {inputs[i][2 * row], inputs[i][2 * row + 1]};
    }
    return inputs;
  }

  [[nodiscard]] std::vector<std::size_t> items(const StageCase& made,
                                               const std::vector<Words>& inputs) const {
    std::vector<std::size_t> counts;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (case_.tensors[at(made.reads[i])].items) counts.push_back(inputs[i].size() / 2);
    }
    return counts;
  }
  [[nodiscard]] bool writes_state(int stage) const {
    return std::ranges::any_of(case_.states,
                               [&](int t) { return case_.tensors[at(t)].producer == stage; });
  }
  std::vector<Words>& states_of(std::uint64_t stream) {
    const std::vector<Words> initial(case_.states.size(), Words{0, 0});
    return streams_.try_emplace(stream, initial).first->second;
  }
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  const Case& case_;
  const Began began_;
  std::map<std::uint64_t, std::vector<Words>> streams_;  // The states of each.
  int wrong_saves_ = 0;
  std::int64_t parameter_ = 0;
  std::uint64_t version_ = 0;
  bool kept_out_ = false;  // A writer did not run for the frame, so it is not ok.
};

}  // namespace penstock::contract
