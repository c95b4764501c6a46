// ModelDescription: what the protocols tell of a model that is served.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/tensor/dtype.h"

namespace penstock::serve {

inline constexpr const char* kPlatform = "penstock";

struct TensorDescription {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<std::int64_t> dims;  ///< -1: any size.
};

struct ModelDescription {
  std::string name;
  std::string version;                ///< That was asked for, or the latest.
  std::vector<std::string> versions;  ///< That are ready, the lowest first.
  std::vector<TensorDescription> inputs;
  std::vector<TensorDescription> outputs;
  bool has_states = false;  ///< Requests of one sequence share them.
  int in_flight = 0;        ///< Most frames in progress at a time.
};

}  // namespace penstock::serve
