#include "penstock/partition/batches.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

namespace penstock::partition {
namespace {

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const char* begin = text.data();  // NOLINT(*stringview-data-usage): its end is given too.
  const char* end = begin + text.size();
  const auto [stop, problem] = std::from_chars(begin, end, number);
  if (problem != std::errc() || stop != end) return std::nullopt;
  return number;
}

bool in_range(int frames) {
  return frames >= 1 && frames <= kMostFrames;
}

/// 2, 4, 8, ... and the most.
std::vector<int> frames_of_models(int most) {
  std::vector<int> frames;
  for (int count = 2; count < most; count *= 2) frames.push_back(count);
  if (most > 1) frames.push_back(most);
  return frames;
}

/// "stages/0.onnx" -> "stages/0.b2.onnx"
std::string batched_path(const std::string& model, int frames) {
  return concat(model.substr(0, model.rfind('.')), ".b", frames, ".onnx");
}

Status check_batches(const Batches& batches, const plan::Plan& plan) {
  for (const auto& [name, batch] : batches) {
    if (!in_range(batch.frames)) {
      return invalid_argument("batch: expected 1 to ", kMostFrames, " frames, found ",
                              batch.frames);
    }
    const bool known = std::ranges::count(plan.stages, name, &plan::Stage::name) > 0;
    if (name.empty() || known) continue;
    return not_found("batch: no stage '", name, "'; the stages are ",
                     join(plan.stages, ", ", [](const plan::Stage& stage) { return stage.name; }));
  }
  return {};
}

}  // namespace

Result<std::pair<std::string, plan::Batch>> parse_batch(const std::string& text) {
  constexpr double kLongestMs = 1e12;
  const auto equals = text.rfind('=');
  const bool named = equals != text.npos;
  const auto rest = std::string_view(text).substr(named ? equals + 1 : 0);
  const auto colon = rest.find(':');
  const bool waits = colon != rest.npos;
  const auto frames = number_of<int>(rest.substr(0, colon));
  const auto wait = waits ? number_of<double>(rest.substr(colon + 1)) : 0;
  const bool right = equals != 0 && frames && in_range(*frames) && wait &&
                     (!waits || (*wait >= 0.001 && *wait <= kLongestMs));
  if (!right) {
    return invalid_argument("batch '", text,
                            "': expected N, N:MILLISECONDS or STAGE=N, such as 8, 8:2.5 or "
                            "stage1=8, N from 1 to ",
                            kMostFrames);
  }
  plan::Batch batch{.frames = *frames};
  batch.wait = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::duration<double, std::milli>(*wait));
  return std::pair(named ? text.substr(0, equals) : std::string(), batch);
}

Status add_batches(const Batches& batches, plan::Plan& plan) {
  PENSTOCK_CHECK_OK(check_batches(batches, plan));
  for (auto& stage : plan.stages) {
    auto given = batches.find(stage.name);
    if (given == batches.end()) given = batches.find("");
    if (given == batches.end()) continue;
    stage.batch = given->second;
    for (auto& partition : stage.partitions) {
      for (const int frames : frames_of_models(stage.batch.frames)) {
        partition.batched.push_back({frames, batched_path(partition.model, frames)});
      }
    }
  }
  return {};
}

}  // namespace penstock::partition
