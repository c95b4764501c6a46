// Inputs bound to a value when a model is imported: by text, tensor or file, and wrong values.
#include "penstock/graph/bind.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"
#include "penstock/tensor/npy.h"

namespace penstock::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kRated = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 2] x, int64 sr, float[n] scale) => (float[n, 2] y)
    <int64 known = {16000}, int64[2] column = {-1, 1}> {
      c = Equal(sr, known)
      s = Reshape(scale, column)
      y = If (c) <
        then_branch = fast () => (float[n, 2] a) { a = Mul(x, s) },
        else_branch = slow () => (float[n, 2] b) { b = Neg(x) }>
    })";

ImportOptions binding(const std::string& name, InputValue value) {
  ImportOptions options;
  options.constants[name] = std::move(value);
  return options;
}

std::string message(const std::string& name, InputValue value) {
  return error_of_text(kRated, binding(name, std::move(value))).message();
}

Tensor scalar(std::int64_t value) {
  Tensor tensor = Tensor::allocate(DType::kI64, {});
  tensor.as<std::int64_t>()[0] = value;
  return tensor;
}

TEST(BoundInputs, AreConstantsAndNoInputs) {
  const auto graph = import_text(kRated, binding("sr", "16000"));
  EXPECT_THAT(names_of(graph, graph.inputs), ElementsAre("x", "scale"));
  ASSERT_EQ(graph.bound_inputs.size(), 1U);
  EXPECT_EQ(graph.bound_inputs[0].name, "sr");
  EXPECT_EQ(graph.bound_inputs[0].value.as<std::int64_t>()[0], 16000);
  const auto sr = graph.find_value("sr");
  ASSERT_TRUE(sr);
  EXPECT_TRUE(graph.value(*sr).constant);
  EXPECT_FALSE(graph.value(*sr).is_input);
}

TEST(BoundInputs, MayBeTensorsAndFiles) {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "sr.npy").string();
  ASSERT_TRUE(write_npy(scalar(8000), file));
  for (const InputValue& value : {InputValue(scalar(8000)), InputValue(file)}) {
    const auto graph = import_text(kRated, binding("sr", value));
    ASSERT_EQ(graph.bound_inputs.size(), 1U);
    EXPECT_EQ(graph.bound_inputs[0].value.as<std::int64_t>()[0], 8000);
  }
}

TEST(BoundInputs, OfAnotherTypeAreToldHowNumpyConvertsThem) {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "scale.npy").string();
  ASSERT_TRUE(write_npy(Tensor::allocate(DType::kF64, {2}), file));
  EXPECT_THAT(message("sr", Tensor::allocate(DType::kI32, {})),
              HasSubstr("expected i64[], found i32[]; convert it with .astype('int64')"));
  EXPECT_THAT(message("scale", file), HasSubstr("; convert it with .astype('float32')"));
  EXPECT_THAT(message("sr", Tensor::allocate(DType::kI64, {3})), Not(HasSubstr("astype")));
}

TEST(BoundInputs, MayHaveADefault) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[2] x, float[2] gain = {1, 1}) => (float[2] y) { y = Mul(x, gain) })";
  for (const bool as_is : {false, true}) {
    ImportOptions options = binding("gain", "[3, 4]");
    options.as_is = as_is;
    const auto graph = import_text(text, options);
    EXPECT_THAT(names_of(graph, graph.inputs), ElementsAre("x"));
    ASSERT_EQ(graph.bound_inputs.size(), 1U);
    const auto& gain = graph.value(*graph.find_value("gain"));
    EXPECT_FALSE(gain.is_input);
    EXPECT_THAT(gain.constant->as<float>(), ElementsAre(3, 4));
  }
  EXPECT_THAT(error_of_text(text, binding("gain", "[3, 4, 5]")).message(),
              HasSubstr("--constant: input 'gain': expected f32[2]"));
}

TEST(BoundInputs, TellTheSizesOfOthers) {
  const auto graph = import_text(kRated, binding("scale", "[1, 2, 3]"));
  EXPECT_EQ(type_text(graph, "x"), "f32[3,2]");
  ImportOptions options = binding("scale", "0.5");
  options.shapes["x"] = {Dim{.size = 4}, Dim{.size = 2}};
  const auto filled = import_text(kRated, options);
  EXPECT_THAT(filled.bound_inputs[0].value.dims(), ElementsAre(4));
}

TEST(BoundInputs, StandInTheModelAsItIs) {
  ImportOptions options = binding("sr", "16000");
  options.as_is = true;
  const auto graph = import_text(kRated, options);
  EXPECT_THAT(names_of(graph, graph.inputs), ElementsAre("x", "scale"));
  EXPECT_THAT(ops_of(graph), ElementsAre("Equal", "Reshape", "If"));
  const TemporaryFolder folder;
  const auto file = folder.path() / "bound.onnx";
  ASSERT_TRUE(write_onnx(Subgraph::whole(graph), file, {}));
  const auto again = import_onnx(file, {});
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_THAT(names_of(*again, again->inputs), ElementsAre("x", "scale"));
}

TEST(BoundInputs, AreRefusedInOneSentence) {
  EXPECT_EQ(message("rate", "16000"),
            "model: --constant: the model has no input 'rate'; its inputs are 'x', 'sr', 'scale'");
  EXPECT_EQ(
      message("known", "1"),
      "model: --constant: 'known' has its value in the file already, as an initializer: leave "
      "it out here and change the file, or keep it replaceable (--parameter, in an application "
      "'parameters')");
  EXPECT_EQ(message("sr", "16000.5"),
            "model: --constant: input 'sr': expected an integer, as the input is i64, found "
            "'16000.5'");
  EXPECT_THAT(message("sr", "[1, 2]"), HasSubstr("expected i64[], found 2 values of shape [2]"));
  EXPECT_THAT(message("sr", Tensor::allocate(DType::kI32, {})),
              HasSubstr("input 'sr': expected i64[], found i32[]"));
  EXPECT_THAT(message("scale", "1"), HasSubstr("does not tell the sizes of f32[n]"));
  EXPECT_THAT(message("scale", "nan"), HasSubstr("does not tell the sizes of f32[n]"));
  EXPECT_THAT(message("scale", "[nan]"), HasSubstr("expected a finite number, found 'nan'"));
  EXPECT_THAT(message("scale", "absent.npy"), HasSubstr("absent.npy"));
  ImportOptions twice = binding("scale", "[1, 2, 3]");
  twice.constants["x"] = "[[1, 2]]";
  EXPECT_THAT(error_of_text(kRated, twice).message(), HasSubstr("bound elsewhere to another size"));
  ImportOptions other = binding("scale", "[1, 2, 3]");
  other.shapes["x"] = {Dim{.size = 4}, Dim{.size = 2}};
  EXPECT_THAT(error_of_text(kRated, other).message(),
              HasSubstr("expected f32[4], found 3 values of shape [3]"));
}

TEST(BoundInputs, OfAnOldFileHaveNoDefault) {
  const std::string text = R"(<ir_version: 3, opset_import: ["" : 8]>
      g (float[2] x, float[2] gain = {1, 1}) => (float[2] y) { y = Mul(x, gain) })";
  EXPECT_THAT(error_of_text(text, binding("gain", "1")).message(),
              HasSubstr("--constant: 'gain' has its value in the file already"));
}

TEST(BoundInputs, AreTensors) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
      g (seq(float[2]) s, optional(float[4]) o) => (int64 n) { n = SequenceLength(s) })";
  EXPECT_EQ(error_of_text(text, binding("s", "1")).message(),
            "model: --constant: input 's': expected an input that is a tensor, found "
            "sequence(f32[2]): leave it out here, and give its value with each frame (--input)");
  EXPECT_THAT(error_of_text(text, binding("o", "1")).message(),
              HasSubstr("input 'o': expected an input that is a tensor, found optional(f32[4])"));
  ImportOptions shaped;
  shaped.shapes["s"] = {Dim{.size = 1}};
  EXPECT_EQ(error_of_text(text, shaped).message(),
            "model: --shape: input 's': expected a tensor, found sequence(f32[2]), which has no "
            "dimensions to bind: leave it out here");
}

TEST(BoundInputs, AllMayBeBound) {
  ImportOptions options = binding("sr", "1");
  options.constants["x"] = "[[1, 2]]";
  options.constants["scale"] = "[2]";
  const auto graph = import_text(kRated, options);
  EXPECT_THAT(graph.inputs, IsEmpty());
  EXPECT_EQ(graph.bound_inputs.size(), 3U);
}

TEST(ParseConstant, TakesTheTextApart) {
  EXPECT_EQ(*parse_constant("sr=16000"), std::pair(std::string("sr"), std::string("16000")));
  EXPECT_EQ(*parse_constant("mask=run=3/mask.npy"),
            std::pair(std::string("mask"), std::string("run=3/mask.npy")));
  for (const std::string text : {"sr", "=1", "sr="}) {
    const auto refused = parse_constant(text);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr("--constant '" + text + "': expected NAME="));
  }
}

}  // namespace
}  // namespace penstock::graph
