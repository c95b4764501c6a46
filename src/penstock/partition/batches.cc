// Parses texts such as 8, 8:2.5 and stage1=auto, and adds the models for 2, 4, 8... frames.
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

/// "stages/0.onnx" -> "stages/0.b2.onnx"
std::string batched_path(const std::string& model, int frames) {
  return concat(model.substr(0, model.rfind('.')), ".b", frames, ".onnx");
}

/// "8", "8:2.5"
std::optional<AskedBatch> read_given(std::string_view text) {
  constexpr double kLongestMs = 1e12;
  const auto colon = text.find(':');
  const bool waits = colon != text.npos;
  const auto frames = number_of<int>(text.substr(0, colon));
  const auto wait = waits ? number_of<double>(text.substr(colon + 1)) : 0;
  const bool right =
      frames && in_range(*frames) && wait && (!waits || (*wait >= 0.001 && *wait <= kLongestMs));
  if (!right) return std::nullopt;
  AskedBatch batch{.frames = *frames};
  batch.wait = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::duration<double, std::milli>(*wait));
  return batch;
}

/// What follows "auto": "", ":16"
std::optional<AskedBatch> read_measured(std::string_view text) {
  if (text.empty()) return AskedBatch{.frames = kMostMeasuredFrames, .measured = true};
  if (!text.starts_with(':')) return std::nullopt;
  const auto frames = number_of<int>(text.substr(1));
  if (!frames || !in_range(*frames) || *frames < 2) return std::nullopt;
  return AskedBatch{.frames = *frames, .measured = true};
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

AskedBatch asked_of(const Batches& batches, const std::string& stage) {
  auto given = batches.find(stage);
  if (given == batches.end()) given = batches.find("");
  return given == batches.end() ? AskedBatch() : given->second;
}

Result<std::pair<std::string, AskedBatch>> parse_batch(const std::string& text) {
  const auto equals = text.rfind('=');
  const bool named = equals != text.npos;
  const auto rest = std::string_view(text).substr(named ? equals + 1 : 0);
  const auto batch = rest.starts_with("auto") ? read_measured(rest.substr(4)) : read_given(rest);
  if (!batch || equals == 0) {
    return invalid_argument("batch '", text,
                            "': expected N, N:MILLISECONDS, auto, auto:N or STAGE=N, such as 8, "
                            "8:2.5, auto or stage1=8, N from 1 to ",
                            kMostFrames, ", from 2 after auto");
  }
  return std::pair(named ? text.substr(0, equals) : std::string(), *batch);
}

std::vector<int> frames_of_models(int most) {
  std::vector<int> frames;
  for (int count = 2; count < most; count *= 2) frames.push_back(count);
  if (most > 1) frames.push_back(most);
  return frames;
}

Status add_batches(const Batches& batches, plan::Plan& plan) {
  PENSTOCK_CHECK_OK(check_batches(batches, plan));
  for (auto& stage : plan.stages) {
    const auto asked = asked_of(batches, stage.name);
    stage.batch = {asked.frames, asked.wait};
    for (auto& partition : stage.partitions) {
      for (const int frames : frames_of_models(stage.batch.frames)) {
        partition.batched.push_back({frames, batched_path(partition.model, frames)});
      }
    }
  }
  return {};
}

}  // namespace penstock::partition
