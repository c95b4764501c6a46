// Imports of small models: what is cleaned, bound, inlined or refused, and external data.
#include "penstock/graph/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/external_files.h"
#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ParseShapeTest, ReadsSizesBoundsAndOpenDimensions) {
  const auto shape = parse_shape("in=put=1x1..512x?");
  ASSERT_TRUE(shape);
  EXPECT_EQ((*shape).first, "in=put");
  EXPECT_EQ(to_string(Type::tensor(DType::kF32, (*shape).second)), "f32[1,?<=512,?]");
  EXPECT_TRUE(parse_shape("scalar=")->second.empty());
}

TEST(ParseShapeTest, ShowsTheFormItExpects) {
  for (const char* text : {"x", "=1", "x=1x", "x=xx", "x=5..2", "x=3..5x4", "x=0..5", "x=1..0",
                           "x=-1", "x=1,2", "x=99999999999999999999"}) {
    const auto shape = parse_shape(text);
    ASSERT_FALSE(shape) << text;
    EXPECT_EQ(shape.error().code, Code::kInvalidArgument);
    EXPECT_EQ(shape.error().message(),
              concat("--shape '", text,
                     "': expected NAME=SIZExSIZE..., with 'x' between the sizes, such as "
                     "x=1x3x224x224; a size is a number, ? (any), or 1..MOST (no other least than "
                     "1), such as ids=1x1..512"));
  }
}

TEST(ImportTest, MakesInitialisersListedAsInputsConstants) {
  const Graph graph = import_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Add(x, w) })");
  EXPECT_THAT(names_of(graph, graph.inputs), ElementsAre("x"));
  EXPECT_TRUE(graph.value(*graph.find_value("w")).constant);
}

TEST(ImportTest, AsItIsKeepsOverridableInitialisersConstantsAndIdentities) {
  const char* text = R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] w = {1, 2}) => (float[2] y) <float[2] unused = {0, 0}> {
      c = Constant <value = float[2] {3, 4}> ()
      t = Identity(x)
      s = Add(t, c)
      y = Add(s, w)
    })";
  ImportOptions options;
  options.as_is = true;
  const Graph graph = import_text(text, options);
  EXPECT_THAT(ops_of(graph), ElementsAre("Constant", "Identity", "Add", "Add"));
  EXPECT_THAT(names_of(graph, graph.inputs), ElementsAre("x"));
  const auto& w = graph.value(*graph.find_value("w"));
  EXPECT_TRUE(w.is_input);
  EXPECT_TRUE(w.constant);
  EXPECT_TRUE(graph.find_value("unused"));
  // Written, it is again an input with a default.
  const auto bytes = to_onnx_bytes(Subgraph::whole(graph));
  ASSERT_TRUE(bytes);
  const auto again = import_onnx_bytes(*bytes, {}, options);
  ASSERT_TRUE(again);
  EXPECT_TRUE((*again).value(*(*again).find_value("w")).is_input);
  EXPECT_THAT(ops_of(*again), ElementsAre("Constant", "Identity", "Add", "Add"));
}

TEST(ImportTest, MakesEveryKindOfConstantNodeAnInitialiser) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float x) => (float a, int64 b, float[2] c, int64[2] d, string e, string[2] f, int64[1] h) {
      i = Constant <value_float = 1.5> ()
      a = Add(x, i)
      b = Constant <value_int = 7> ()
      c = Constant <value_floats = [1.0, 2.0]> ()
      d = Constant <value_ints = [1, 2]> ()
      e = Constant <value_string = "text"> ()
      f = Constant <value_strings = ["one", "two"]> ()
      [named] h = Constant <value = int64[1] {9}> ()
    })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Add"));
  EXPECT_THAT(names_of(graph, graph.outputs), ElementsAre("a", "b", "c", "d", "e", "f", "h"));
  const auto constant = [&](const char* name) {
    return *graph.value(*graph.find_value(name)).constant;
  };
  EXPECT_EQ(constant("i").as<float>()[0], 1.5F);
  EXPECT_EQ(constant("b").as<std::int64_t>()[0], 7);
  EXPECT_THAT(constant("c").as<float>(), ElementsAre(1.0F, 2.0F));
  EXPECT_THAT(constant("d").as<std::int64_t>(), ElementsAre(1, 2));
  EXPECT_THAT(constant("e").strings(), ElementsAre("text"));
  EXPECT_THAT(constant("f").strings(), ElementsAre("one", "two"));
  EXPECT_EQ(graph.removed.at("named"), "removed, a Constant that is now the constant 'h'");
}

TEST(ImportTest, RemovesIdentitiesDeadNodesAndUnusedInitialisers) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) <float[2] unused = {1, 2}> {
      [same] i = Identity(x)
      r = Relu(i)
      [gone] dead = Neg(r)
      [last] y = Identity(r)
    })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Relu"));
  EXPECT_THAT(names_of(graph, graph.nodes[0].outputs), ElementsAre("y"));
  EXPECT_EQ(graph.removed.at("i"), "removed, an Identity of 'x'");
  EXPECT_EQ(graph.removed.at("r"), "removed, the same as 'y'");
  EXPECT_EQ(graph.removed.at("last"), "removed, an Identity that gave 'y'");
  EXPECT_EQ(graph.removed.at("gone"), "removed, no output of the model depends on it");
  EXPECT_EQ(graph.removed.at("unused"), "removed, nothing reads it");
}

TEST(ImportTest, KeepsTheIdentityThatMakesAnInputAnOutput) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y, float[2] a, float[2] b) {
      y = Identity(x)
      a = Relu(x)
      b = Identity(a)
    })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Identity", "Relu", "Identity"));
  EXPECT_THAT(names_of(graph, graph.outputs), ElementsAre("y", "a", "b"));
}

TEST(ImportTest, NeverRenamesWhatANestedGraphReads) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x, bool c) => (float[2] y) {
      outer = Identity(x)
      k = Constant <value = float[2] {1, 2}> ()
      y = If (c) <
        then_branch = yes () => (float[2] a) { a = Add(outer, k) },
        else_branch = no () => (float[2] b) {
          inner = Constant <value = float[2] {3, 4}> ()
          b = Add(inner, x)
        }>
    })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Identity", "If"));
  EXPECT_THAT(names_of(graph, graph.nodes[1].captures), ElementsAre("x", "outer", "k"));
  EXPECT_TRUE(graph.value(*graph.find_value("k")).constant);
  const auto whole = Subgraph::whole(graph);
  EXPECT_THAT(names_of(graph, whole.constants()), ElementsAre("k"));
}

TEST(ImportTest, InlinesFunctions) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20, "local" : 1]>
    g (float[2] x) => (float[2] y) { [call] y = local.twice(x) }
    <domain: "local", opset_import: ["" : 20]>
    twice (a) => (b) { r = Relu(a)  b = Add(r, r) })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Relu", "Add"));
  EXPECT_THAT(names_of(graph, graph.outputs), ElementsAre("y"));
  EXPECT_THAT(graph.removed.at("call"), HasSubstr("a function that was inlined"));
  EXPECT_EQ(type_text(graph, "y"), "f32[2]");
}

TEST(ImportTest, GivesFunctionsTheirDefaultsAndWhatCallsGive) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20, "local" : 1]>
    g (float[2] x, bool c) => (float[2] y, float[2] z) {
      a = local.outer (x)
      y = local.outer <slope = 0.5> (a)
      z = If(c) <then_branch = yes () => (float[2] b) { b = local.outer (x) },
                 else_branch = no () => (float[2] d) { d = Neg(x) }>
    }
    <domain: "local", opset_import: ["" : 20, "local" : 1]>
    outer <slope: float = 0.25> (a) => (b) { b = local.inner <alpha: float = @slope> (a) }
    <domain: "local", opset_import: ["" : 20]>
    inner <alpha: float = 0.125> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) })");
  ASSERT_THAT(ops_of(graph), ElementsAre("LeakyRelu", "LeakyRelu", "If"));
  const auto alpha = [](const Node& node) { return std::get<float>(node.find("alpha")->value); };
  EXPECT_EQ(alpha(graph.nodes[0]), 0.25F);
  EXPECT_EQ(alpha(graph.nodes[1]), 0.5F);
}

TEST(ImportTest, TakesWhatOnnxRuntimeHasInTheDomainOfOnnx) {
  const Graph graph = import_text(R"(
    <ir_version: 8, opset_import: ["" : 14]>
    g (float[2, 4] x, float[4] s) => (float[2, 4] y) {
      t = LayerNormalization <axis = -1> (x, s)
      y = SimplifiedLayerNormalization <axis = -1> (t, s) })");
  EXPECT_THAT(ops_of(graph), ElementsAre("LayerNormalization", "SimplifiedLayerNormalization"));
  EXPECT_EQ(graph.nodes[0].domain, "");
}

/// The first number of what the last node reads beside `x`.
float number_of(const std::string& graph) {
  const auto imported = import_text("<ir_version: 8, opset_import: [\"\" : 17]> " + graph);
  const auto& add = imported.nodes.back();
  return *reinterpret_cast<const float*>(imported.value(add.inputs.at(1)).constant->data());
}

TEST(ImportTest, TakesTheConstantOfSeveralThatOnnxRuntimeTakes) {
  EXPECT_EQ(number_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] w = {3, 4}> {"
                      " y = Add(x, w) }"),
            3.0F);
  EXPECT_EQ(number_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {"
                      " w = Constant <value = float[2] {5, 6}> () y = Add(x, w) }"),
            5.0F);
  EXPECT_EQ(number_of("g (float[2] x) => (float[2] y) {"
                      " w = Constant <value = float[2] {5, 6}> ()"
                      " w = Constant <value = float[2] {7, 8}> () y = Add(x, w) }"),
            7.0F);
}

TEST(ImportTest, NamesPiecesOfASplitAsNothingElseIsNamed) {
  const auto graph = import_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    net (float[4] x, float[2] omitted_piece_0) => (float[2] y)
    <float[2] omitted_piece_1 = {1, 2}> { , y = Split (x) })");
  ASSERT_EQ(graph.inputs.size(), 2U);
  EXPECT_EQ(graph.value(graph.nodes.at(0).outputs.at(0)).name, "omitted_piece_2");
}

TEST(ImportTest, NamesTheOperatorSetsThatOnnxRuntimeTakesUnnamed) {
  const auto graph = import_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    net (float[2, 4] x) => (float[2, 4] y) { t = com.microsoft.Gelu (x)
      y = ai.onnx.ml.Scaler <offset = [0.0], scale = [2.0]> (t) })");
  EXPECT_EQ(graph.info.opsets.at("com.microsoft"), 1);
  EXPECT_EQ(graph.info.opsets.at("ai.onnx.ml"), 5);
}

TEST(ImportTest, TakesOnnxRuntimesOperatorsWhereOnnxsOperatorSetIsNotNamed) {
  const auto graph = import_text(R"(<ir_version: 8, opset_import: ["com.microsoft" : 1]>
    net (float[2, 4] x, float[4] s) => (float[2, 4] y) {
      t = com.microsoft.Gelu (x)
      y = SimplifiedLayerNormalization <axis = -1> (t, s) })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Gelu", "SimplifiedLayerNormalization"));
}

TEST(ImportTest, NamesTheNodeOfAnUnknownAttribute) {
  const auto refused = error_of_text(R"(
    <ir_version: 6, opset_import: ["" : 11]>
    g (int8[2, 4] x, float[4] s, int8[4] o) => (float[2, 4] y) {
      [half] y = DequantizeLinear <axis = 1> (x, s, o) })");
  for (const char* part :
       {"node 'half' (DequantizeLinear)", "Unrecognized attribute: axis", "it reads 'x', 's', 'o'",
        "repair the model", "operator set that was meant (it names 11)"}) {
    EXPECT_THAT(refused.message(), HasSubstr(part));
  }
}

TEST(ImportTest, KeepsOperatorsOfOtherDomains) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20, "acme" : 3]>
    g (float[2] x) => (float[2] y) { t = acme.Swish <beta = 0.5> (x)  y = Relu(t) })");
  EXPECT_THAT(ops_of(graph), ElementsAre("Swish", "Relu"));
  EXPECT_EQ(graph.nodes[0].domain, "acme");
  EXPECT_EQ(graph.info.opsets.at("acme"), 3);
  EXPECT_EQ(type_text(graph, "t"), "?");
  const auto bytes = to_onnx_bytes(Subgraph::whole(graph));
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(import_onnx_bytes(*bytes, {}, {}));
}

TEST(ImportTest, BelievesNoSingleRowThatOnlyTheFileTells) {
  const auto outputs_of = [](const std::string& rows) {
    const auto graph = import_text(R"(
      <ir_version: 10, opset_import: ["" : 20, "acme" : 3]>
      m (float[)" + rows + R"(, 7] x) => (float[1, 3] y, float[1, 7] z, float[5, 3] w) {
        y, w = acme.Classify(x)
        zero = Constant<value_ints = [0]>()
        z = ReduceSum(x, zero)
      })");
    return join(graph.outputs, " ", [&](ValueId id) { return to_string(graph.value(id).type); });
  };
  EXPECT_EQ(outputs_of("n"), "f32[?,3] f32[1,7] f32[5,3]");
  EXPECT_EQ(outputs_of("4"), "f32[1,3] f32[1,7] f32[5,3]");
}

TEST(ImportTest, AsksTheEngineForTypesThatOnnxCannotInfer) {
  ImportOptions options;
  options.engine.output_types = [](const std::string&) -> Result<std::vector<Type>> {
    return std::vector<Type>{Type::tensor(DType::kF32, std::vector<Dim>{{2, "", -1}})};
  };
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20, "acme" : 3]>
    g (float[2] x) => (float[m] y) { t = acme.Swish(x)  y = Relu(t) })",
                                  options);
  EXPECT_EQ(type_text(graph, "t"), "f32[2]");
  EXPECT_EQ(type_text(graph, "y"), "f32[2]");
}

TEST(ImportTest, GivesNodesWithoutANameOrWithATakenOneNamesOfTheirOwn) {
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) { a = Relu(x) [n] b = Neg(a) [n] c = Neg(b) [n_2] d = Abs(c) y = Relu(d) })");
  std::vector<std::string> names;
  for (const auto& node : graph.nodes) names.push_back(node.name);
  EXPECT_THAT(names, ElementsAre("Relu_0", "n", "n_2_2", "n_2", "Relu_4"));
}

TEST(ImportTest, BindsASymbolWhereverItStands) {
  ImportOptions options;
  options.shapes = {{"a", {Dim{4, "", -1}, Dim{3, "", -1}}}};
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[batch,3] a, float[batch,3] b) => (float[batch,3] y) { y = Add(a, b) })",
                                  options);
  EXPECT_EQ(type_text(graph, "b"), "f32[4,3]");
  EXPECT_EQ(type_text(graph, "y"), "f32[4,3]");
}

TEST(ImportTest, CarriesABoundThroughTheGraph) {
  ImportOptions options;
  options.shapes = {{"ids", {Dim{1, "", -1}, Dim{-1, "", 512}}}};
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1,n] ids) => (float[1,m] y) <int64[1] axis = {1}> {
      t = Relu(ids)
      y = Concat <axis = 1> (t, ids)
    })",
                                  options);
  EXPECT_EQ(type_text(graph, "ids"), "f32[1,n<=512]");
  EXPECT_EQ(type_text(graph, "t"), "f32[1,n<=512]");
  EXPECT_EQ(type_text(graph, "y"), "f32[1,m<=1024]");
}

TEST(ImportTest, RefusesShapesThatDoNotFitAndSaysWhy) {
  const char* text = R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[n,3] x) => (float[n,3] y) { y = Relu(x) })";
  const auto error = [&](const std::string& shape) {
    ImportOptions options;
    options.shapes.insert(*parse_shape(shape));
    return error_of_text(text, options);
  };
  EXPECT_EQ(error("z=1x3").code, Code::kNotFound);
  EXPECT_EQ(error("z=1x3").message(),
            "model: --shape: the model has no input 'z'; its inputs are 'x'");
  EXPECT_EQ(error("x=1x4").code, Code::kInvalidArgument);
  EXPECT_EQ(error("x=1x4").message(),
            "model: --shape: input 'x', dimension 1: expected [3], found [4]");
  EXPECT_EQ(error("x=1").message(),
            "model: --shape: input 'x': expected 2 dimensions, f32[n,3], found 1; give as many");
}

TEST(ImportTest, KeepsNamedParametersReplaceable) {
  ImportOptions options;
  options.parameters = {"w"};
  const Graph graph = import_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) { w = Constant <value = float[2] {1, 2}> ()  y = Add(x, w) })",
                                  options);
  EXPECT_THAT(names_of(graph, graph.parameters), ElementsAre("w"));
  EXPECT_THAT(names_of(graph, graph.inputs), ElementsAre("x"));
  const auto& w = graph.value(graph.parameters[0]);
  EXPECT_TRUE(w.is_parameter);
  EXPECT_THAT(w.constant->as<float>(), ElementsAre(1.0F, 2.0F));
}

TEST(ImportTest, RefusesAParameterThatIsNoInitialiser) {
  ImportOptions options;
  options.parameters = {"x"};
  const auto error = error_of_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) { y = Relu(x) })",
                                   options);
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message(),
              HasSubstr("--parameter: the model has no initialiser 'x'; it has none"));
}

TEST(ImportTest, OffersTheInitialisersThatCanBeParameters) {
  ImportOptions options;
  options.parameters = {"bias"};
  const auto error = error_of_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1] x) => (float[1] y)
      <float[1] a = {1}, float[1] b = {1}, float[1] c = {1}, float[1] d = {1}, float[1] e = {1},
       float[1] f = {1}> { y = Sum(x, a, b, c, d, e, f) })",
                                   options);
  EXPECT_THAT(error.message(), HasSubstr("it has 'a', 'b', 'c', 'd', 'e' and 1 more, among"));
}

TEST(ImportTest, NotesHowItWent) {
  const char* text = R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) { t = Identity(x) y = Relu(t) })";
  const auto graph = import_text(text);
  EXPECT_EQ(graph.import.file_nodes, 2U);
  EXPECT_EQ(graph.import.folded_nodes, 0U);
  EXPECT_TRUE(graph.import.not_folded);
  ImportOptions as_is;
  as_is.as_is = true;
  EXPECT_FALSE(import_text(text, as_is).import.not_folded);
}

TEST(ImportTest, RefusesWhatOnnxsCheckerRefusesInOneSentence) {
  const auto error = error_of_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) { y = Relu(x, x) })");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message(),
              HasSubstr("model: the Relu that makes 'y': ONNX's checker refuses it: "));
  EXPECT_THAT(error.message(), testing::Not(HasSubstr("\n")));
}

TEST(ImportTest, NamesTheNodeThatOnnxsCheckerDoesNot) {
  const auto told = [](const std::string& nodes) {
    return error_of_text(
               "<ir_version: 10, opset_import: [\"\" : 20]>\n"
               "g (float[2] x, bool c) => (float[2] y) { a = Neg(x) " +
               nodes + " }")
        .message();
  };
  EXPECT_EQ(told("[join] y = Concat(a, x)"),
            "model: node 'join' (Concat): ONNX's checker refuses it: Required attribute 'axis' is "
            "missing; repair the model, or export it again");
  EXPECT_THAT(told("y = Reluu(a)"),
              HasSubstr("model: the Reluu that makes 'y': ONNX's checker refuses it: No Op "
                        "registered for Reluu with domain_version of 20; it reads 'a'; repair"));
  EXPECT_THAT(
      told("[choice] y = If (c) <then_branch = t () => (float[2] p) { p = Concat(a, x) }, "
           "else_branch = e () => (float[2] q) { q = Abs(a) }>"),
      HasSubstr("model: node 'choice' (If): ONNX's checker refuses it: Required attribute"));
}

TEST(ImportTest, SaysWhatIsNoModel) {
  const auto message = [](std::string_view bytes) {
    const auto graph = import_onnx_bytes(bytes, {}, {});
    EXPECT_FALSE(graph);
    EXPECT_EQ(graph.error().code, Code::kDataLoss);
    return graph.error().message();
  };
  EXPECT_EQ(message(""), "model: not an ONNX model (it is empty); export or copy it again");
  EXPECT_EQ(message("\xff\xff\xff"),
            "model: not an ONNX model (it is truncated, damaged, or of another format); export or "
            "copy it again");
  EXPECT_EQ(message("\x08\x07"),
            "model: not an ONNX model (it holds no graph); export or copy it again");
  const TemporaryFolder folder;
  const auto absent = import_onnx(folder.path() / "absent.onnx", {});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_THAT(absent.error().message(), HasSubstr("absent.onnx': no such file; check the path"));
  EXPECT_EQ(import_onnx(folder.path(), {}).error().code, Code::kNotFound);
}

TEST(ImportTest, SaysNothingOfItsOwnOnStandardOutput) {
  testing::internal::CaptureStdout();
  const Graph graph = import_text(R"(
    <ir_version: 4, opset_import: ["" : 7]>
    g (float[1,1,2,2] x) => (float[1,1,2,2] y) { y = Affine <alpha = 2.0, beta = 1.0> (x) })");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(graph.nodes[0].domain, "");
}

TEST(ImportTest, ReadsOldFilesAndRaisesTheirIrVersion) {
  const Graph graph = import_text(R"(
    <ir_version: 3, opset_import: ["ai.onnx" : 7]>
    g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Add(x, w) })");
  EXPECT_EQ(graph.info.ir_version, 4);
  EXPECT_EQ(graph.info.opsets.at(""), 7);
  EXPECT_THAT(names_of(graph, graph.inputs), ElementsAre("x"));
}

/// `graph.sparse_initializer`, which ONNX's text cannot say, to be appended to a model's bytes.
std::string sparse_initialiser(const Tensor& values, const Tensor& indices, char size) {
  const auto wrap = [](char tag, const std::string& content) {
    return std::string(1, tag) + static_cast<char>(content.size()) + content;
  };
  const auto sparse = wrap(0x0a, *tensor_to_onnx(values, "w")) +
                      wrap(0x12, *tensor_to_onnx(indices, "")) + std::string("\x18") + size;
  return wrap(0x3a, wrap(0x7a, sparse));
}

TEST(ImportTest, MakesSparseInitialisersDense) {
  Tensor values = Tensor::allocate(DType::kF32, {2});
  values.as<float>()[0] = 5;
  values.as<float>()[1] = 6;
  Tensor indices = Tensor::allocate(DType::kI64, {2});
  indices.as<std::int64_t>()[0] = 1;
  indices.as<std::int64_t>()[1] = 3;
  const auto model = bytes_of_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1] x) => (float[4] y) { y = Add(x, w) })");
  const auto graph = import_onnx_bytes(model + sparse_initialiser(values, indices, 4), {}, {});
  ASSERT_TRUE(graph) << graph.error().message();
  const auto& w = *(*graph).value(*(*graph).find_value("w")).constant;
  EXPECT_THAT(w.as<float>(), ElementsAre(0.0F, 5.0F, 0.0F, 6.0F));
  EXPECT_EQ(type_text(*graph, "y"), "f32[4]");

  const auto outside = import_onnx_bytes(model + sparse_initialiser(values, indices, 3), {}, {});
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().message(), "model: sparse tensor 'w': index 1 is outside its shape");
}

class ExternalDataTest : public testing::Test {
 protected:
  Result<Graph> import_with(const std::string& entries) {
    const auto bytes = bytes_of_text(R"(
      <ir_version: 10, opset_import: ["" : 20]>
      g (float[4] x) => (float[4] y) <float[4] w = [)" +
                                     entries + R"(]> { y = Add(x, w) })");
    return import_onnx(folder.path() / "inner" / put_model(bytes), {});
  }
  std::string put_model(const std::string& bytes) {
    std::filesystem::create_directories(folder.path() / "inner");
    std::ofstream(folder.path() / "inner" / "model.onnx", std::ios::binary) << bytes;
    return "model.onnx";
  }
  std::string floats(std::size_t count) {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(i);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    return bytes;
  }
  TemporaryFolder folder;
};

TEST_F(ExternalDataTest, IsMappedFromItsFile) {
  put_model("");
  std::ofstream(folder.path() / "inner" / "w.bin", std::ios::binary) << floats(8);
  const auto graph = import_with(R"("location" : "w.bin", "offset" : "16", "length" : "16")");
  ASSERT_TRUE(graph) << graph.error().message();
  const auto& w = *(*graph).value(*(*graph).find_value("w")).constant;
  EXPECT_THAT(w.as<float>(), ElementsAre(4.0F, 5.0F, 6.0F, 7.0F));
}

TEST_F(ExternalDataTest, OfALengthOfZeroIsAsLongAsItsShape) {
  put_model("");
  std::ofstream(folder.path() / "inner" / "w.bin", std::ios::binary) << floats(6);
  const auto graph = import_with(R"("location" : "w.bin", "offset" : "4", "length" : "0")");
  ASSERT_TRUE(graph) << graph.error().message();
  const auto& w = *(*graph).value(*(*graph).find_value("w")).constant;
  EXPECT_THAT(w.as<float>(), ElementsAre(1.0F, 2.0F, 3.0F, 4.0F));
  const auto beyond = import_with(R"("location" : "w.bin", "offset" : "12", "length" : "0")");
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message(), HasSubstr("expected 16 bytes at offset 12 of 'w.bin'"));
}

TEST_F(ExternalDataTest, IsFoundByALocationThatGoesRoundInsideTheFolder) {
  put_model("");
  std::filesystem::create_directories(folder.path() / "inner" / "sub");
  std::ofstream(folder.path() / "inner" / "sub" / "w.bin", std::ios::binary) << floats(4);
  for (const std::string location : {"sub/../sub/w.bin", "./sub/./w.bin"}) {
    const auto graph = import_with("\"location\" : \"" + location + "\"");
    EXPECT_TRUE(graph) << graph.error().message();
  }
}

TEST_F(ExternalDataTest, NeverLeavesTheModelsFolder) {
  put_model("");
  std::ofstream(folder.path() / "secret.bin", std::ios::binary) << floats(4);
  std::filesystem::create_symlink("../secret.bin", folder.path() / "inner" / "link.bin");
  const std::string absolute = (folder.path() / "secret.bin").string();
  for (const std::string& location :
       std::vector<std::string>{"../secret.bin", "a/../../secret.bin", "link.bin", absolute}) {
    const auto graph = import_with("\"location\" : \"" + location + "\"");
    ASSERT_FALSE(graph) << location;
    EXPECT_EQ(graph.error().code, Code::kInvalidArgument);
    EXPECT_THAT(graph.error().message(),
                HasSubstr("tensor 'w': expected external data in the model's folder, found"));
    const auto checked = check_external_files(folder.path() / "inner/model.onnx");
    ASSERT_FALSE(checked) << location;
    EXPECT_EQ("tensor 'w': " + checked.error().message(),
              graph.error().message().substr(graph.error().message().find("tensor 'w'")));
  }
}

TEST_F(ExternalDataTest, IsFoundInEveryTensorThatAModelHolds) {
  const std::string outside = R"(["location" : "../secret.bin"])";
  for (const std::string& body : std::vector<std::string>{
           "<float[4] w = " + outside + "> { y = Add(x, w) }",
           "{ w = Constant <value = float[4] w " + outside + "> () y = Add(x, w) }",
           "{ c = Constant <value = bool {1}> () y = If (c) <then_branch = t () => (float[4] a) "
           "<float[4] w = " +
               outside +
               "> { a = Add(x, w) }, else_branch = e () => (float[4] b) "
               "{ b = Identity(x) }> }"}) {
    put_model(bytes_of_text(R"(<ir_version: 10, opset_import: ["" : 20]>
      g (float[4] x) => (float[4] y) )" +
                            body));
    const auto checked = check_external_files(folder.path() / "inner/model.onnx");
    ASSERT_FALSE(checked) << body;
    EXPECT_EQ(checked.error().code, Code::kInvalidArgument) << checked.error().message();
  }
}

TEST_F(ExternalDataTest, IsNotSoughtInWhatIsNoModel) {
  put_model("no model");
  const auto checked = check_external_files(folder.path() / "inner/model.onnx");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::kDataLoss);
}

TEST_F(ExternalDataTest, InTheFolderPassesTheCheck) {
  put_model("");
  std::ofstream(folder.path() / "inner" / "w.bin", std::ios::binary) << floats(4);
  ASSERT_TRUE(import_with(R"("location" : "w.bin")"));
  EXPECT_TRUE(check_external_files(folder.path() / "inner/model.onnx"));
  EXPECT_THAT(*external_files(folder.path() / "inner/model.onnx"), ::testing::ElementsAre("w.bin"));
}

TEST_F(ExternalDataTest, OutsideItsFileIsRefusedWithBothSizes) {
  put_model("");
  std::ofstream(folder.path() / "inner" / "w.bin", std::ios::binary) << floats(4);
  const auto beyond = import_with(R"("location" : "w.bin", "offset" : "8")");
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, Code::kDataLoss);
  EXPECT_THAT(beyond.error().message(),
              HasSubstr("tensor 'w': expected 16 bytes at offset 8 of 'w.bin', found a file of 16 "
                        "bytes; fetch the file again"));
  const auto length = import_with(R"("location" : "w.bin", "length" : "12")");
  ASSERT_FALSE(length);
  EXPECT_THAT(length.error().message(),
              HasSubstr("expected 16 bytes for its shape, found length 12"));
  const auto absent = import_with(R"("location" : "absent.bin")");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_FALSE(import_with(R"("location" : "w.bin", "offset" : "-4")"));
}

TEST(ImportTest, RefusesExternalDataOfBytesWithoutAFolder) {
  const auto error = error_of_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[4] x) => (float[4] y) <float[4] w = ["location" : "w.bin"]> { y = Add(x, w) })");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("the model has no folder; import it from its file"));
}

TEST(ImportTest, RefusesAShapeThatTheDataDoNotFill) {
  const auto error = error_of_text(R"(
    <ir_version: 10, opset_import: ["" : 20]>
    g (float[1] x) => (float[1] y) <float[4611686018427387904] w = {1}> { y = Add(x, w) })");
  EXPECT_EQ(error.code, Code::kDataLoss);
  EXPECT_THAT(error.message(), HasSubstr("tensor 'w'"));
}

}  // namespace
}  // namespace penstock::graph
