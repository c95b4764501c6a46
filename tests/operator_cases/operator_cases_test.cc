// Every operator case of ONNX's Python package that ONNX Runtime itself passes, through import,
// splitter, package and pipeline: whole, and cut after each node that leaves two stages.
//
// PENSTOCK_OPERATOR_CASES: the folder onnx/backend/test/data; without it the tests are skipped.
// PENSTOCK_EVERY_CUT: cuts whole networks after each node too, not in a few places: slow.
// PENSTOCK_OPERATOR_CASE: only cases whose name contains this; says why plain ONNX Runtime fails.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "penstock/backend/registry.h"
#include "penstock/graph/import.h"
#include "penstock/graph/test_support.h"
#include "penstock/graph/writer.h"
#include "penstock/partition/split.h"
#include "penstock/session/session.h"
#include "penstock/tensor/compare.h"
#include "tests/operator_cases/cases.h"

namespace penstock::operator_cases {
namespace {

namespace fs = std::filesystem;
using Values = std::map<std::string, Tensor>;

/// The inputs of one data set and the outputs expected of them, by name.
struct Sample {
  Values inputs, outputs;
};

/// Cases of more nodes, or of more bytes in all of their values, are whole networks: cut in
/// kSampledCuts places only unless PENSTOCK_EVERY_CUT is set.
constexpr std::size_t kManyNodes = 150;
constexpr std::size_t kManyBytes = 16 << 20;
constexpr std::size_t kSampledCuts = 3;

bool is_network(const graph::Graph& graph) {
  std::size_t bytes = 0;
  for (const auto& value : graph.values) bytes += value.type.max_bytes().value_or(0);
  return graph.nodes.size() > kManyNodes || bytes > kManyBytes;
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
  PENSTOCK_CHECK_OK(context->run(sources, targets));
  PENSTOCK_CHECK_OK(context->wait());
  return named(executable.outputs(), values);
}

/// Empty if `actual` holds what is expected.
std::string difference(const Values& actual, const Values& expected) {
  for (const auto& [name, value] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) return "output '" + name + "' is missing";
    const auto result = compare(found->second, value);
    if (!result.ok()) return concat("output '", name, "': ", to_string(result));
  }
  return {};
}

/// Exceptions by case: "node/test_x" excuses all of a case, "node/test_x cut" its cuts only.
std::map<std::string, std::string> read_exceptions() {
  std::ifstream in(PENSTOCK_OPERATOR_EXCEPTIONS);
  std::map<std::string, std::string> exceptions;
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(": ");
    if (line.empty() || line.starts_with('#')) continue;
    EXPECT_NE(colon, line.npos) << "expected 'case: reason', found '" << line << "'";
    if (colon != line.npos) exceptions[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return exceptions;
}

struct Counts {
  std::size_t cases = 0, plain = 0, whole = 0, several_nodes = 0, cuts = 0, excused = 0;
};

class OperatorCases : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    if (registry_ == nullptr)
      registry_ = std::make_unique<backend::Registry>(backend::Registry::load());
  }

  void SetUp() override {
    const char* root = std::getenv("PENSTOCK_OPERATOR_CASES");
    if (root == nullptr || !fs::is_directory(fs::path(root) / "node")) {
      GTEST_SKIP()
          << "needs PENSTOCK_OPERATOR_CASES, the folder onnx/backend/test/data of a Python "
             "environment with onnx 1.22 (script/setup makes one)";
    }
    const auto found = registry_->find("onnxruntime");
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ((*found)->describe().unavailable, "");
    backend_ = *found;
    root_ = root;
  }

  /// What a plain session makes of the file. \error  it is not what the case expects.
  Result<std::vector<Sample>> run_plainly(const Case& test) {
    backend::CompileRequest request;
    request.name = test.name;
    request.file = test.model;
    PENSTOCK_TRY(const auto executable, backend_->compile(request));
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

  /// Import, write, compile, run. Empty if the outputs are those expected.
  std::string run_whole(const graph::Graph& graph, const std::vector<Sample>& samples) {
    const auto file = folder_.path() / "whole.onnx";
    const auto written = graph::write_onnx(graph::Subgraph::whole(graph), file, {});
    if (!written) return "write: " + written.error().message;
    backend::CompileRequest request;
    request.name = "whole";
    request.file = file;
    const auto executable = backend_->compile(request);
    if (!executable) return "compile: " + executable.error().message;
    for (const auto& sample : samples) {
      const auto found = run(**executable, sample.inputs);
      if (!found) return "run: " + found.error().message;
      if (auto text = difference(*found, sample.outputs); !text.empty()) return text;
    }
    return {};
  }

  /// The same through a package and a running pipeline.
  std::string run_pipeline(const graph::Graph& graph, const std::vector<std::string>& cuts,
                           const std::vector<Sample>& samples) {
    partition::SplitOptions options;
    options.cuts = cuts;
    const auto target = folder_.path() / "package";
    if (const auto plan = partition::split(graph, options, target, {}); !plan) {
      return "split: " + plan.error().message;
    }
    auto opened = open_package(target, {}, *registry_);
    if (!opened) return "start: " + opened.error().message;
    for (const auto& sample : samples) {
      auto text = run_frame(*opened, sample);
      if (!text.empty()) return text;
    }
    return {};
  }

  static std::string run_frame(Opened& opened, const Sample& sample) {
    std::vector<Tensor> inputs;
    for (const auto& info : opened.package.plan.inputs) {
      const auto found = sample.inputs.find(info.name);
      if (found == sample.inputs.end()) return "no value for input '" + info.name + "'";
      inputs.push_back(found->second);
    }
    const auto outputs = opened.pipeline->run(inputs);
    if (!outputs) return "run: " + outputs.error().message;
    Values actual;
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      actual[opened.package.plan.outputs[i].name] = (*outputs)[i];
    }
    return difference(actual, sample.outputs);
  }

  void check_cuts(const Case& test, const graph::Graph& graph, const std::vector<Sample>& samples) {
    const auto places = cuts_of(graph);
    std::string problems;
    for (const auto place : places) {
      const auto text = run_pipeline(graph, {graph.nodes[place].name}, samples);
      ++counts_.cuts;
      if (text.empty()) continue;
      problems += concat("  after node ", place, " (", graph.nodes[place].op, "): ", text, "\n");
    }
    report(test.name + " cut", problems);
  }

  /// Indices of nodes such that some others are no ancestors: cuts that leave two stages.
  static std::vector<std::size_t> cuts_of(const graph::Graph& graph) {
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
    if (std::getenv("PENSTOCK_EVERY_CUT") != nullptr || !is_network(graph)) return cuts;
    std::vector<std::size_t> sampled;
    for (std::size_t i = 1; i <= kSampledCuts; ++i) {
      sampled.push_back(cuts[cuts.size() * i / (kSampledCuts + 1)]);
    }
    return sampled;
  }

  void check(const Case& test) {
    ++counts_.cases;
    const auto samples = run_plainly(test);
    if (!samples) {
      EXPECT_FALSE(exceptions_.contains(test.name) || exceptions_.contains(test.name + " cut"))
          << test.name << ": is listed as an exception, and plain ONNX Runtime does not pass it";
      if (only_ != nullptr) std::cout << test.name << ": " << samples.error().message << "\n";
      return;
    }
    ++counts_.plain;
    graph::ImportOptions options;
    options.engine = engine_;
    const auto graph = graph::import_onnx(test.model, options);
    if (!graph) return report(test.name, "import: " + graph.error().message);
    auto problem = run_whole(*graph, *samples);
    if (problem.empty()) problem = run_pipeline(*graph, {}, *samples);
    report(test.name, problem);
    if (!problem.empty()) return;
    ++counts_.whole;
    if (graph->nodes.size() < 2) return;
    ++counts_.several_nodes;
    check_cuts(test, *graph, *samples);
  }

  /// Fails unless `problem` is empty exactly where no exception is listed.
  void report(const std::string& name, const std::string& problem) {
    const auto listed = exceptions_.find(name);
    if (listed == exceptions_.end()) {
      EXPECT_EQ(problem, "") << name;
    } else {
      EXPECT_NE(problem, "") << name << ": passes; take it off the list of exceptions ("
                             << listed->second << ")";
      ++counts_.excused;
    }
  }

  static inline std::unique_ptr<backend::Registry> registry_;
  std::shared_ptr<backend::Backend> backend_;
  fs::path root_;
  graph::TemporaryFolder folder_;
  graph::Engine engine_;
  std::map<std::string, std::string> exceptions_ = read_exceptions();
  Counts counts_;
  const char* only_ = std::getenv("PENSTOCK_OPERATOR_CASE");
};

TEST_P(OperatorCases, PassWholeAndCutWhereverPlainOnnxRuntimePasses) {
  engine_ = make_engine(*registry_);
  for (const auto& test : find_cases(root_, GetParam())) {
    if (only_ == nullptr || test.name.find(only_) != test.name.npos) check(test);
  }
  std::cout << GetParam() << ": " << counts_.cases << " cases, plain ONNX Runtime passes "
            << counts_.plain << ", Penstock " << counts_.whole << " of these whole and, of "
            << counts_.several_nodes << " with several nodes, " << counts_.cuts << " cuts; "
            << counts_.excused << " exceptions\n";
  EXPECT_TRUE(only_ != nullptr || counts_.plain > 0);
}

INSTANTIATE_TEST_SUITE_P(OfOnnx, OperatorCases,
                         testing::Values("node", "simple", "light", "pytorch-operator",
                                         "pytorch-converted"),
                         [](const auto& group) {
                           std::string name = group.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock::operator_cases
