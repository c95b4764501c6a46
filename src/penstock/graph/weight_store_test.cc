// Models written with a shared store: which weights stand in it, and how long it is kept.
#include "penstock/graph/weight_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "penstock/base/hash.h"
#include "penstock/graph/subgraph.h"
#include "penstock/graph/test_support.h"
#include "penstock/graph/writer.h"

namespace penstock::graph {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::Not;

/// Two layers, the second of which has a weight that the first has too.
Graph two_layers() {
  const std::string numbers = [] {
    std::string text;
    for (int i = 0; i < 1024; ++i) text += concat(i == 0 ? "" : ", ", i % 7);
    return text;
  }();
  return import_text(concat(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1, 32] x) => (float[1, 32] y) <float[32, 32] w = {)",
                            numbers, R"(}, float[32, 32] again = {)", numbers, R"(}> {
      a = MatMul(x, w)
      b = Relu(a)
      y = MatMul(b, again)
    })"));
}

ino_t inode_of(const fs::path& file) {
  struct stat found{};
  EXPECT_EQ(::stat(file.c_str(), &found), 0) << file;
  return found.st_ino;
}

std::vector<fs::path> write_all(const Graph& graph, const WeightStore& store,
                                const fs::path& file) {
  const auto files = write_onnx(Subgraph::whole(graph), file, {.weights = &store});
  EXPECT_TRUE(files) << files.error().message();
  return files ? *files : std::vector<fs::path>();
}

TEST(WeightStoreTest, HoldsEachContentOnce) {
  const auto graph = two_layers();
  const auto store = WeightStore::create(graph);
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_EQ((*store)->bytes(), 32 * 32 * 4U);
}

TEST(WeightStoreTest, ModelsHaveLinksOfOneFile) {
  const auto graph = two_layers();
  const auto store = WeightStore::create(graph);
  ASSERT_TRUE(store) << store.error().message();
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "other");
  const auto first = folder.path() / WeightStore::kFileName;
  const auto second = folder.path() / "other" / WeightStore::kFileName;
  EXPECT_THAT(write_all(graph, **store, folder.path() / "a.onnx"), Contains(first));
  EXPECT_THAT(write_all(graph, **store, folder.path() / "b.onnx"),
              Not(Contains(folder.path() / "b.onnx.data")));
  write_all(graph, **store, folder.path() / "other" / "c.onnx");
  EXPECT_EQ(inode_of(first), inode_of(second));
  const auto hash = sha256_of_file(first);
  ASSERT_TRUE(hash);
  EXPECT_EQ(*hash, (*store)->sha256());
  for (const auto* file : {"a.onnx", "b.onnx", "other/c.onnx"}) {
    EXPECT_EQ(canonical_hash(Subgraph::whole(import_file(folder.path() / file))),
              canonical_hash(Subgraph::whole(graph)));
  }
}

TEST(WeightStoreTest, WhatItDoesNotHoldStandsInAFileOfTheModels) {
  const auto store = WeightStore::create(import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1] x) => (float[1] y) { y = Relu(x) })"));
  ASSERT_TRUE(store) << store.error().message();
  const auto graph = two_layers();
  const TemporaryFolder folder;
  const auto file = folder.path() / "a.onnx";
  EXPECT_THAT(write_all(graph, **store, file), Contains(folder.path() / "a.onnx.data"));
  EXPECT_FALSE(fs::exists(folder.path() / WeightStore::kFileName));
  EXPECT_EQ(canonical_hash(Subgraph::whole(import_file(file))),
            canonical_hash(Subgraph::whole(graph)));
}

TEST(WeightStoreTest, IsGoneWithItsLastReferenceAndLink) {
  const auto graph = two_layers();
  const TemporaryFolder folder;
  const auto link = folder.path() / WeightStore::kFileName;
  {
    const auto store = WeightStore::create(graph);
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE((*store)->link_into(folder.path()));
    struct stat found{};
    ASSERT_EQ(::stat(link.c_str(), &found), 0);
    EXPECT_EQ(found.st_nlink, 2U);
  }
  struct stat found{};
  ASSERT_EQ(::stat(link.c_str(), &found), 0);
  EXPECT_EQ(found.st_nlink, 1U);
}

}  // namespace
}  // namespace penstock::graph
