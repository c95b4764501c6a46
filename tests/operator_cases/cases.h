// The cases of ONNX's own backend tests, as its Python package carries them.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/partition/split.h"
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

using Values = std::map<std::string, Tensor>;

/// The inputs of one data set and the outputs expected of them, by name.
struct Sample {
  Values inputs, outputs;
};

/// Empty if `actual` holds what is expected.
std::string difference(const Values& actual, const Values& expected);

/// Where the cases run: CPUs of this machine, or "cuda:0" where the backend takes no CPUs.
device::Device device_for(const backend::Backend& backend);

/// What the backend makes of the file. \error  it is not what the case expects.
Result<std::vector<Sample>> run_file(backend::Backend& backend, const Case& test);

/// Writes the graph into `folder`, compiles and runs it. Empty if the outputs are those expected.
std::string run_written(backend::Backend& backend, const graph::Graph& graph,
                        const std::filesystem::path& folder, const std::vector<Sample>& samples);

/// The same through a package and a running pipeline.
std::string run_pipeline(const graph::Graph& graph, const partition::SplitOptions& options,
                         const backend::Registry& backends, const std::filesystem::path& folder,
                         const std::vector<Sample>& samples);

/// Indices of nodes such that some others are no ancestors: cuts that leave two stages.
std::vector<std::size_t> cuts_of(const graph::Graph& graph);

/// What one backend made of a case.
struct Record {
  std::string backend, name;
  std::string form;     ///< "whole", "cut", "with constants"
  std::string outcome;  ///< "passed", "refused", "excused", "unclaimed", "wrong"
  std::string said;     ///< Why, where it did not pass.
};

/// Appends it, tabs between the fields, to the file that PENSTOCK_CONFORMANCE names, if it names
/// one: tools/conformance.py makes a table of them.
void note(const Record& record);

/// Exceptions by case: "node/test_x" excuses all of a case, "node/test_x cut" its cuts only.
std::map<std::string, std::string> read_exceptions(const std::filesystem::path& file);

}  // namespace penstock::operator_cases
