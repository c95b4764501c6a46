// Sets parameters of stages: all of them take the values from one frame on, or none does.
#include <algorithm>

#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/pipeline/ports.h"

namespace penstock::pipeline {
namespace {

/// A value for the `position`-th parameter of a stage.
struct Replacement {
  Stage* stage = nullptr;
  std::size_t position = 0;
  const Tensor* value = nullptr;
  std::vector<Tensor> elsewhere;  // The value in each of Stage::own_memories.
};

Error no_such_parameter(const State& state, std::string_view stage, const std::string& name) {
  const std::string where =
      stage.empty() ? "no stage has a" : concat("stage '", stage, "' does not exist or has no");
  return not_found("set_parameters: ", where, " parameter '", name, "'; the parameters are ",
                   join(state.plan.parameters, ", ",
                        [](const plan::Parameter& p) { return "'" + p.name + "'"; }));
}

Result<std::vector<Replacement>> find_replacements(const State& state, std::string_view stage_name,
                                                   const Named& values) {
  std::vector<Replacement> found;
  for (const auto& [name, tensor] : values) {
    const auto before = found.size();
    for (const auto& stage : state.stages) {
      const auto& names = stage->plan->parameters;
      const auto at = std::ranges::find(names, name);
      if ((!stage_name.empty() && stage->plan->name != stage_name) || at == names.end()) continue;
      found.push_back({stage.get(), static_cast<std::size_t>(at - names.begin()), &tensor, {}});
    }
    if (found.size() == before) return no_such_parameter(state, stage_name, name);
    const auto info = std::ranges::find(state.plan.parameters, name, &plan::Parameter::name);
    if (Status fits = check_given(info->type, tensor); !fits) {
      return std::move(fits).error().within(concat("set_parameters: '", name, "'"));
    }
  }
  return found;
}

// Before pushers wait: a copy to a device takes its time.
Status copy_elsewhere(std::vector<Replacement>& replacements) {
  for (auto& replacement : replacements) {
    for (const auto& memory : replacement.stage->own_memories) {
      auto copy = copied_to(memory.get(), *replacement.value);
      if (!copy) {
        const auto& stage = *replacement.stage->plan;
        return std::move(copy)
            .error()
            .within(concat("set_parameters: '", stage.parameters[replacement.position], "'"))
            .within({Where::kStage, stage.name});
      }
      replacement.elsewhere.push_back(*std::move(copy));
    }
  }
  return {};
}

// A version with the stage's replacements, which no frame reads until publish_versions().
void append_version(const State& state, Stage& stage,
                    const std::vector<Replacement>& replacements) {
  const auto& newest = *stage.versions.back();
  auto version = std::make_shared<ParameterVersion>(ParameterVersion{
      newest.number + 1, state.source.done(), newest.values, newest.given, newest.elsewhere});
  for (const auto& replacement : replacements) {
    if (replacement.stage != &stage) continue;
    version->values[replacement.position] = replacement.value->clone();
    version->given[replacement.position] = true;
    for (std::size_t m = 0; m < replacement.elsewhere.size(); ++m) {
      version->elsewhere[m][replacement.position] = replacement.elsewhere[m];
    }
  }
  const std::scoped_lock lock(stage.parameter_mutex);
  stage.versions.push_back(std::move(version));
}

// All stages take what was appended, and forget what no frame reads any more; nothing can fail.
void publish_versions(State& state) {
  for (auto& stage : state.stages) {
    const std::scoped_lock lock(stage->parameter_mutex);
    if (stage->versions.empty()) continue;
    stage->newest_version.store(stage->versions.back()->number, std::memory_order_release);
    FrameNumber done = stage->progress.done();  // Before it no frame is computed, or made again.
    for (const Stage* asker : stage->askers) done = std::min(done, asker->progress.done());
    while (stage->versions.size() > 1 && stage->versions[1]->first_frame <= done)
      stage->versions.pop_front();
  }
}

// Forgets what was appended and not published.
void drop_versions(State& state) {
  for (auto& stage : state.stages) {
    const std::scoped_lock lock(stage->parameter_mutex);
    const auto published = stage->newest_version.load();
    if (!stage->versions.empty() && stage->versions.back()->number > published)
      stage->versions.pop_back();
  }
}

}  // namespace

Status Pipeline::set_parameters(std::string_view stage_name, const Named& values) {
  return guarded([&]() -> Status {
    if (values.empty()) return invalid_argument("set_parameters: no values are given");
    for (;;) {
      const auto newest = generations_->newest();
      State& state = *newest;
      PENSTOCK_TRY(auto replacements, find_replacements(state, stage_name, values));
      PENSTOCK_CHECK_OK(copy_elsewhere(replacements));
      // Nothing is pushed meanwhile, so that "from the next frame on" means the same for all
      // stages.
      const std::scoped_lock commits(state.ending.commit);
      if (state.ending.replaced()) continue;  // Another one takes the next frame.
      Status appended = guarded([&]() -> Status {
        for (auto& stage : state.stages) {
          const auto concerns = [&](const Replacement& r) { return r.stage == stage.get(); };
          if (std::ranges::any_of(replacements, concerns))
            append_version(state, *stage, replacements);
        }
        return {};
      });
      appended ? publish_versions(state) : drop_versions(state);
      return appended;
    }
  });
}

}  // namespace penstock::pipeline
