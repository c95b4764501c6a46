// Several frames in one call of a stage: what is asked for, in words and in a plan.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"

namespace penstock::partition {

/// Of a batch, at most: each stage keeps a model for it.
inline constexpr int kMostFrames = 1024;

/// Of a batch that is chosen by measurement, where no number is given.
inline constexpr int kMostMeasuredFrames = 8;

/// What is asked of a stage.
struct AskedBatch {
  int frames = 1;                     ///< In one call, at most.
  std::chrono::microseconds wait{0};  ///< That the first frame waits for more, at most.
  bool measured = false;              ///< Measuring says how many, up to `frames`.
  bool operator==(const AskedBatch&) const = default;
};

/// The batch of the stage of that name; of all that are not named, where it is empty.
using Batches = std::map<std::string, AskedBatch>;

/// What is asked of the stage of that name.
AskedBatch asked_of(const Batches& batches, const std::string& stage);

/// "8", "8:2.5" (the first frame waits 2.5 ms for more), "auto" (by measurement, up to 8),
/// "auto:16", "stage1=8:2.5". \error kInvalidArgument
Result<std::pair<std::string, AskedBatch>> parse_batch(const std::string& text);

/// Beside that of one frame: 2, 4, 8, ... and the most.
std::vector<int> frames_of_models(int most);

/// Gives the stages their batches and the names of the models for 2, 4, 8, ... and the most frames:
/// "stages/0.b2.onnx". \error kNotFound  no stage of that name. kInvalidArgument  of other frames.
Status add_batches(const Batches& batches, plan::Plan& plan);

}  // namespace penstock::partition
