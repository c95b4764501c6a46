// Every operator case of ONNX's Python package that the rules of a backend allow, by that backend:
// the file as it is, and imported and written again; and with all inputs but the first as
// constants ("CASE with constants"), as weights are in a network.
//
// PENSTOCK_OPERATOR_CASES, PENSTOCK_OPERATOR_CASE, PENSTOCK_SAMPLE: as in operator_cases_test.cc.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <tuple>

#include <gtest/gtest.h>

#include "penstock/backend/registry.h"
#include "penstock/collage/candidates.h"
#include "penstock/graph/import.h"
#include "penstock/graph/test_support.h"
#include "penstock/graph/writer.h"
#include "penstock/session/session.h"
#include "tests/operator_cases/cases.h"
#include "tests/support/sample.h"

namespace penstock::operator_cases {
namespace {

namespace fs = std::filesystem;

struct ClaimCounts {
  std::size_t cases = 0, claimed = 0, passed = 0, excused = 0, cuts = 0;
};

/// A backend and a group of cases.
class ClaimedCases : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  static void SetUpTestSuite() {
    if (registry_ == nullptr)
      registry_ = std::make_unique<backend::Registry>(backend::Registry::load());
  }

  void SetUp() override {
    const char* root = std::getenv("PENSTOCK_OPERATOR_CASES");
    if (root == nullptr || !fs::is_directory(fs::path(root) / "node")) {
      GTEST_SKIP() << "needs PENSTOCK_OPERATOR_CASES, as the test of ONNX Runtime does";
    }
    const auto found = registry_->find(backend_name());
    if (!found) GTEST_SKIP() << found.error().message();
    const auto unavailable = (*found)->describe().unavailable;
    if (!unavailable.empty()) GTEST_SKIP() << unavailable;
    backend_ = *found;
    root_ = root;
    engine_ = *make_engine(*registry_);
    auto rule = collage::parse_rule(backend_->rules(), "rules of backend '" + backend_name() + "'");
    ASSERT_TRUE(rule) << rule.error().message();
    rule_ = *std::move(rule);
    exceptions_ = read_exceptions(fs::path(PENSTOCK_CLAIM_EXCEPTIONS) /
                                  ("exceptions_" + backend_name() + ".txt"));
  }

  static std::string backend_name() { return std::get<0>(GetParam()); }
  static std::string group() { return std::get<1>(GetParam()); }

  [[nodiscard]] bool claims(const Case& test) const {
    graph::ImportOptions as_is;
    as_is.as_is = true;
    const auto graph = graph::import_onnx(test.model, as_is);
    return graph && claims(*graph);
  }

  [[nodiscard]] bool claims(const graph::Graph& graph) const {
    return !graph.nodes.empty() &&
           collage::supported_nodes(graph, rule_).count() == graph.nodes.size();
  }

  /// Imported again: shapes that were given as values are known now.
  Result<graph::Graph> with_constants(graph::Graph graph, const std::vector<Tensor>& values) {
    for (std::size_t i = 1; i < values.size(); ++i) {
      auto& value = graph.values[index(graph.inputs[i])];
      value.constant = values[i];
      value.is_input = false;
    }
    graph.inputs.resize(1);
    PENSTOCK_TRY(const auto bytes, graph::to_onnx_bytes(graph::Subgraph::whole(graph)));
    return graph::import_onnx_bytes(bytes, {}, {.engine = engine_});
  }

  void check_with_constants(const Case& test) {
    const auto graph = graph::import_onnx(test.model, {.engine = engine_});
    if (!graph || graph->inputs.size() < 2) return;
    const auto inputs = read_inputs(test.sets.front(), ports_of(*graph, graph->inputs));
    const auto outputs = read_outputs(test.sets.front(), ports_of(*graph, graph->outputs));
    if (!inputs || !outputs) return;
    const auto folded = with_constants(*graph, *inputs);
    if (!folded || !claims(*folded)) return;
    Sample sample;
    sample.inputs[graph->value(graph->inputs.front()).name] = inputs->front();
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      sample.outputs[graph->value(graph->outputs[i]).name] = (*outputs)[i];
    }
    report(test.name, "with constants", run_written(*backend_, *folded, folder_.path(), {sample}));
  }

  static std::vector<backend::Port> ports_of(const graph::Graph& graph,
                                             const std::vector<graph::ValueId>& ids) {
    std::vector<backend::Port> ports;
    for (const auto id : ids) ports.push_back({graph.value(id).name, graph.value(id).type});
    return ports;
  }

  /// Empty if both ways give what the case expects.
  std::string problem_of(const Case& test) {
    const auto samples = run_file(*backend_, test);
    if (!samples) return samples.error().message();
    graph::ImportOptions options;
    options.engine = engine_;
    const auto graph = graph::import_onnx(test.model, options);
    if (!graph) return "import: " + graph.error().message();
    auto problem = run_written(*backend_, *graph, folder_.path(), *samples);
    if (problem.empty() && claims(*graph)) check_cuts(test, *graph, *samples);
    return problem;
  }

  void check_cuts(const Case& test, const graph::Graph& graph, const std::vector<Sample>& samples) {
    const auto places = cuts_of(graph);
    if (places.empty()) return;
    partition::SplitOptions options;
    options.backend = backend_name();
    const auto device = device_for(*backend_);
    if (!device.is_local_cpu()) options.devices = {device};
    std::string problems;
    for (const auto place : places) {
      options.by = partition::Cuts{{graph.nodes[place].name}};
      const auto text = run_pipeline(graph, options, *registry_, folder_.path(), samples);
      ++counts_.cuts;
      if (text.empty()) continue;
      problems += concat("  after node ", place, " (", graph.nodes[place].op, "): ", text, "\n");
    }
    report(test.name, "cut", problems);
  }

  /// What the rules do not claim is refused with a sentence, or compiles all the same. Takes
  /// minutes, and so only where somebody wants the table of it.
  void check_unclaimed(const Case& test) {
    if (std::getenv("PENSTOCK_CONFORMANCE") == nullptr) return;
    backend::CompileRequest request;
    request.name = test.name;
    request.file = test.model;
    request.device = device_for(*backend_);
    const auto executable = backend_->compile(request);
    note({backend_name(), test.name, "whole", "unclaimed",
          executable ? "" : executable.error().message()});
    if (!executable) {
      EXPECT_NE(executable.error().message(), "") << test.name;
    }
  }

  void check(const Case& test) {
    ++counts_.cases;
    const auto listed = exceptions_.find(test.name);
    const bool claimed = claims(test);
    EXPECT_TRUE(claimed || listed == exceptions_.end())
        << test.name << ": is listed as an exception, and the rules do not claim it";
    if (!claimed) return check_unclaimed(test);
    report(test.name, "whole", problem_of(test));
  }

  /// Fails unless `problem` is empty exactly where no exception is listed.
  void report(const std::string& test, const std::string& form, const std::string& problem) {
    ++counts_.claimed;
    const auto name = form == "whole" ? test : test + " " + form;
    const auto listed = exceptions_.find(name);
    const auto outcome = listed != exceptions_.end() ? "excused"
                         : problem.empty()           ? "passed"
                                                     : "wrong";
    note({backend_name(), test, form, outcome,
          listed != exceptions_.end() ? listed->second : problem});
    if (listed == exceptions_.end()) {
      EXPECT_EQ(problem, "") << name;
      if (problem.empty()) ++counts_.passed;
      return;
    }
    EXPECT_NE(problem, "") << name << ": passes; take it off the list of exceptions ("
                           << listed->second << ")";
    ++counts_.excused;
  }

  static inline std::unique_ptr<backend::Registry> registry_;
  std::shared_ptr<backend::Backend> backend_;
  fs::path root_;
  TemporaryFolder folder_;
  graph::Engine engine_;
  collage::Rule rule_;
  std::map<std::string, std::string> exceptions_;
  ClaimCounts counts_;
};

constexpr std::uint64_t kClaimsApart = 6;  ///< One of so many in a sample.

TEST_P(ClaimedCases, PassByThatBackend) {
  const char* only = std::getenv("PENSTOCK_OPERATOR_CASE");
  const auto cases = find_cases(root_, group());
  Sweep sweep(only == nullptr && group() == "node" ? kClaimsApart : 1);
  for (const auto i : sweep.places(cases)) {
    if (only != nullptr && cases[i].name.find(only) == cases[i].name.npos) continue;
    check(cases[i]);
    check_with_constants(cases[i]);
  }
  std::cout << backend_name() << ", " << group() << ": " << counts_.cases << " cases, claims "
            << counts_.claimed << ", passes " << counts_.passed << ", with " << counts_.cuts
            << " cuts; " << counts_.excused << " exceptions\n";
  EXPECT_TRUE(only != nullptr || counts_.passed > 0);
}

INSTANTIATE_TEST_SUITE_P(OfOnnx, ClaimedCases,
                         testing::Combine(testing::Values("cuda", "onednn", "openvino"),
                                          testing::Values("node", "simple", "pytorch-operator",
                                                          "pytorch-converted")),
                         [](const auto& pair) {
                           std::string name =
                               std::get<0>(pair.param) + "_" + std::get<1>(pair.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock::operator_cases
