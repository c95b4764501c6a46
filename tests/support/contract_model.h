// The pipeline's contract over a case, without threads, queues or slots: what each frame may be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/contract_case.h"

namespace penstock::contract {

struct Failure {
  int stage = 0;
  Fault fault = Fault::kNone;  ///< kNone: two lists of items of different lengths.
};

/// A frame, where nothing from outside befalls it. It is ok with `outputs`, or ends as one of
/// `failures`: which, is up to the branches' race.
struct Expected {
  std::int64_t tag = 0;
  std::vector<Failure> failures;
  std::vector<Words> outputs;  ///< Empty where a stage failed, or was not called.
};

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
  using Tensors = std::vector<std::optional<Words>>;  // Of a frame; none: not computed.

  Expected frame(std::int64_t tag) {
    Expected result{tag, {}, {}};
    Tensors tensors(case_.tensors.size());
    auto& states = states_of(stream_of(case_, tag));
    for (int i = 0; i < case_.inputs(); ++i) tensors[at(i)] = input_of(case_, tag, i);
    for (int s = 0; s < std::ssize(case_.stages); ++s) stage(s, tensors, states, result);
    // A state advances with every frame that its writer computed, whatever became of it elsewhere.
    for (std::size_t i = 0; i < states.size(); ++i) {
      states[i] = tensors[at(case_.states[i])].value_or(states[i]);
    }
    if (std::ranges::all_of(tensors, &Tensors::value_type::has_value)) {
      for (const int output : case_.outputs) result.outputs.push_back(*tensors[at(output)]);
    }
    return result;
  }

  /// A stage runs for every frame for which those before it ran.
  void stage(int index, Tensors& tensors, const std::vector<Words>& before, Expected& result) {
    const auto& made = case_.stages[at(index)];
    std::vector<Words> inputs, states, outputs(at(made.writes));
    for (const int tensor : made.reads) {
      if (!tensors[at(tensor)]) return;
      inputs.push_back(*tensors[at(tensor)]);
    }
    for (const int state : made.states) states.push_back(before[at(state)]);
    const bool asks = began_ && case_.writes_state(index) && tag_of(inputs) > 0;
    if (asks && !began_(index, result.tag)) return;
    const auto lists = case_.lists_of(made);
    std::set<std::size_t> lengths;
    for (const auto list : lists) lengths.insert(inputs[list].size() / 2);
    if (lengths.size() > 1) return result.failures.push_back({index, Fault::kNone});
    for (std::size_t row = 0; row < (lists.empty() ? 1 : *lengths.begin()); ++row) {
      auto call = inputs;  // One item of each list, all else whole.
      for (const auto list : lists) call[list] = row_of(inputs[list], row);
      const auto [fault, computed] =
          answer(case_, index, call, states, made.parameter ? parameter_ : 0, version_);
      if (fault != Fault::kNone) return result.failures.push_back({index, fault});
      for (std::size_t o = 0; o < outputs.size(); ++o) append(computed[o], outputs[o]);
    }
    std::ranges::copy(outputs, tensors.begin() + case_.first_written(index));
  }

  std::vector<Words>& states_of(std::uint64_t stream) {
    const std::vector<Words> initial(case_.states.size(), Words{0, 0});
    return streams_.try_emplace(stream, initial).first->second;
  }

  const Case& case_;
  const Began began_;
  std::map<std::uint64_t, std::vector<Words>> streams_;  // The states of each.
  int wrong_saves_ = 0;
  std::int64_t parameter_ = 0;
  std::uint64_t version_ = 0;
};

}  // namespace penstock::contract
