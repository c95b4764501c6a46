// StreamOptions: how frames flow through a plan, as the user says it to every command.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "penstock/plan/plan.h"

namespace penstock::plan {

/// What is left out stays as the plan has it.
struct StreamOptions {
  std::optional<FullPolicy> input_policy;  ///< Of the edges that frames enter by.
  std::optional<int> capacity;             ///< Slots of every edge; `latest` has 1.
  std::optional<std::chrono::microseconds> max_age;
  std::optional<OnError> on_error;
  std::optional<std::chrono::microseconds> max_run;  ///< Of every stage: see Stage::max_run.
  std::optional<int> max_left_behind;                ///< Of every stage.
  std::optional<Streams> streams;
  std::optional<bool> pinned;  ///< Of every stage.

  friend bool operator==(const StreamOptions&, const StreamOptions&) = default;
};

/// Writes what is given into the plan.
void apply(const StreamOptions& stream, Plan& plan);

/// Options that are meant for all edges and that some edge of the plan does not follow, each in a
/// sentence that begins with the option's name. `plan`: to which apply() wrote the options.
std::vector<std::string> options_without_effect(const StreamOptions& stream, const Plan& plan);

/// Lets every frame be computed, for who judges or measures them: what is full holds the pusher
/// back, and no frame is too old. \returns whether that changed the plan.
bool keep_all_frames(Plan& plan);

}  // namespace penstock::plan
