// Settings, drops, open shapes, states and refusals of functions from a library built for it.
#include "penstock/function/function.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::function {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::filesystem::path library(const std::string& name) {
  return std::filesystem::path(PENSTOCK_TEST_FUNCTIONS) / ("libpenstock_test_" + name + ".so");
}

Tensor row(std::array<float, 4> values) {
  Tensor tensor = Tensor::allocate(DType::kF32, {4});
  std::ranges::copy(values, tensor.as<float>().begin());
  return tensor;
}

struct Compiled {
  std::unique_ptr<backend::Executable> executable;
  std::unique_ptr<backend::Context> context;
};

Result<Compiled> compile(const std::string& name, Settings settings = {}, int replicas = 1) {
  FunctionBackend backend({});
  backend::CompileRequest request;
  request.file = library("functions");
  request.options = std::move(settings);
  request.options["function"] = name;
  request.replicas = replicas;
  Compiled compiled;
  PENSTOCK_TRY(compiled.executable, backend.compile(request));
  PENSTOCK_TRY(compiled.context, compiled.executable->create_context());
  return compiled;
}

Status run(Compiled& compiled, const Tensor& input, Tensor& output) {
  const std::array<const Tensor*, 1> inputs{&input};
  const std::array<Tensor*, 1> outputs{&output};
  return compiled.context->run({}, inputs, outputs);
}

TEST(FunctionLibrary, DeclaresItsPorts) {
  const auto functions = load_library(library("functions"));
  ASSERT_TRUE(functions) << functions.error().message();
  ASSERT_EQ(functions->size(), 4U);
  EXPECT_EQ((*functions)[0].name, "scale");
  EXPECT_EQ(to_string((*functions)[2].outputs[0].type), "f32[n<=8,4]");
  EXPECT_TRUE((*functions)[1].stateful);
  EXPECT_FALSE((*functions)[0].stateful);
}

TEST(FunctionLibrary, RunsInPlaceWithItsSettings) {
  auto scale = compile("scale", {{"factor", "3"}});
  ASSERT_TRUE(scale) << scale.error().message();
  Tensor output = row({});
  const void* place = output.data();
  ASSERT_TRUE(run(*scale, row({1, 2, 3, 4}), output));
  EXPECT_THAT(output.as<float>(), ::testing::ElementsAre(3, 6, 9, 12));
  EXPECT_EQ(output.data(), place);
}

TEST(FunctionLibrary, DropsAndFailuresCarryItsWords) {
  auto scale = compile("scale");
  ASSERT_TRUE(scale);
  Tensor output = row({});
  const auto dropped = run(*scale, row({}), output);
  EXPECT_EQ(dropped.error().code, Code::kAborted);
  EXPECT_EQ(dropped.error().message(), "dropped: all zero");
  EXPECT_EQ(run(*scale, row({-1, 0, 0, 0}), output).error().message(),
            "function 'scale': negative");
  const auto refused = compile("scale", {{"gain", "1"}});
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message(),
            "function 'scale': unknown setting 'gain'; there is 'factor'");
}

TEST(FunctionLibrary, OptionsOfAFunctionThatTakesNoneAreRefused) {
  constexpr const char* kSentence =
      "takes no options, found 'gain'; leave it out, or give the function its value where it is "
      "made";
  EXPECT_EQ(compile("scatter", {{"gain", "1"}}).error().message(),
            std::string("function 'scatter': ") + kSentence);
  const auto callable =
      stateless("f", {}, {}, [](Inputs, Outputs) -> Status { return drop("unused"); });
  EXPECT_TRUE(callable.create({}));
  EXPECT_EQ(callable.create({{"gain", "1"}}).error().message(), kSentence);
}

TEST(FunctionBackend, RefusesTwoFunctionsOfOneName) {
  const auto call = [](Inputs, Outputs) -> Status { return {}; };
  FunctionBackend backend(
      {stateless("f", {}, {}, call), stateless("g", {}, {}, call), stateless("f", {}, {}, call)});
  backend::CompileRequest request;
  request.options["function"] = "g";
  EXPECT_TRUE(backend.compile(request));
  request.options["function"] = "f";
  EXPECT_EQ(backend.compile(request).error().message(),
            "function 'f': is there twice; expected functions of different names");
}

TEST(FunctionBackend, WhatOneSymbolNamesHasOneSize) {
  const auto list = [](const char* name, const char* symbol) {
    return backend::Port{name, Type::tensor(DType::kF32, std::vector{Dim{Dim::kOpen, symbol, 8}})};
  };
  const auto resize = [](Inputs in, Outputs out) -> Status {
    const std::array<std::int64_t, 1> dims{static_cast<std::int64_t>(in[0]->as<float>()[0])};
    if (!out[0]->set_dims(dims)) return invalid_argument("over the bound");
    return {};
  };
  FunctionBackend backend({stateless("pick", {list("a", "n"), list("b", "n"), list("c", "m")},
                                     {list("kept", "n")}, resize)});
  backend::CompileRequest request;
  request.options["function"] = "pick";
  const auto executable = backend.compile(request);
  ASSERT_TRUE(executable) << executable.error().message();
  const auto context = (*executable)->create_context();
  ASSERT_TRUE(context) << context.error().message();
  const auto told = [&](std::int64_t a, std::int64_t b, float kept) {
    const auto of = [](std::int64_t size) { return Tensor::allocate(DType::kF32, {size}); };
    std::array<Tensor, 3> in{of(a), of(b), of(5)};
    in[0].as<float>()[0] = kept;
    Tensor out = of(8);
    const std::array<const Tensor*, 3> inputs{in.data(), &in[1], &in[2]};
    const std::array<Tensor*, 1> outputs{&out};
    const auto ran = (*context)->run({}, inputs, outputs);
    return ran ? "" : ran.error().message();
  };
  EXPECT_EQ(told(3, 3, 3), "");
  EXPECT_EQ(told(3, 4, 3),
            "function 'pick': expected one size of 'n', found 3 in input 'a' and 4 in input 'b'; "
            "give dimensions that may differ symbols of their own");
  EXPECT_EQ(told(3, 3, 2),
            "function 'pick': expected one size of 'n', found 3 in input 'a' and 2 in output "
            "'kept'; give dimensions that may differ symbols of their own");
}

TEST(FunctionBackend, CountsTheCopiesOfAFunctionThatMakesItsOutputsElsewhere) {
  for (const bool copies : {false, true}) {
    auto function = stateless("f", {}, {{"y", Type::tensor(DType::kF32, {{4, ""}})}},
                              [](Inputs, Outputs) -> Status { return {}; });
    function.copies_outputs = copies;
    FunctionBackend backend({function});
    backend::CompileRequest request;
    request.options["function"] = "f";
    const auto executable = backend.compile(request);
    ASSERT_TRUE(executable) << executable.error().message();
    const auto context = (*executable)->create_context();
    ASSERT_TRUE(context) << context.error().message();
    Tensor output = row({});
    const std::array<Tensor*, 1> outputs{&output};
    ASSERT_TRUE((*context)->run({}, {}, outputs));
    EXPECT_EQ((*context)->counters().copies, copies ? 1U : 0U);
  }
}

TEST(FunctionLibrary, GivesEachFrameItsOwnShape) {
  auto scatter = compile("scatter");
  ASSERT_TRUE(scatter);
  Tensor items = Tensor::allocate(DType::kF32, {8, 4});
  for (const std::int64_t count : {0, 1, 7, 8}) {
    ASSERT_TRUE(run(*scatter, row({static_cast<float>(count)}), items));
    EXPECT_EQ(items.dims(), (std::vector<std::int64_t>{count, 4}));
  }
}

TEST(FunctionLibrary, WritesNothingWhereThereIsNoRoom) {
  auto scatter = compile("scatter");
  ASSERT_TRUE(scatter);
  Tensor items = Tensor::allocate(DType::kF32, {7, 4});
  EXPECT_THAT(run(*scatter, row({8}), items).error().message(),
              HasSubstr("output 'items': expected room for 128 bytes, found 112"));
  Tensor narrow = Tensor::allocate(DType::kF32, {3});
  EXPECT_THAT(run(*scatter, narrow, items).error().message(),
              EndsWith("input 'x': expected f32[4], found f32[3]"));
}

TEST(FunctionLibrary, KeepsAStateForEachReplica) {
  auto one = compile("count");
  auto other = compile("count");
  ASSERT_TRUE(one && other);
  Tensor number = Tensor::allocate(DType::kI64, {1});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run(*one, row({}), number));
  EXPECT_EQ(number.as<std::int64_t>()[0], 3);
  ASSERT_TRUE(run(*other, row({}), number));
  EXPECT_EQ(number.as<std::int64_t>()[0], 1);
  EXPECT_THAT(compile("count", {}, 2).error().message(), HasSubstr("is stateful"));
}

TEST(FunctionLibrary, WhatIsNoneIsRefusedBySentence) {
  EXPECT_EQ(load_library(library("nowhere")).error().message(),
            "function library 'libpenstock_test_nowhere.so': no such file");
  EXPECT_EQ(load_library("nowhere.py").error().message(),
            "function library 'nowhere.py': no such file");
  EXPECT_EQ(load_library(library("functions_of_version_9")).error().message(),
            "function library 'libpenstock_test_functions_of_version_9.so': built for version 9 of "
            "the function interface, this Penstock has version 1; rebuild the library with its "
            "header");
  EXPECT_THAT(compile("scaled").error().message(),
              HasSubstr("no function 'scaled'; there are: 'scale', 'count', 'scatter', 'sum'"));
  FunctionBackend guarded({}, false);
  backend::CompileRequest request;
  request.file = library("functions");
  EXPECT_EQ(guarded.compile(request).error().code, Code::kPermissionDenied);
}

/// Gives back one number, the setting `value`.
Result<Function> make_constant(std::string_view name, const Settings& settings) {
  if (name != "constant") return not_found("no '", name, "'");
  const float value = std::stof(settings.at("value"));
  return stateless("constant", {}, {{"y", Type::tensor(DType::kF32, std::vector<Dim>{})}},
                   [value](Inputs, Outputs out) -> Status {
                     out[0]->as<float>()[0] = value;
                     return {};
                   });
}

TEST(FunctionBackend, MakesReadyFunctionsWithTheirSettingsBuiltIn) {
  FunctionBackend backend({}, false, &make_constant);
  backend::CompileRequest request;
  request.options = {{"function", "ready/constant"}, {"value", "4"}};
  auto executable = backend.compile(request);
  ASSERT_TRUE(executable) << executable.error().message();
  auto context = (*executable)->create_context();
  ASSERT_TRUE(context) << context.error().message();
  Tensor result = Tensor::allocate(DType::kF32, {});
  const std::array<Tensor*, 1> outputs{&result};
  ASSERT_TRUE((*context)->run({}, {}, outputs));
  EXPECT_EQ(result.as<float>()[0], 4);

  request.options["function"] = "ready/other";
  const auto other = backend.compile(request);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message(), "no 'other'");
  // Who makes none looks for it among those given.
  const auto without = FunctionBackend({}).compile(request);
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message(), HasSubstr("no function 'ready/other'; there are: none"));
}

}  // namespace
}  // namespace penstock::function
