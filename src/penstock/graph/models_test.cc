// The importer over real networks: the folder is named by PENSTOCK_TEST_MODELS.
#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> models() {
  std::vector<fs::path> found;
  const char* folder = std::getenv("PENSTOCK_TEST_MODELS");
  if (folder == nullptr) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "model.onnx")) found.push_back(entry.path() / "model.onnx");
  }
  std::ranges::sort(found);
  return found;
}

class ModelsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (models().empty()) {
      GTEST_SKIP() << "PENSTOCK_TEST_MODELS names no folder of NAME/model.onnx files";
    }
  }
};

TEST_F(ModelsTest, ComeBackTheSameWhenWrittenWhole) {
  const TemporaryFolder folder;
  for (const auto& file : models()) {
    SCOPED_TRACE(file.parent_path().filename());
    const auto graph = import_onnx(file, {});
    ASSERT_TRUE(graph) << graph.error().message();
    const auto target = folder.path() / "model.onnx";
    ASSERT_TRUE(write_onnx(Subgraph::whole(*graph), target, {}));
    const auto again = import_onnx(target, {});
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(canonical_hash(Subgraph::whole(*again)), canonical_hash(Subgraph::whole(*graph)));
  }
}

TEST_F(ModelsTest, HaveEveryValueTypedWhereAllOperatorsAreOnnxs) {
  for (const auto& file : models()) {
    SCOPED_TRACE(file.parent_path().filename());
    const auto graph = import_onnx(file, {});
    ASSERT_TRUE(graph) << graph.error().message();
    if ((*graph).info.opsets.contains("com.microsoft")) continue;
    for (const auto& value : (*graph).values) {
      EXPECT_NE(value.type.kind, Type::Kind::kUnknown) << value.name;
    }
  }
}

TEST_F(ModelsTest, GiveAWritableModelForEveryNodeOfKnownTypes) {
  for (const auto& file : models()) {
    SCOPED_TRACE(file.parent_path().filename());
    const auto graph = import_onnx(file, {});
    ASSERT_TRUE(graph) << graph.error().message();
    for (std::size_t i = 0; i < (*graph).nodes.size(); i += 7) {
      const std::vector<NodeId> nodes{static_cast<NodeId>(i)};
      const auto part = Subgraph::create(*graph, nodes);
      ASSERT_TRUE(part);
      const auto bytes = to_onnx_bytes(*part);
      if (!bytes && bytes.error().code == Code::kFailedPrecondition) continue;
      ASSERT_TRUE(bytes) << bytes.error().message();
      ImportOptions as_is;
      as_is.as_is = true;
      const auto again = import_onnx_bytes(*bytes, {}, as_is);
      EXPECT_TRUE(again) << again.error().message();
    }
  }
}

}  // namespace
}  // namespace penstock::graph
