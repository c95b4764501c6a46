// Stage: a model that a caller opened here, as a pipeline of one stage.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/device/device.h"
#include "penstock/plan/package.h"
#include "penstock/serve/running_model.h"

namespace penstock::host {

/// For the calls of a stage that is closed: what hangs for longer is left behind.
inline constexpr auto kPatienceWithCalls = std::chrono::seconds(5);

/// What a caller wants of a stage.
struct StageOrder {
  std::string name;                                     ///< For messages: "stage 'head'".
  std::shared_ptr<const std::filesystem::path> folder;  ///< Where the paths below begin.
  std::string model;
  std::vector<std::string> custom_ops;
  std::string backend;
  std::vector<device::Device> devices;  ///< An instance on each. Of this machine.
  int lanes = 0;                        ///< As plan::Stage::lanes.
  std::map<std::string, std::string> options;
  bool flush_denormals = false;
  bool pinned = true;
  std::chrono::microseconds max_run{0};        ///< 0: none.
  std::map<std::string, std::int64_t> bounds;  ///< Of open dimensions of inputs, by symbol.
};

/// The plan of one stage that runs the order's model.
/// \error kInvalidArgument  no device; external data that lies elsewhere. kDataLoss  no ONNX model.
Result<plan::Package> pack_stage(const StageOrder& order);

/// What a stage is to its callers.
struct StageFacts {
  std::string name;
  std::vector<plan::TensorInfo> inputs, outputs;
};

/// \threads  all functions may be called from any thread, but for the end: not from a `done`.
class Stage {
 public:
  /// Compiles it. Takes as long as that takes.
  /// \error as pack_stage() and serve::RunningModel::start(), but kInvalidArgument where a file
  /// that the caller sent is corrupt or missing; kNotFound  no such backend; kUnimplemented  the
  /// backend does not run on that device; kPermissionDenied  native code.
  static Result<std::shared_ptr<Stage>> open(const StageOrder& order, serve::Shared& shared,
                                             bool native_code);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  [[nodiscard]] const std::shared_ptr<const StageFacts>& facts() const { return facts_; }
  [[nodiscard]] int recommended_calls() const;
  [[nodiscard]] std::uint64_t memory_bytes() const;  ///< 0: no bound is known.

  /// As serve::RunningModel::infer(). \pre  not closed
  std::shared_ptr<serve::Call> infer(serve::Request request, serve::RunningModel::Done done);

  /// No new calls: those in progress end as cancelled; what hangs is left behind after `patience`.
  void close(std::chrono::nanoseconds patience);

 private:
  Stage() = default;
  std::shared_ptr<const StageFacts> facts_;
  std::unique_ptr<serve::RunningModel> model_;
};

}  // namespace penstock::host
