// What verify() compares a package with: its model, or its own stages where there is none.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/measure/reference.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"
#include "penstock/session/verify.h"

namespace penstock {

/// Makes references of one package. What it is made of outlives it, and it what it makes.
class References {
 public:
  /// `whole`: the model with its bound inputs constant; empty: the stages are the reference.
  /// `why`: the pipeline's own calls in turn are, as no single model computes what it does; empty:
  /// one does. `settings`: of that pipeline.
  References(const VerifyOptions& options, std::filesystem::path whole, std::string why,
             const plan::Package& package, pipeline::Options settings,
             const backend::Registry& backends);

  /// \error as measure::one_at_a_time(), measure::stage_reference() or measure::whole_reference()
  [[nodiscard]] Result<std::unique_ptr<measure::Reference>> make(
      const measure::ReferenceSettings& settings) const;

  /// The others that are right as well.
  [[nodiscard]] std::vector<measure::MakeReference> others() const;

  /// With what it computes in f16 changed in the last bit: Judge::Setting::half. Null: there is
  /// none.
  [[nodiscard]] measure::MakeReference with_half_noise() const;

  /// What is asked too about a frame that differs: Trial::look_again().
  [[nodiscard]] std::vector<measure::MakeReference> for_second_look() const;

  /// For the report: "the whole model 'net.onnx', not optimised".
  [[nodiscard]] std::string describe() const;

 private:
  const VerifyOptions& options_;
  const std::filesystem::path whole_;
  const std::string why_;
  const plan::Package& package_;
  pipeline::Options settings_;
  const backend::Registry& backends_;
};

}  // namespace penstock
