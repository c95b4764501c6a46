#include "tests/operator_cases/cases.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "penstock/graph/writer.h"

namespace penstock::operator_cases {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

/// <start>0.pb, <start>1.pb and so on, as far as there are.
std::vector<fs::path> numbered(const std::string& start) {
  std::vector<fs::path> files;
  for (;;) {
    fs::path file = concat(start, files.size(), ".pb");
    if (!fs::exists(file)) return files;
    files.push_back(std::move(file));
  }
}

Case folder_case(const fs::path& folder, const std::string& group) {
  Case found{concat(group, "/", folder.filename().string()), folder / "model.onnx", {}};
  for (const auto& entry : entries_of(folder)) {
    if (!fs::is_directory(entry)) continue;
    found.sets.push_back(
        {numbered((entry / "input_").string()), numbered((entry / "output_").string())});
  }
  return found;
}

Case light_case(const fs::path& model, const std::string& group) {
  const auto stem = model.parent_path() / model.stem();
  return {concat(group, "/", model.stem().string()),
          model,
          {{{}, numbered(stem.string() + "_output_")}}};
}

Result<std::vector<Tensor>> read(const std::vector<fs::path>& files,
                                 std::span<const backend::Port> ports) {
  if (files.size() != ports.size()) {
    return invalid_argument("expected ", ports.size(), " files, found ", files.size());
  }
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::ifstream in(files[i], std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    PENSTOCK_TRY(auto value, graph::value_from_onnx(bytes, ports[i].type));
    values.push_back(std::move(value));
  }
  return values;
}

/// As ONNX's runner does it: 0, 1/n, 2/n, ...; open dimensions are 1.
Result<Tensor> ramp(const Type& type) {
  if (type.kind != Type::Kind::kTensor || type.dtype != DType::kF32) {
    return invalid_argument("expected an f32 tensor, found ", to_string(type));
  }
  std::vector<std::int64_t> dims;
  for (const auto& dim : type.dims) dims.push_back(dim.fixed() ? dim.size : 1);
  auto value = Tensor::allocate(DType::kF32, std::move(dims));
  const auto values = value.as<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<double>(i) / static_cast<double>(values.size()));
  }
  return value;
}

}  // namespace

std::vector<Case> find_cases(const fs::path& root, const std::string& group) {
  std::vector<Case> cases;
  for (const auto& entry : entries_of(root / group)) {
    if (fs::exists(entry / "model.onnx")) cases.push_back(folder_case(entry, group));
    if (entry.extension() == ".onnx") cases.push_back(light_case(entry, group));
  }
  return cases;
}

Result<std::vector<Tensor>> read_inputs(const DataSet& set, std::span<const backend::Port> ports) {
  if (!set.inputs.empty() || ports.empty()) return read(set.inputs, ports);
  std::vector<Tensor> values;
  for (const auto& port : ports) {
    PENSTOCK_TRY(auto value, ramp(port.type));
    values.push_back(std::move(value));
  }
  return values;
}

Result<std::vector<Tensor>> read_outputs(const DataSet& set, std::span<const backend::Port> ports) {
  return read(set.outputs, ports);
}

}  // namespace penstock::operator_cases
