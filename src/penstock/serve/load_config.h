// LoadConfig: what the configuration of a load asks for, of the fields that a ModelConfig has.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/dtype.h"

namespace penstock::serve {

/// An input or output that the model must have.
struct ConfiguredTensor {
  std::string name;
  std::optional<DType> dtype;                     ///< Empty: any.
  std::optional<std::vector<std::int64_t>> dims;  ///< -1: any size. Empty: any shape.
};

struct LoadConfig {
  std::string file;                             ///< default_model_filename; empty: none is named.
  std::optional<std::uint64_t> latest;          ///< version_policy: so many, the highest ones.
  std::optional<std::set<std::uint64_t>> only;  ///< version_policy: these.
  std::vector<ConfiguredTensor> inputs, outputs;
  bool sequences = false;  ///< sequence_batching: requests of one sequence share states.
};

/// Of JSON, with the fields' names as protobuf has them, in either spelling. Each field is obeyed
/// or refused, so that none is without effect.
/// \error kInvalidArgument  no JSON object; of another model than `model`; an unknown field, or one
///                          of another kind; a platform or backend that is none of this server's.
/// \error kUnimplemented    a field that asks for what no pipeline does: names it.
Result<LoadConfig> read_config(const std::string& model, const std::string& text);

/// Those of `there` that the version policy serves: all of them without one.
/// \error kInvalidArgument  one that it names is not there.
Result<std::set<std::uint64_t>> choose_versions(const LoadConfig& config,
                                                const std::set<std::uint64_t>& there);

/// Whether the plan has the inputs and outputs that the configuration says, and states where it
/// says sequences.
/// \error kInvalidArgument  names what is missing, or of another type or shape.
Status check_plan(const LoadConfig& config, const plan::Plan& plan);

}  // namespace penstock::serve
