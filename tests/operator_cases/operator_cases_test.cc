// Every operator case of ONNX's Python package that ONNX Runtime itself passes, through import,
// splitter, package and pipeline: whole, and cut after each node that leaves two stages.
//
// PENSTOCK_OPERATOR_CASES: the folder onnx/backend/test/data; without it the tests are skipped.
// PENSTOCK_SAMPLE: a sample of the cases, and of the cuts of whole networks
// (tests/support/sample.h). PENSTOCK_OPERATOR_CASE: only cases whose name contains this; says why
// plain ONNX Runtime fails.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "penstock/backend/registry.h"
#include "penstock/graph/import.h"
#include "penstock/graph/test_support.h"
#include "penstock/graph/writer.h"
#include "penstock/partition/split.h"
#include "penstock/session/session.h"
#include "penstock/tensor/compare.h"
#include "tests/operator_cases/cases.h"
#include "tests/support/sample.h"

namespace penstock::operator_cases {
namespace {

namespace fs = std::filesystem;
const std::string kGroups[] = {
    "node",
    "simple",
    "pytorch-operator",
    "pytorch-converted",
    "light/light_bvlc_alexnet",
    "light/light_densenet121",
    "light/light_inception_v1",
    "light/light_inception_v2",
    "light/light_resnet50",
    "light/light_shufflenet",
    "light/light_squeezenet",
    "light/light_vgg19",
    "light/light_zfnet512",
};

constexpr std::uint64_t kCasesApart = 5;  ///< One of so many in a sample,
constexpr std::size_t kFewCases = 100;    ///< where there are more than this.
constexpr std::uint64_t kCutsApart = 40;  ///< Of a whole network: all take minutes.

struct Counts {
  std::size_t cases = 0, plain = 0, whole = 0, several_nodes = 0, cuts = 0, excused = 0;
};

/// A folder of cases, or the one case "FOLDER/CASE": whole networks are tests of their own.
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
    ASSERT_TRUE(found) << found.error().message();
    ASSERT_EQ((*found)->describe().unavailable, "");
    backend_ = *found;
    root_ = root;
  }

  static bool is_network() { return GetParam().starts_with("light/"); }

  [[nodiscard]] std::string run_in_pipeline(const graph::Graph& graph,
                                            const std::vector<std::string>& cuts,
                                            const std::vector<Sample>& samples) const {
    partition::SplitOptions options;
    options.by = partition::Cuts{cuts};
    // Whole networks hundreds of times: folding their weights would take most of the time.
    if (is_network() && !cuts.empty()) options.backend_options["graph_optimization_level"] = "0";
    return run_pipeline(graph, options, *registry_, folder_.path(), samples);
  }

  void check_cuts(const Case& test, const graph::Graph& graph, const std::vector<Sample>& samples) {
    const auto places = cuts_of(graph);
    if (places.empty()) return;
    std::string problems;
    Sweep sweep(is_network() ? kCutsApart : 1, "/cuts of " + test.name);
    for (const auto i : sweep.numbers(0, places.size())) {
      const auto place = places[i];
      const auto text = run_in_pipeline(graph, {graph.nodes[place].name}, samples);
      ++counts_.cuts;
      if (text.empty()) continue;
      problems += concat("  after node ", place, " (", graph.nodes[place].op, "): ", text, "\n");
    }
    report(test.name, "cut", problems);
  }

  void check(const Case& test) {
    ++counts_.cases;
    const auto samples = run_file(*backend_, test);
    if (!samples) {
      EXPECT_FALSE(exceptions_.contains(test.name) || exceptions_.contains(test.name + " cut"))
          << test.name << ": is listed as an exception, and plain ONNX Runtime does not pass it";
      return check_refused(test, samples.error());
    }
    ++counts_.plain;
    graph::ImportOptions options;
    options.engine = engine_;
    const auto graph = graph::import_onnx(test.model, options);
    if (!graph) return report(test.name, "whole", "import: " + graph.error().message());
    auto problem = run_written(*backend_, *graph, folder_.path(), *samples);
    if (problem.empty()) problem = run_in_pipeline(*graph, {}, *samples);
    report(test.name, "whole", problem);
    if (!problem.empty()) return;
    ++counts_.whole;
    if (graph->nodes.size() < 2) return;
    ++counts_.several_nodes;
    check_cuts(test, *graph, *samples);
  }

  /// Plain ONNX Runtime does not pass: we refuse it with a sentence, or give the values it gives.
  void check_refused(const Case& test, const Error& plain) {
    if (only_ != nullptr) std::cout << test.name << ": " << plain.message() << "\n";
    const bool other_values = plain.message().starts_with("output '");
    note({"onnxruntime", test.name, "whole", other_values ? "wrong" : "refused", plain.message()});
    graph::ImportOptions options;
    options.engine = engine_;
    const auto graph = graph::import_onnx(test.model, options);
    const auto target = folder_.path() / "refused";
    auto said = graph ? Error() : graph.error();
    if (graph) {
      const auto plan = partition::split(*graph, {}, target, {});
      const auto opened = plan ? open_package(target, {}, *registry_) : plan.error();
      if (opened) return;
      said = opened.error();
    }
    EXPECT_FALSE(said.message().empty()) << test.name;
    EXPECT_FALSE(said.places.empty()) << test.name << ": nothing says where: " << said.message();
  }

  /// Fails unless `problem` is empty exactly where no exception is listed.
  void report(const std::string& name, const std::string& form, const std::string& problem) {
    const auto listed = exceptions_.find(form == "whole" ? name : name + " " + form);
    if (listed == exceptions_.end()) {
      EXPECT_EQ(problem, "") << name;
      note({"onnxruntime", name, form, problem.empty() ? "passed" : "wrong", problem});
    } else {
      EXPECT_NE(problem, "") << name << ": passes; take it off the list of exceptions ("
                             << listed->second << ")";
      note({"onnxruntime", name, form, "excused", listed->second});
      ++counts_.excused;
    }
  }

  static inline std::unique_ptr<backend::Registry> registry_;
  std::shared_ptr<backend::Backend> backend_;
  fs::path root_;
  TemporaryFolder folder_;
  graph::Engine engine_;
  std::map<std::string, std::string> exceptions_ = read_exceptions(PENSTOCK_OPERATOR_EXCEPTIONS);
  Counts counts_;
  const char* only_ = std::getenv("PENSTOCK_OPERATOR_CASE");
};

TEST_P(OperatorCases, PassWholeAndCutWhereverPlainOnnxRuntimePasses) {
  engine_ = *make_engine(*registry_);
  const auto& group = GetParam();
  const auto cases = find_cases(root_, group.substr(0, group.find('/')));
  const bool all = is_network() || only_ != nullptr || cases.size() < kFewCases;
  Sweep sweep(all ? 1 : kCasesApart);
  for (const auto i : sweep.places(cases)) {
    const auto& test = cases[i];
    if (is_network() && test.name != group) continue;
    if (only_ == nullptr || test.name.find(only_) != test.name.npos) check(test);
  }
  std::cout << GetParam() << ": " << counts_.cases << " cases, plain ONNX Runtime passes "
            << counts_.plain << ", Penstock " << counts_.whole << " of these whole and, of "
            << counts_.several_nodes << " with several nodes, " << counts_.cuts << " cuts; "
            << counts_.excused << " exceptions\n";
  EXPECT_TRUE(only_ != nullptr || counts_.plain > 0);
}

INSTANTIATE_TEST_SUITE_P(OfOnnx, OperatorCases, testing::ValuesIn(kGroups), [](const auto& group) {
  std::string name = group.param;
  std::ranges::replace(name, '-', '_');
  std::ranges::replace(name, '/', '_');
  return name;
});

TEST(OperatorCaseGroups, HoldEveryLightCase) {
  const char* root = std::getenv("PENSTOCK_OPERATOR_CASES");
  if (root == nullptr) GTEST_SKIP() << "needs PENSTOCK_OPERATOR_CASES, as the others do";
  for (const auto& test : find_cases(root, "light")) {
    EXPECT_NE(std::ranges::find(kGroups, test.name), std::end(kGroups)) << test.name;
  }
}

}  // namespace
}  // namespace penstock::operator_cases
