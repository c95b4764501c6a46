// How many frames a call of a stage takes, where measurement is to say.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/partition/split.h"

namespace penstock {

/// Calls of several frames beside calls of one.
struct BatchTrial {
  int frames = 2;
  double gain = 0;           ///< Frames a second, of those one by one: the median of the rounds.
  double low = 0, high = 0;  ///< 95 % confidence interval of that median.
};

/// What became of a stage that asked for a batch by measurement.
struct BatchChoice {
  std::string stage;
  int frames = 1;                  ///< 1: none was clearly faster, or could be had.
  std::vector<BatchTrial> trials;  ///< By frames, ascending.
  std::string note;  ///< Why there are no trials, or fewer: "node 's': Softmax cannot ...".
};

/// Of the trials of fewer frames than that, the choice becomes the one that gains the most: of
/// those that gain 3 % or more, and whose interval is all gain. One frame where there is none.
void choose_below(int frames, BatchChoice& choice);

/// How long choosing may take.
struct ChoiceLimits {
  double silence_seconds = 600;  ///< Compiling, or one run, for longer is a hang.
  std::function<bool()> stopped = [] { return false; };  ///< Asked before each call is timed.
};

/// Measures the stages that ask for it, and makes the batches of `options` numbers: for 2, 4, 8,
/// ... frames and the most that is allowed, the stage's models one after the other on its first
/// device, its other instances not there, in rounds in which all take their turns. Then
/// choose_below() says how many.
/// \error as partition::split(), check_batches() where no engine is here, and cost::Profiler;
///        kCancelled where it was stopped
Result<std::vector<BatchChoice>> choose_batches(const graph::Graph& graph,
                                                partition::SplitOptions& options,
                                                const backend::Registry& backends,
                                                const ChoiceLimits& limits = {});

/// About what choose_batches() takes of a stage, if a frame takes so long, and compiling a model.
double seconds_of_choosing(double frame_seconds, double compile_seconds, int most_frames);

}  // namespace penstock
