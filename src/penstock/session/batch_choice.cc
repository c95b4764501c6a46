// Times each batch size in seven rounds, in alternating order, and takes the best median gain.
#include "penstock/session/batch_choice.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "penstock/backend/request.h"
#include "penstock/base/files.h"
#include "penstock/base/words.h"
#include "penstock/cost/profiler.h"
#include "penstock/cost/statistics.h"
#include "penstock/session/batch_check.h"
#include "penstock/tensor/npy.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 7;  ///< Of fewer than six no interval of 95 % can be told.
constexpr double kLeastGain = 1.03;
constexpr double kSecondsPerTurn = 0.2;  ///< Of timing; compiling comes on top.

class BatchChooser {
 public:
  BatchChooser(const graph::Graph& graph, partition::SplitOptions& options,
               const backend::Registry& backends, const ChoiceLimits& limits)
      : graph_(graph), options_(options), backends_(backends), limits_(limits) {}

  Result<std::vector<BatchChoice>> run() {
    PENSTOCK_TRY(auto without, partition::stages_without_batch(graph_, options_));
    PENSTOCK_TRY(folder_, make_temporary_folder());
    PENSTOCK_TRY(auto plan, write_models(without));
    PENSTOCK_CHECK_OK(leave_out_wrong(plan, without));
    cost::Profiler::Options settings;
    settings.seconds_per_part = kSecondsPerTurn;
    settings.silence_seconds = limits_.silence_seconds;
    PENSTOCK_TRY(profiler_, cost::Profiler::start(backends_, nullptr, settings));
    std::vector<BatchChoice> choices;
    for (const auto& stage : plan.stages) {
      const auto asked = partition::asked_of(options_.batches, stage.name);
      if (!asked.measured) continue;
      BatchChoice choice{.stage = stage.name, .frames = 1, .trials = {}, .note = {}};
      if (const auto why = without.find(stage.name); why != without.end()) {
        choice.note = why->second.message();
      } else {
        PENSTOCK_CHECK_OK(measure(plan, stage, choice));
        choose_below(partition::kMostFrames + 1, choice);
      }
      choices.push_back(std::move(choice));
    }
    settle(plan, choices);
    return choices;
  }

 private:
  [[nodiscard]] fs::path package() const { return *folder_ / "package"; }

  /// A package with the models of all sizes of the stages to measure, and of no others.
  Result<plan::Plan> write_models(const std::map<std::string, Error>& without) {
    PENSTOCK_TRY(const auto stages, partition::assign_stages(graph_, options_));
    PENSTOCK_TRY(const auto plan, partition::make_plan(graph_, stages, options_));
    auto split = options_;
    split.batches.clear();
    for (const auto& stage : plan.stages) {
      const auto asked = partition::asked_of(options_.batches, stage.name);
      if (asked.measured && !without.contains(stage.name)) split.batches[stage.name] = asked;
    }
    return partition::split(graph_, split, package(), {});
  }

  /// A stage whose models of several frames compute something else keeps one frame.
  Status leave_out_wrong(plan::Plan& plan, std::map<std::string, Error>& without) {
    for (;;) {
      auto checked = check_batches(plan, package(), backends_, options_.frames);
      if (checked) {
        if (options_.frames != nullptr) values_ = *std::move(checked);
        return {};
      }
      const auto* where = checked.error().find(Where::kStage);
      if (checked.error().code != Code::kFailedPrecondition || where == nullptr) {
        return checked.error();
      }
      const auto name = where->name;
      const auto stage = std::ranges::find(plan.stages, name, &plan::Stage::name);
      if (stage == plan.stages.end() || !without.emplace(name, checked.error()).second) {
        return checked.error();
      }
      stage->batch = {};
      for (auto& partition : stage->partitions) partition.batched.clear();
    }
  }

  /// What an open size is likely to be, for so many frames: else calls of all numbers of frames
  /// would be timed on as many rows.
  static void bind_open(const plan::Plan& plan, const std::string& input, int frames,
                        cost::Part& part) {
    const auto* info = plan.find_tensor(input);
    if (info == nullptr || info->type.fixed() || info->type.dims.empty()) return;
    auto& shape = part.shapes[input];
    shape.clear();
    for (const auto& dim : info->type.dims) shape.push_back(dim.likely());
    shape.front() *= frames;
  }

  /// The values that the input has in frames that were given, in a file. \returns whether it has
  /// any
  Result<bool> bind_values(const std::string& input, int frames, cost::Part& part) const {
    const auto known = values_.find(input);
    if (known == values_.end()) return false;
    if (part.values.contains(input)) return true;
    const auto joined = join_frames(known->second, frames);
    const auto file = *folder_ / concat("values", part.values.size(), ".b", frames, ".npy");
    PENSTOCK_CHECK_OK(write_npy(joined, file));
    part.values[input] = file;
    part.shapes[input] = joined.dims();
    return true;
  }

  /// The stage's models of so many frames, as its first instance runs them.
  Result<cost::Part> part_of(const plan::Plan& plan, const plan::Stage& stage, int frames) const {
    cost::Part part;
    for (const auto& partition : stage.partitions) {
      backend::CompileRequest asked;
      asked.options = partition.options;
      PENSTOCK_TRY(asked, backend::with_precision(std::move(asked)));
      const auto wide = std::ranges::find(partition.batched, frames, &plan::BatchedModel::frames);
      const auto& file = wide == partition.batched.end() ? partition.model : wide->model;
      cost::PartModel model;
      model.name = concat("stage '", stage.name, "'");
      model.file = package() / file;
      model.backend = partition.backend;
      model.precision = asked.precision;
      model.options = std::move(asked.options);
      part.models.push_back(std::move(model));
      for (const auto& input : partition.inputs) {
        PENSTOCK_TRY(const bool given, bind_values(input, frames, part));
        if (!given) bind_open(plan, input, frames, part);
      }
    }
    part.device = stage.devices.front();
    part.threads = std::max(1, static_cast<int>(part.device.cpus.size()));
    part.flush_denormals = stage.flush_denormals;
    for (const auto& library : plan.custom_ops) part.custom_ops.push_back(package() / library);
    return part;
  }

  Status measure(const plan::Plan& plan, const plan::Stage& stage, BatchChoice& choice) {
    if (stage.devices.front().is_remote()) {
      choice.note = concat("device ", device::to_string(stage.devices.front()),
                           " is of another machine, and calls are measured on this one only; "
                           "'split' takes a number that is not measured");
      return {};
    }
    std::map<int, cost::Part> parts;
    PENSTOCK_TRY(parts[1], part_of(plan, stage, 1));
    for (const auto& batched : stage.partitions.front().batched) {
      PENSTOCK_TRY(parts[batched.frames], part_of(plan, stage, batched.frames));
    }
    auto measured = measure_rounds(parts, choice);
    for (const auto& [frames, part] : parts) remove_values(part);
    return measured;
  }

  /// What only the timing of the part reads, and may be large.
  static void remove_values(const cost::Part& part) {
    std::error_code ignored;  // Else it goes with the folder.
    for (const auto& [input, file] : part.values) fs::remove(file, ignored);
  }

  Status measure_rounds(std::map<int, cost::Part>& parts, BatchChoice& choice) {
    std::map<int, std::vector<double>> gains;
    for (int round = 0; round < kRounds; ++round) {
      PENSTOCK_TRY(const auto seconds, measure_round(parts, round, choice.note));
      if (!seconds.contains(1)) return {};
      for (const auto& [frames, taken] : seconds) {
        if (frames > 1) gains[frames].push_back(seconds.at(1) * frames / taken);
      }
    }
    for (const auto& [frames, rounds] : gains) {
      if (!parts.contains(frames)) continue;
      const auto median = cost::median_of(rounds);
      choice.trials.push_back({frames, median.value, median.low, median.high});
    }
    return {};
  }

  /// Seconds of a call of each size; those that fail are taken out. Every other round begins with
  /// the largest, so that a machine that gets slower or faster favours none.
  Result<std::map<int, double>> measure_round(std::map<int, cost::Part>& parts, int round,
                                              std::string& note) {
    std::vector<int> sizes;
    sizes.reserve(parts.size());
    for (const auto& [frames, part] : parts) sizes.push_back(frames);
    if (round % 2 != 0) std::ranges::reverse(sizes);
    std::map<int, double> seconds;
    for (const int frames : sizes) {
      if (limits_.stopped()) return make_error(Code::kCancelled, "stopped");
      PENSTOCK_TRY(const auto cost, profiler_->measure_again(parts.at(frames)));
      if (cost && !cost->failure) {
        seconds[frames] = cost->seconds;
        continue;
      }
      note = concat("calls of ", counted(frames, "frame"), ": ",
                    cost ? cost->failure->message : "not measured");
      remove_values(parts.at(frames));
      parts.erase(frames);
    }
    return seconds;
  }

  /// Each stage by its name: what stands for all others may ask for measurements.
  void settle(const plan::Plan& plan, const std::vector<BatchChoice>& choices) {
    partition::Batches settled;
    for (const auto& stage : plan.stages) {
      settled[stage.name] = partition::asked_of(options_.batches, stage.name);
    }
    for (const auto& choice : choices) {
      settled[choice.stage] = {.frames = choice.frames};
    }
    options_.batches = std::move(settled);
  }

  const graph::Graph& graph_;
  partition::SplitOptions& options_;
  const backend::Registry& backends_;
  const ChoiceLimits& limits_;
  std::shared_ptr<const fs::path> folder_;
  FrameValues values_;  ///< Of the frames that were given.
  std::unique_ptr<cost::Profiler> profiler_;
};

}  // namespace

void choose_below(int frames, BatchChoice& choice) {
  double best = 0;
  choice.frames = 1;
  for (const auto& trial : choice.trials) {
    const bool gains = trial.gain >= kLeastGain && trial.low > 1;
    if (trial.frames >= frames || !gains || trial.gain <= best) continue;
    best = trial.gain;
    choice.frames = trial.frames;
  }
}

double seconds_of_choosing(double frame_seconds, double compile_seconds, int most_frames) {
  const auto seconds_of = [&](int frames) {
    return compile_seconds + std::max(kSecondsPerTurn, frames * frame_seconds);
  };
  double round = seconds_of(1);
  for (const int frames : partition::frames_of_models(most_frames)) round += seconds_of(frames);
  return kRounds * round;
}

Result<std::vector<BatchChoice>> choose_batches(const graph::Graph& graph,
                                                partition::SplitOptions& options,
                                                const backend::Registry& backends,
                                                const ChoiceLimits& limits) {
  const bool any =
      std::ranges::any_of(options.batches, [](const auto& asked) { return asked.second.measured; });
  if (!any) return std::vector<BatchChoice>();
  return BatchChooser(graph, options, backends, limits).run();
}

}  // namespace penstock
