// penstock build: from a model and devices to the pipeline that was measured to be the best.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cost/database.h"
#include "penstock/device/device.h"
#include "penstock/frames/random.h"
#include "penstock/graph/graph.h"
#include "penstock/graph/import.h"
#include "penstock/partition/batches.h"
#include "penstock/plan/plan.h"
#include "penstock/tune/report.h"

namespace penstock::tune {

enum class Goal { kThroughput, kLatency };

struct Options {
  std::filesystem::path output;         ///< The package: a folder, or a file ending in ".zip".
  graph::ImportOptions import;          ///< That the graph was imported with.
  std::vector<device::Device> devices;  ///< Empty: device::usual_devices().
  Goal goal = Goal::kThroughput;
  double budget_seconds = 60;    ///< From `begin` on; what must be done is done in any case.
  bool budget_is_share = false;  ///< Of what the user gave for an application.
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  bool refresh = false;  ///< Measures again what is known, but for comparisons with the reference.
  std::int64_t most_parts = INT64_MAX;  ///< Measured; whole networks and the simple ways besides.
  std::vector<std::string> backends;    ///< Those that may be chosen; empty: all there are.
  std::filesystem::path rules;          ///< A file of rules by backend name, instead of their own.
  std::map<std::string, std::map<std::string, std::string>> backend_options;  ///< By backend name.
  std::vector<std::filesystem::path> custom_ops;
  /// A call of a stage may take up to so many frames, where measuring says that this is faster; 1:
  /// each takes one.
  int most_frames = 1;
  std::optional<double> tolerance;  ///< Relative error allowed, and a hundredth of it of the
                                    ///< largest value; leave for lower precision.
  /// Outputs that are inputs of the next frame; `initial` is an .npy file anywhere, or empty. What
  /// writes one has one instance, and frames are measured and judged as a sequence.
  std::vector<plan::StateEdge> states;
  /// Of the package: what is measured is one stream. None: one.
  std::optional<plan::Streams> streams;
  /// What is measured and compared with, in the order of inputs_of(graph, states); empty: random
  /// ones.
  std::vector<frames::Frame> frames;
  std::vector<std::string> frame_names;  ///< Of each, what a person calls it; none: by its number.
  frames::RandomValues random;
  std::function<bool()> stopped = [] { return false; };
  /// What a person should know before the search, each in a sentence: the budget is less than what
  /// the build takes in any case; random frames decide what the network computes.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  /// What is being done, for a person, and the share of the budget that is spent.
  std::function<void(const std::string&, double)> progress = [](const std::string&, double) {};
  /// All that remains is to write the package, however long that takes.
  std::function<void()> on_write = [] {};
};

/// Options::most_frames, as users say it: of all stages, whose names nobody knows before, and
/// without a wait. None: 1. \error kInvalidArgument
Result<int> to_most_frames(const partition::Batches& batches);

/// Builds, writes the package and says why it is so.
///
/// The graph is the clean import of `graph.import.file`; the simple ways run that file as it is,
/// and the package holds a plan of that where it is the fastest.
/// \error as plan::check_target() for `output`, before anything is measured
/// \error kFailedPrecondition  no backend can run the network: names each with its reason.
/// \error kInvalidArgument  several frames in one call for latency, or of a network with states,
///                          whose frames come one after the other
/// \error kNotFound, kInvalidArgument  the file of rules: the place of what is wrong.
/// \error kInvalidArgument  as frames::check_frames()
/// \error kNotFound, kInvalidArgument  as plan::add_state() and plan::initial_value()
/// \error kCancelled           stopped before anything was measured; nothing is written.
/// \error kResourceExhausted  the system has no thread for it.
/// \error as partition::split() and Database
/// \threads  measures on a thread of its own; the caller's is never pinned.
Result<Report> build_model(const graph::Graph& graph, const Options& options,
                           const backend::Registry& backends, cost::Database& database);

}  // namespace penstock::tune
