#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "penstock/backend/evaluate.h"
#include "penstock/backend/registry.h"
#include "penstock/graph/onnx_text.h"
#include "tests/support/temporary_folder.h"
#include "tests/synthetic_backend/settings.h"

namespace penstock::synthetic {
namespace {

constexpr const char* kModel = R"(
  <ir_version: 10, opset_import: ["" : 17]>
  g (float[3] x) => (float[3] y) {
    t = Relu(x)
    y = Neg(t)
  })";

/// The backends as a process finds them that was told `settings`.
class SyntheticBackendTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("PENSTOCK_PLUGIN_PATH", PENSTOCK_SYNTHETIC_BACKENDS, 1);
    auto model = graph::onnx_bytes_of_text(kModel);
    ASSERT_TRUE(model) << model.error().message();
    model_ = *std::move(model);
  }

  std::shared_ptr<backend::Backend> load(const std::string& settings,
                                         const std::string& name = "synthetic_a") {
    const auto file = folder_.path() / "settings.json";
    std::ofstream(file) << settings;
    setenv("PENSTOCK_SYNTHETIC", file.c_str(), 1);
    auto found = backend::Registry::load().find(name);
    if (found) return *std::move(found);
    ADD_FAILURE() << found.error().message();
    return nullptr;
  }
  Result<std::vector<Tensor>> run(const std::string& settings) {
    auto x = Tensor::allocate(DType::kF32, {3});
    std::ranges::copy(std::array{-1.0F, 0.0F, 2.0F}, x.as<float>().begin());
    return backend::evaluate(*load(settings), model_, {x});
  }

  const TemporaryFolder folder_;
  std::string model_;
};

TEST_F(SyntheticBackendTest, ComputesWhatTheModelSays) {
  const auto outputs = run(R"({"synthetic_a": {}})");
  ASSERT_TRUE(outputs) << outputs.error().message();
  const auto y = outputs->front().as<float>();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector<float>{0, 0, -2}));
}

TEST_F(SyntheticBackendTest, TakesAtLeastTheTimeOfItsSettings) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(run(R"({"synthetic_a": {"seconds": {"Relu": 0.02, "*": 0.01}}})"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(30));
}

TEST_F(SyntheticBackendTest, AddsAnErrorWhereItIsToldTo) {
  const auto outputs =
      run(R"({"synthetic_a": {"faults": [{"do": "wrong", "on": "Neg", "by": 5}]}})");
  ASSERT_TRUE(outputs) << outputs.error().message();
  EXPECT_EQ(outputs->front().as<float>()[2], 3);
}

TEST_F(SyntheticBackendTest, RefusesAnOperatorThatItsRulesClaim) {
  const auto outputs = run(R"({"synthetic_a": {"faults": [{"do": "refuse", "on": "Relu"}]}})");
  ASSERT_FALSE(outputs);
  EXPECT_EQ(outputs.error().code, Code::kUnimplemented);
  EXPECT_EQ(outputs.error().message(), "operator Relu is not implemented");
}

TEST_F(SyntheticBackendTest, LeavesModelsWithoutTheOperatorAlone) {
  EXPECT_TRUE(run(R"({"synthetic_a": {"faults": [{"do": "crash", "on": "Conv"}]}})"));
  EXPECT_TRUE(run(R"({"synthetic_a": {"faults": [{"do": "crash", "nodes": 77}]}})"));
}

/// A process that dies leaves its temporary folders: the processes that this one starts have them
/// in a folder of this one's, and go with it.
class OthersLeaveTheirFoldersIn {
 public:
  explicit OthersLeaveTheirFoldersIn(const std::filesystem::path& folder) {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    setenv("TMPDIR", folder.c_str(), 1);
  }
  OthersLeaveTheirFoldersIn(const OthersLeaveTheirFoldersIn&) = delete;
  OthersLeaveTheirFoldersIn& operator=(const OthersLeaveTheirFoldersIn&) = delete;
  ~OthersLeaveTheirFoldersIn() {
    before_ ? setenv("TMPDIR", before_->c_str(), 1) : unsetenv("TMPDIR");
  }

 private:
  std::optional<std::string> before_;
};

TEST_F(SyntheticBackendTest, EndsTheProcessWhereItIsToldTo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const OthersLeaveTheirFoldersIn folder(folder_.path());
  EXPECT_DEATH((void)run(R"({"synthetic_a": {"faults": [{"do": "crash"}]}})"), "");
  EXPECT_DEATH((void)run(R"({"synthetic_a": {"faults": [{"do": "abort", "when": "compile"}]}})"),
               "");
  EXPECT_EXIT((void)run(R"({"synthetic_a": {"faults": [{"do": "exit"}]}})"),
              testing::ExitedWithCode(3), "");
  const std::filesystem::directory_iterator left(folder_.path());
  EXPECT_EQ(std::distance(begin(left), end(left)), 3);
}

TEST_F(SyntheticBackendTest, LogsWhatItCompilesAndRuns) {
  const auto log = folder_.path() / "log";
  ASSERT_TRUE(run(concat(R"({"synthetic_a": {"log": ")", log.string(), "\"}}")));
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  EXPECT_TRUE(text.str().starts_with("synthetic_a compile ")) << text.str();
  EXPECT_NE(text.str().find("\nsynthetic_a run "), std::string::npos) << text.str();
}

TEST_F(SyntheticBackendTest, AnAcceleratorIsNoCpuAndHasMemoryOfItsOwn) {
  const auto backend = load(R"({"synthetic_a": {"accelerator": {"name": "made-up"}}})");
  const auto there = *device::parse_device("cuda:0");
  const auto missing = *device::parse_device("cuda:1");
  EXPECT_TRUE(backend->accepts(there));
  EXPECT_FALSE(backend->accepts(*device::parse_device("cpu:0")));
  EXPECT_EQ(backend->device_name(there), "made-up");
  EXPECT_EQ(backend->device_name(missing), "");
  const auto memory = backend->memory(there);
  ASSERT_TRUE(memory);
  EXPECT_FALSE(memory->allocate(DType::kF32, 4)->in_host_memory());
  EXPECT_EQ(backend->memory(missing)->allocate(DType::kF32, 4).error().code, Code::kUnavailable);
  backend::CompileRequest request;
  request.bytes = model_;
  request.device = missing;
  EXPECT_EQ(backend->compile(request).error().code, Code::kUnavailable);
}

TEST_F(SyntheticBackendTest, IsUnavailableWhereTheFileDoesNotNameIt) {
  const auto backend = load(R"({"synthetic_a": {}})", "synthetic_b");
  EXPECT_NE(backend->describe().unavailable.find("no entry 'synthetic_b'"), std::string::npos);
  EXPECT_EQ(backend->compile({}).error().code, Code::kUnavailable);
}

TEST(SyntheticSettingsTest, DiscountsEachNodeByFusion) {
  const auto settings = parse_settings(
      R"({"a": {"seconds": {"*": 3}, "fusion": 0.9, "speedup": 0.5, "seconds_per_call": 1}})", "a");
  ASSERT_TRUE(settings) << settings.error().message();
  graph::Graph graph;
  graph.nodes.resize(2);
  EXPECT_DOUBLE_EQ(settings->seconds_of(graph, Spot{}), 5.7 + 1);
  EXPECT_DOUBLE_EQ(settings->seconds_of(graph, Spot{.threads = 3, .cores = 3}), 5.7 / 2 + 1);
}

TEST(SyntheticSettingsTest, SaysWhatIsWrongWhere) {
  EXPECT_EQ(parse_settings(R"({"a": {"faults": [{"do": "dance"}]}})", "a").error().message(),
            "a.faults[0].do: expected crash, abort, exit, hang, eat_memory, refuse, wrong, zeros, "
            "shifted, stale, other, block, last_row, bf16, swapped, found "
            "'dance'");
  EXPECT_EQ(parse_settings(R"({"a": {"fusion": -1}})", "a").error().message(),
            "a.fusion: expected 0 or more, found -1");
}

}  // namespace
}  // namespace penstock::synthetic
