// The cases of ONNX's own backend tests, as its Python package carries them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::operator_cases {

/// Inputs and the outputs expected of them, in the model's order.
struct DataSet {
  std::vector<std::filesystem::path> inputs;  ///< Empty for a light model: see read_inputs().
  std::vector<std::filesystem::path> outputs;
};

struct Case {
  std::string name;  ///< Folder and case: "node/test_relu".
  std::filesystem::path model;
  std::vector<DataSet> sets;
};

/// The cases in `root`/`group`, by name. `root`: onnx/backend/test/data.
std::vector<Case> find_cases(const std::filesystem::path& root, const std::string& group);

/// The inputs of a set for `ports`. Light models have none on disk: ONNX's runner counts up
/// from 0 to 1 for each.
Result<std::vector<Tensor>> read_inputs(const DataSet& set, std::span<const backend::Port> ports);
Result<std::vector<Tensor>> read_outputs(const DataSet& set, std::span<const backend::Port> ports);

}  // namespace penstock::operator_cases
