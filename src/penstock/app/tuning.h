// What all steps of tuning an application share. Internal to app.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "penstock/app/app.h"
#include "penstock/app/placement.h"
#include "penstock/app/tune.h"
#include "penstock/backend/registry.h"
#include "penstock/cost/database.h"
#include "penstock/device/device.h"
#include "penstock/function/function.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/tune/build.h"

namespace penstock::app {

inline constexpr std::uint64_t kRing = 16;  ///< Frames that run again and again, at least.

/// Which application is tuned, with what, and how far the budget is spent. Refers to what its maker
/// keeps.
struct Tuning {
  const App& app;
  const tune::Options& options;
  const backend::Registry& backends;
  cost::Database& database;
  std::vector<device::Device> devices;             ///< Of this machine.
  const Elsewhere* elsewhere = nullptr;            ///< Null: networks run on `devices`.
  std::vector<function::Function> functions = {};  ///< Of the program, by name.

  /// The node that a stage is of.
  [[nodiscard]] const Node& node_of(const plan::Stage& stage) const;

  /// A pipeline of a plan, in which no frame is too late to be measured.
  [[nodiscard]] Result<std::unique_ptr<pipeline::Pipeline>> start(
      plan::Plan plan, const std::filesystem::path& folder) const;

  [[nodiscard]] double spent() const;
  [[nodiscard]] double race_seconds() const;  ///< For which the plans run beside each other.
  void say(const std::string& what) const;
  [[nodiscard]] bool latency() const { return options.goal == tune::Goal::kLatency; }
};

/// Whether the application says where the node stands, or how it is split.
bool is_fixed(const Node& node);

bool is_function(const plan::Stage& stage);

/// "cpu:0,cpu:1"
std::string devices_text(const std::vector<device::Device>& devices);

/// What Ctrl-C leaves before the plans were measured.
Error stopped_early();

}  // namespace penstock::app
