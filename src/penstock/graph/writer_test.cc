// Models and tensors written and read again: names at cuts, data files, parameters, annotations.
#include "penstock/graph/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kWrittenModel = R"(
  <ir_version: 8, opset_import: ["" : 17], metadata_props: ["author" : "me"]>
  net (float[n,4] x) => (float[n,2] y) <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[2] b = {1, 2}> {
    [product] t = MatMul(x, w)
    [sum] s = Add(t, b)
    [end] y = Relu(s)
  })";

TEST(WriterTest, WritesAWholeGraphThatComesBackTheSame) {
  const Graph graph = import_text(kWrittenModel);
  const TemporaryFolder folder;
  const auto files = write_onnx(Subgraph::whole(graph), folder.path() / "m.onnx", {});
  ASSERT_TRUE(files) << files.error().message();
  EXPECT_THAT(*files, ElementsAre(folder.path() / "m.onnx"));
  const Graph again = import_file(folder.path() / "m.onnx");
  EXPECT_EQ(canonical_hash(Subgraph::whole(again)), canonical_hash(Subgraph::whole(graph)));
  EXPECT_EQ(again.info.ir_version, 8);
  EXPECT_EQ(again.info.metadata.at("author"), "me");
  EXPECT_EQ(again.nodes[0].name, "product");
}

TEST(WriterTest, WritesAPartWithTheOriginalNamesAtTheCuts) {
  const Graph graph = import_text(kWrittenModel);
  const std::vector<NodeId> nodes{NodeId{1}};
  const auto part = Subgraph::create(graph, nodes);
  ASSERT_TRUE(part);
  const auto bytes = to_onnx_bytes(*part);
  ASSERT_TRUE(bytes);
  const auto again = import_onnx_bytes(*bytes, {}, {});
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_THAT(names_of(*again, (*again).inputs), ElementsAre("t"));
  EXPECT_THAT(names_of(*again, (*again).outputs), ElementsAre("s"));
  EXPECT_EQ(type_text(*again, "t"), "f32[n,2]");
}

TEST(WriterTest, WritesTheConstantsThatModelsShareOnce) {
  const Graph graph = import_text(kWrittenModel);
  const Graph copy = graph;  // Tensors share their storage.
  const TemporaryFolder folder;
  WriteOptions options;
  options.external_from_bytes = 8;
  const auto first = folder.path() / "m.onnx", second = folder.path() / "m.b2.onnx";
  const ModelFile models[] = {{Subgraph::whole(graph), first}, {Subgraph::whole(copy), second}};
  const auto files = write_onnx(models, options);
  ASSERT_TRUE(files) << files.error().message();
  EXPECT_THAT(*files, ElementsAre(first, second, folder.path() / "m.onnx.data"));
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "m.onnx.data"), 64 + 8);
  for (const auto& file : {first, second}) {
    EXPECT_EQ(canonical_hash(Subgraph::whole(import_file(file))),
              canonical_hash(Subgraph::whole(graph)));
  }
}

TEST(WriterTest, PutsLargeConstantsInADataFileAtAlignedOffsets) {
  const Graph graph = import_text(kWrittenModel);
  const TemporaryFolder folder;
  WriteOptions options;
  options.external_from_bytes = 8;
  const auto files = write_onnx(Subgraph::whole(graph), folder.path() / "m.onnx", options);
  ASSERT_TRUE(files);
  EXPECT_THAT(*files, ElementsAre(folder.path() / "m.onnx", folder.path() / "m.onnx.data"));
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "m.onnx.data"), 64U + 8U);
  const Graph again = import_file(folder.path() / "m.onnx");
  EXPECT_EQ(canonical_hash(Subgraph::whole(again)), canonical_hash(Subgraph::whole(graph)));
}

TEST(WriterTest, CarriesLargeInlineConstantsThroughUnchanged) {
  constexpr int kCount = 20000;
  std::string numbers;
  for (int i = 0; i < kCount; ++i) numbers += concat(i == 0 ? "" : ", ", i);
  const Graph graph = import_text(concat(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1] x) => (float[20000] y, float[20000] z) <float[20000] w = {)",
                                         numbers, R"(}> {
      y = Add(x, w)
      c = Constant <value = float[20000] {)",
                                         numbers, R"(}> ()
      z = Mul(x, c)
    })"));
  const TemporaryFolder folder;
  WriteOptions options;
  options.external_from_bytes = 0;
  ASSERT_TRUE(write_onnx(Subgraph::whole(graph), folder.path() / "m.onnx", options));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "m.onnx.data"));
  const Graph again = import_file(folder.path() / "m.onnx");
  EXPECT_EQ(canonical_hash(Subgraph::whole(again)), canonical_hash(Subgraph::whole(graph)));
  for (const char* name : {"w", "c"}) {
    const auto& constant = *again.value(*again.find_value(name)).constant;
    EXPECT_EQ(constant.as<float>()[kCount - 1], kCount - 1);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(constant.data()) % Tensor::kAlignment, 0U);
  }
}

TEST(WriterTest, MayReplaceTheFileItWasImportedFrom) {
  const TemporaryFolder folder;
  WriteOptions options;
  options.external_from_bytes = 8;
  const auto file = folder.path() / "m.onnx";
  ASSERT_TRUE(write_onnx(Subgraph::whole(import_text(kWrittenModel)), file, options));
  const Graph mapped = import_file(file);
  const auto hash = canonical_hash(Subgraph::whole(mapped));
  ASSERT_TRUE(write_onnx(Subgraph::whole(mapped), file, options));
  EXPECT_EQ(canonical_hash(Subgraph::whole(import_file(file))), hash);
}

TEST(WriterTest, ListsParametersAsInputsAndNotTheirDefaults) {
  ImportOptions options;
  options.parameters = {"b"};
  const Graph graph = import_text(kWrittenModel, options);
  const auto bytes = to_onnx_bytes(Subgraph::whole(graph));
  ASSERT_TRUE(bytes);
  const auto again = import_onnx_bytes(*bytes, {}, {});
  ASSERT_TRUE(again);
  EXPECT_THAT(names_of(*again, (*again).inputs), ElementsAre("x", "b"));
}

TEST(WriterTest, WritesAndReadsPipelineStagesAndLayerAnnotations) {
  const Graph graph = import_text(kWrittenModel);
  const TemporaryFolder folder;
  WriteOptions options;
  options.pipeline_stages = {0, 0, 1};
  options.layer_annotations = {{2, "tail"}};
  ASSERT_TRUE(write_onnx(Subgraph::whole(graph), folder.path() / "m.onnx", options));
  const Graph again = import_file(folder.path() / "m.onnx");
  EXPECT_EQ(again.info.ir_version, 11);
  EXPECT_THAT(again.pipeline_stages, ElementsAre(0, 0, 1));
  EXPECT_EQ(again.nodes[2].metadata.at("layer_ann"), "tail");
}

TEST(WriterTest, WritesOutputsThatAreConstantsOrInputs) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] x, float[2] c) { c = Constant <value = float[2] {1, 2}> () })");
  EXPECT_TRUE(graph.nodes.empty());
  const auto bytes = to_onnx_bytes(Subgraph::whole(graph));
  ASSERT_TRUE(bytes);
  const auto again = import_onnx_bytes(*bytes, {}, {});
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_THAT(names_of(*again, (*again).outputs), ElementsAre("x", "c"));
}

TEST(WriterTest, RefusesToStartAModelAtAnUnknownType) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20, "acme" : 1]>
    g (float[2] x) => (float[2] y) { [swish] t = acme.Swish(x)  y = Relu(t) })");
  const std::vector<NodeId> nodes{NodeId{1}};
  const auto part = Subgraph::create(graph, nodes);
  ASSERT_TRUE(part);
  const auto bytes = to_onnx_bytes(*part);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(bytes.error().message(),
            "tensor 't' (made by node 'swish', operator acme.Swish): its type is unknown, so no "
            "model can start there; cut elsewhere, or give the library of its operator "
            "(--custom-ops)");
}

TEST(WriterTest, SaysWhichFileItCannotWrite) {
  const Graph graph = import_text(kWrittenModel);
  const auto files = write_onnx(Subgraph::whole(graph), "/no/such/folder/m.onnx", {});
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code, Code::kNotFound);
  EXPECT_THAT(files.error().message(),
              HasSubstr("file '/no/such/folder/m.onnx': cannot be written"));
}

TEST(TensorOnnxTest, RoundTripsNumbersStringsAndPackedKinds) {
  Tensor numbers = Tensor::allocate(DType::kI64, {2, 1});
  numbers.as<std::int64_t>()[1] = -5;
  const auto back = tensor_from_onnx(*tensor_to_onnx(numbers, "n"));
  ASSERT_TRUE(back);
  EXPECT_THAT((*back).as<std::int64_t>(), ElementsAre(0, -5));
  EXPECT_THAT((*back).dims(), ElementsAre(2, 1));

  const auto texts = tensor_from_onnx(*tensor_to_onnx(Tensor::strings({2}, {"a", ""}), "s"));
  ASSERT_TRUE(texts);
  EXPECT_THAT((*texts).strings(), ElementsAre("a", ""));

  const auto packed = tensor_from_onnx(*tensor_to_onnx(Tensor::allocate(DType::kI4, {3}), "p"));
  ASSERT_TRUE(packed);
  EXPECT_EQ((*packed).bytes(), 2U);
}

TEST(TensorOnnxTest, RefusesWhatIsNoTensor) {
  const auto tensor = tensor_from_onnx("\xff\xff");
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code, Code::kDataLoss);
  EXPECT_EQ(tensor.error().message(),
            "expected a serialised TensorProto, found 2 bytes that are none");
}

TEST(ValueOnnxTest, ReadsSequencesAndAbsentOptionals) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (seq(float[2]) s, optional(float[2]) o) => (seq(float[2]) t, bool h) {
      t = Identity(s)
      h = OptionalHasElement(o)
    })");
  // A SequenceProto of two tensors: elem_type 1, tensor_values twice.
  const auto element = *tensor_to_onnx(Tensor::allocate(DType::kF32, {2}), "");
  const std::string entry = "\x1a" + std::string(1, static_cast<char>(element.size())) + element;
  const auto sequence =
      value_from_onnx("\x10\x01" + entry + entry, graph.value(graph.inputs[0]).type);
  ASSERT_TRUE(sequence) << sequence.error().message();
  EXPECT_EQ((*sequence).elements().size(), 2U);
  const auto absent =
      value_from_onnx(std::string("\x10\x00", 2), graph.value(graph.inputs[1]).type);
  ASSERT_TRUE(absent);
  EXPECT_EQ((*absent).kind(), Tensor::Kind::kNone);
}

}  // namespace
}  // namespace penstock::graph
