// Samples: what a pipeline did since the last look, as JSON for those who look.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "penstock/metrics/process.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/watch/cpus.h"

namespace penstock::watch {

using Json = nlohmann::ordered_json;

/// One look.
struct Sample {
  std::uint64_t number = 0;  ///< From 1 on.
  Json json;                 ///< docs/observing.md lists its fields.
  std::vector<Json> failures;
  std::uint64_t missed = 0;  ///< Frames that failed and are not among `failures`.
  bool renewed = false;      ///< Another plan runs than at the look before: about() has changed.
};

/// \threads  one at a time.
class Sampler {
 public:
  /// `report`: the build.json of what runs now; empty: none. A later plan's lies in its folder.
  Sampler(std::shared_ptr<const pipeline::Pipeline> pipeline, const std::string& report);

  /// What is looked at: names, places, bounds, predictions.
  [[nodiscard]] const Json& about() const { return about_; }
  Sample take();

 private:
  using Clock = std::chrono::steady_clock;
  struct Look {
    Clock::time_point at;
    std::shared_ptr<const plan::Plan> plan;
    std::filesystem::path folder;
    pipeline::Stats stats;
    pipeline::Observation seen;
    metrics::Process process;
  };
  [[nodiscard]] Look look() const;
  void describe(const Look& now, Json report);
  void look_for_another_plan(const Look& now);
  [[nodiscard]] Json frames_json(const Look& now, double seconds) const;
  void add_failures(const Look& now, Sample& sample) const;

  const std::shared_ptr<const pipeline::Pipeline> pipeline_;
  const Clock::time_point begin_ = Clock::now();
  CpuLoads cpus_;
  Json about_;
  plan::Plan plan_;  // That about_ describes.
  Look last_;
  int generation_ = 1;  // Of the last sample.
  std::uint64_t number_ = 0;
};

/// On one line. Names that are not UTF-8 are shown with replacement characters.
std::string text_of(const Json& json);

}  // namespace penstock::watch
