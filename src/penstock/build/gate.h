// Gate: nothing is chosen whose outputs are not the reference's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/measure/side.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"
#include "penstock/tensor/compare.h"

namespace penstock::build {

inline constexpr std::size_t kGateFrames = 4;

struct Verdict {
  double worst_ratio = 0;  ///< Of the tolerance; finite.
  std::string failure;     ///< One sentence; empty where it passes.
};

/// The outputs of the whole model, the file as it is, in ONNX Runtime without optimisation, for the
/// first frames of a ring. Where ONNX Runtime's own optimised run leaves the tolerance in an output
/// (some networks amplify rounding), that much is allowed to all there; where it has other integers
/// or other NaNs, only type and shape of that output are compared.
class Gate {
 public:
  struct Setting {
    const std::filesystem::path& model;
    const plan::Package& package;  ///< Gives the order of inputs and outputs.
    const measure::Ring& ring;
    const backend::Registry& backends;
    bool optimised;  ///< Whether the optimised run may be asked, too: it takes no process along.
    Tolerance tolerance;
  };
  static Result<Gate> create(const Setting& setting);

  /// Runs the gate's frames through the pipeline. \error a frame that failed.
  [[nodiscard]] Result<Verdict> judge(pipeline::Pipeline& pipeline) const;
  /// The most that is allowed in an output, as a multiple of the tolerance.
  [[nodiscard]] double factor() const { return *std::ranges::max_element(factors_); }
  /// The outputs of which only type and shape are compared.
  [[nodiscard]] std::vector<std::string> not_judged() const;

 private:
  std::vector<frames::Frame> inputs_;
  std::vector<std::vector<Tensor>> expected_;
  std::vector<std::string> names_;
  Tolerance tolerance_;
  std::vector<double> factors_;   ///< Of each output.
  std::vector<bool> not_judged_;  ///< Of each output.
};

}  // namespace penstock::build
