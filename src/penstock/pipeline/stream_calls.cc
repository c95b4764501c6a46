// Resets, ends, saves and restores streams between two frames.
#include <algorithm>

#include "penstock/base/option_name.h"
#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/ports.h"

namespace penstock::pipeline {

FrameNumber State::steps(Streams::Seat seat) const {
  return streams->many() ? streams->steps(seat) : source.done();
}

FrameNumber State::not_popped(Streams::Seat seat) const {
  return streams->many() ? streams->in_flight(seat) : source.done() - totals->all();
}

Status State::reset_states(Streams::Seat seat, FrameNumber step) {
  for (auto& edge : states) PENSTOCK_CHECK_OK(edge->reset(seat, step));
  return {};
}

namespace {

// Every stage is done with the stream's frames, which also makes visible what they wrote.
Status check_idle(const State& state, std::uint64_t stream, Streams::Seat seat, OptionName what) {
  const FrameNumber frames = state.not_popped(seat);
  if (frames == 0) return {};
  return make_error(Code::kFailedPrecondition, "expected no frames in flight, found ", frames,
                    "; pop them first")
      .within({Where::kStream, stream})
      .within(std::string(name_of(what)));
}

Error placed(Error error, std::uint64_t stream, OptionName what) {
  return std::move(error).within({Where::kStream, stream}).within(std::string(name_of(what)));
}

std::string state_names(const State& state) {
  return join(state.states, ", ", [](const auto& edge) { return "'" + edge->to + "'"; });
}

// A value for each state, in their order.
Result<std::vector<const Tensor*>> match_states(const State& state, const Named& values) {
  std::vector<const Tensor*> ordered(state.states.size());
  for (const auto& [name, value] : values) {
    const auto found =
        std::ranges::find(state.states, name, [](const auto& edge) { return edge->to; });
    if (found == state.states.end()) {
      return invalid_argument("no state '", name, "'; ",
                              state.states.empty() ? "there are none" : "the states are ",
                              state_names(state));
    }
    auto& place = ordered[static_cast<std::size_t>(found - state.states.begin())];
    if (place != nullptr) return invalid_argument("state '", name, "' is given twice");
    if (Status fits = check_given(state.plan.find_tensor(name)->type, value); !fits)
      return std::move(fits).error().within(concat("state '", name, "'"));
    place = &value;
  }
  for (std::size_t s = 0; s < ordered.size(); ++s) {
    if (ordered[s] != nullptr) continue;
    return invalid_argument("state '", state.states[s]->to, "' is missing; the states are ",
                            state_names(state));
  }
  return ordered;
}

}  // namespace

Status Pipeline::reset_states() {
  return guarded([&]() -> Status {
    PENSTOCK_CHECK_OK(generations_->take_turn_between_frames("reset_states"));
    const TurnGuard guard(&generations_->turns->pusher);
    State& state = *generations_->pushing;
    if (state.ending.closed()) return state.ending.error();
    const FrameNumber next = state.source.done();
    const FrameNumber popped = state.totals->all();
    const bool done = std::ranges::all_of(
        state.stages, [&](const auto& stage) { return stage->progress.done() == next; });
    if (popped != next || !done) {
      return make_error(Code::kFailedPrecondition,
                        "reset_states: expected no frames in flight, found ", next - popped,
                        "; pop them first");
    }
    for (const auto seat : state.streams->seats()) {
      Status reset = state.reset_states(seat, state.steps(seat));
      if (!reset) return std::move(reset).error().within("reset_states");
    }
    return {};
  });
}

Status Pipeline::reset_stream(std::uint64_t stream) {
  return guarded([&]() -> Status {
    PENSTOCK_CHECK_OK(generations_->take_turn_between_frames(name_of(OptionName::kResetStream)));
    const TurnGuard guard(&generations_->turns->pusher);
    State& state = *generations_->pushing;
    if (state.ending.closed()) return state.ending.error();
    const auto seat = state.streams->find(stream);
    if (!seat) return {};
    PENSTOCK_CHECK_OK(check_idle(state, stream, *seat, OptionName::kResetStream));
    Status reset = state.reset_states(*seat, state.steps(*seat));
    if (!reset) return placed(std::move(reset).error(), stream, OptionName::kResetStream);
    return {};
  });
}

Status Pipeline::end_stream(std::uint64_t stream) {
  return guarded([&]() -> Status {
    PENSTOCK_CHECK_OK(generations_->take_turn_between_frames(name_of(OptionName::kEndStream)));
    const TurnGuard guard(&generations_->turns->pusher);
    State& state = *generations_->pushing;
    const auto seat = state.streams->find(stream);
    if (!seat) return {};
    PENSTOCK_CHECK_OK(check_idle(state, stream, *seat, OptionName::kEndStream));
    if (stream != 0) {
      state.streams->end(stream);
      return {};
    }
    Status reset = state.reset_states(*seat, state.steps(*seat));
    if (!reset) return placed(std::move(reset).error(), stream, OptionName::kEndStream);
    return {};
  });
}

Result<Named> Pipeline::save_stream(std::uint64_t stream) {
  return guarded([&]() -> Result<Named> {
    PENSTOCK_CHECK_OK(generations_->take_turn_between_frames(name_of(OptionName::kSaveStream)));
    const TurnGuard guard(&generations_->turns->pusher);
    State& state = *generations_->pushing;
    const auto seat = state.streams->find(stream);
    if (!seat) {
      return make_error(Code::kNotFound,
                        "it is not known: it had no frame yet, has ended or was evicted")
          .within({Where::kStream, stream})
          .within(std::string(name_of(OptionName::kSaveStream)));
    }
    PENSTOCK_CHECK_OK(check_idle(state, stream, *seat, OptionName::kSaveStream));
    Named saved;
    for (const auto& edge : state.states) {
      auto value = edge->saved(*seat, state.steps(*seat));
      if (!value) return placed(std::move(value).error(), stream, OptionName::kSaveStream);
      saved.emplace_back(edge->to, *std::move(value));
    }
    return saved;
  });
}

Status Pipeline::restore_stream(std::uint64_t stream, const Named& states) {
  return guarded([&]() -> Status {
    PENSTOCK_CHECK_OK(generations_->take_turn_between_frames(name_of(OptionName::kRestoreStream)));
    const TurnGuard guard(&generations_->turns->pusher);
    State& state = *generations_->pushing;
    if (state.ending.closed()) return state.ending.error();
    auto values = match_states(state, states);
    if (!values)
      return std::move(values)
          .error()
          .within({Where::kStream, stream})
          .within(std::string(name_of(OptionName::kRestoreStream)));
    const auto set_all = [&](Streams::Seat seat, FrameNumber step) -> Status {
      for (std::size_t s = 0; s < state.states.size(); ++s) {
        PENSTOCK_CHECK_OK(state.states[s]->set(seat, step, *(*values)[s]));
      }
      return {};
    };
    const bool known = state.streams->find(stream).has_value();
    // One that gets a seat with it: where a value cannot be set, it keeps none of another stream's.
    const auto seat = state.streams->admit(stream, set_all);
    if (!seat) return placed(seat.error(), stream, OptionName::kRestoreStream);
    if (!known) return {};
    PENSTOCK_CHECK_OK(check_idle(state, stream, *seat, OptionName::kRestoreStream));
    Status set = set_all(*seat, state.steps(*seat));
    if (!set) return placed(std::move(set).error(), stream, OptionName::kRestoreStream);
    state.streams->use(*seat);
    return {};
  });
}

}  // namespace penstock::pipeline
