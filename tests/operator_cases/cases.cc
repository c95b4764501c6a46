#include "tests/operator_cases/cases.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "penstock/graph/subgraph.h"
#include "penstock/graph/writer.h"
#include "penstock/session/session.h"
#include "penstock/tensor/compare.h"

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

Values named(std::span<const backend::Port> ports, const std::vector<Tensor>& values) {
  Values by_name;
  for (std::size_t i = 0; i < ports.size(); ++i) by_name[ports[i].name] = values[i];
  return by_name;
}

Result<Values> run(backend::Executable& executable, const Values& inputs) {
  PENSTOCK_TRY(const auto context, executable.create_context());
  std::vector<const Tensor*> sources;
  for (const auto& port : executable.inputs()) {
    const auto found = inputs.find(port.name);
    if (found == inputs.end()) return not_found("no value for input '", port.name, "'");
    sources.push_back(&found->second);
  }
  std::vector<Tensor> values(executable.outputs().size());
  std::vector<Tensor*> targets;
  for (auto& value : values) targets.push_back(&value);
  PENSTOCK_CHECK_OK(context->run({}, sources, targets));
  PENSTOCK_CHECK_OK(context->wait(backend::kNoDeadline));
  return named(executable.outputs(), values);
}

std::string run_frame(Opened& opened, const Sample& sample) {
  std::vector<Tensor> inputs;
  for (const auto& info : opened.package.plan.inputs) {
    const auto found = sample.inputs.find(info.name);
    if (found == sample.inputs.end()) return "no value for input '" + info.name + "'";
    inputs.push_back(found->second);
  }
  const auto outputs = opened.pipeline->run(inputs);
  if (!outputs) return "run: " + outputs.error().message();
  Values actual;
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    actual[opened.package.plan.outputs[i].name] = (*outputs)[i];
  }
  return difference(actual, sample.outputs);
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

std::string difference(const Values& actual, const Values& expected) {
  for (const auto& [name, value] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) return "output '" + name + "' is missing";
    const auto result = compare(found->second, value);
    if (!result.ok()) return concat("output '", name, "': ", to_string(result));
  }
  return {};
}

device::Device device_for(const backend::Backend& backend) {
  device::Device device;
  if (!backend.accepts(device)) device.kind = device::Device::Kind::kCuda;
  return device;
}

Result<std::vector<Sample>> run_file(backend::Backend& backend, const Case& test) {
  backend::CompileRequest request;
  request.name = test.name;
  request.file = test.model;
  request.device = device_for(backend);
  PENSTOCK_TRY(const auto executable, backend.compile(request));
  std::vector<Sample> samples;
  for (const auto& set : test.sets) {
    PENSTOCK_TRY(const auto inputs, read_inputs(set, executable->inputs()));
    PENSTOCK_TRY(const auto outputs, read_outputs(set, executable->outputs()));
    Sample sample{named(executable->inputs(), inputs), named(executable->outputs(), outputs)};
    PENSTOCK_TRY(const auto found, run(*executable, sample.inputs));
    if (auto text = difference(found, sample.outputs); !text.empty())
      return make_error(Code::kUnknown, text);
    samples.push_back(std::move(sample));
  }
  if (samples.empty()) return not_found("no data");
  return samples;
}

std::string run_written(backend::Backend& backend, const graph::Graph& graph,
                        const fs::path& folder, const std::vector<Sample>& samples) {
  const auto file = folder / "whole.onnx";
  const auto written = graph::write_onnx(graph::Subgraph::whole(graph), file, {});
  if (!written) return "write: " + written.error().message();
  backend::CompileRequest request;
  request.name = "whole";
  request.file = file;
  request.device = device_for(backend);
  const auto executable = backend.compile(request);
  if (!executable) return "compile: " + executable.error().message();
  for (const auto& sample : samples) {
    const auto found = run(**executable, sample.inputs);
    if (!found) return "run: " + found.error().message();
    if (auto text = difference(*found, sample.outputs); !text.empty()) return text;
  }
  return {};
}

std::string run_pipeline(const graph::Graph& graph, const partition::SplitOptions& options,
                         const backend::Registry& backends, const fs::path& folder,
                         const std::vector<Sample>& samples) {
  const auto target = folder / "package";
  if (const auto plan = partition::split(graph, options, target, {}); !plan) {
    return "split: " + plan.error().message();
  }
  auto opened = open_package(target, {}, backends);
  if (!opened) return "start: " + opened.error().message();
  for (const auto& sample : samples) {
    auto text = run_frame(*opened, sample);
    if (!text.empty()) return text;
  }
  return {};
}

std::vector<std::size_t> cuts_of(const graph::Graph& graph) {
  std::vector<std::size_t> cuts;
  std::vector<std::set<std::size_t>> before(graph.nodes.size());
  const auto add = [&](std::size_t i, graph::ValueId id) {
    if (id == graph::ValueId::kNone || !graph.value(id).producer) return;
    const auto producer = index(*graph.value(id).producer);
    before[i].insert(producer);
    before[i].insert(before[producer].begin(), before[producer].end());
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const auto id : graph.nodes[i].inputs) add(i, id);
    for (const auto id : graph.nodes[i].captures) add(i, id);
    if (before[i].size() + 1 < graph.nodes.size()) cuts.push_back(i);
  }
  return cuts;
}

void note(const Record& record) {
  const char* file = std::getenv("PENSTOCK_CONFORMANCE");
  if (file == nullptr) return;
  std::string line;
  for (const auto* field :
       {&record.backend, &record.name, &record.form, &record.outcome, &record.said}) {
    auto text = *field;
    std::ranges::replace(text, '\t', ' ');
    std::ranges::replace(text, '\n', ' ');
    line += (line.empty() ? "" : "\t") + text;
  }
  // One write, at the end of the file: other tests write there too.
  std::ofstream(file, std::ios::app) << line + "\n" << std::flush;
}

std::map<std::string, std::string> read_exceptions(const fs::path& file) {
  std::ifstream in(file);
  std::map<std::string, std::string> exceptions;
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(": ");
    if (line.empty() || line.starts_with('#')) continue;
    EXPECT_NE(colon, line.npos) << "expected 'case: reason', found '" << line << "'";
    if (colon != line.npos) exceptions[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return exceptions;
}

}  // namespace penstock::operator_cases
