#include <chrono>
#include <filesystem>
#include <future>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/backend/plain_model.h"
#include "penstock/backend/registry.h"
#include "penstock/graph/test_support.h"
#include "penstock/tensor/compare.h"
#include "plugins/cuda/builder.h"
#include "plugins/cuda/compiler.h"
#include "plugins/cuda/libraries.h"

namespace penstock::cuda {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// Views of expressions.

Expression of(Dims dims) {
  return Expression::place(0, std::move(dims), DType::kF32);
}

TEST(CudaExpressionTest, APermutedValueIsReadInPlace) {
  const auto view = of({2, 3, 4}).permuted({2, 0, 1});
  EXPECT_THAT(view.dims, ElementsAre(4, 2, 3));
  EXPECT_THAT(view.leaves.front().strides, ElementsAre(1, 12, 4));
  EXPECT_FALSE(view.is_dense());
}

TEST(CudaExpressionTest, AWindowMovesTheFirstElement) {
  const auto view = of({4, 6}).window({3, 1}, {-1, 2}, {4, 3});
  EXPECT_EQ(view.leaves.front().offset, 19);
  EXPECT_THAT(view.leaves.front().strides, ElementsAre(-6, 2));
}

TEST(CudaExpressionTest, ReshapesAreViewsWhereStridesAllowIt) {
  const auto joined = of({2, 3, 4}).reshaped({6, 1, 4});
  ASSERT_TRUE(joined);
  EXPECT_THAT(joined->leaves.front().strides, ElementsAre(4, testing::_, 1));
  const auto turned = of({2, 3, 4}).permuted({0, 2, 1});
  EXPECT_FALSE(turned.reshaped({24}));
  const auto split = turned.reshaped({2, 2, 2, 3});
  ASSERT_TRUE(split);
  EXPECT_THAT(split->leaves.front().strides, ElementsAre(12, 2, 1, 4));
  EXPECT_TRUE(of({1}).broadcast({5}).reshaped({5, 1}));
}

TEST(CudaExpressionTest, OperandsShareTheirLeaves) {
  const auto x = of({2, 3});
  const auto row = Expression::place(1, {3}, DType::kF32);
  const auto sum = apply("add", {apply("relu", {x}, DType::kF32), row}, DType::kF32);
  const auto result = apply("mul", {sum, x}, DType::kF32);
  EXPECT_EQ(result.code, "mul(add(relu($0), $1), $0)");
  EXPECT_THAT(result.leaves.at(1).strides, ElementsAre(0, 1));
}

TEST(CudaExpressionTest, NumbersKeepAllTheirBits) {
  EXPECT_EQ(literal(0.1F), "0.1f");
  EXPECT_EQ(literal(3), "3.0f");
  EXPECT_EQ(literal(1e-30F), "1e-30f");
  EXPECT_EQ(literal(-std::numeric_limits<float>::infinity()), "-INFINITE");
}

// Kernels' texts.

TEST(CudaSourceTest, DimensionsThatFollowEachOtherAreOne) {
  const auto walk = walk_of({2, 1, 3, 4}, {{12, 0, 4, 1}, {0, 0, 4, 1}});
  EXPECT_THAT(walk.dims, ElementsAre(2, 12));
  EXPECT_THAT(walk.strides.at(1), ElementsAre(0, 1));
}

TEST(CudaSourceTest, ElementsComeByFourWhereTheyLieSo) {
  const auto target = Expression::place(1, {8, 4}, DType::kF32);
  EXPECT_THAT(pointwise_kernel(of({8, 4}), target).source, HasSubstr("float4 v0"));
  EXPECT_THAT(pointwise_kernel(of({4, 8}).permuted({1, 0}), target).source,
              testing::Not(HasSubstr("float4 v0")));
}

TEST(CudaProgramTest, BuffersOfDisjointLivesShareTheirPlace) {
  Program program;
  for (const std::size_t bytes : {1000, 500, 1000}) {
    program.buffers.push_back({Buffer::Kind::kArena, bytes, 0, 0});
  }
  program.buffers.push_back({Buffer::Kind::kInput, 100, 0, 0});
  program.steps.push_back({"first", {3, 0}, {}});
  program.steps.push_back({"second", {0, 1}, {}});
  program.steps.push_back({"third", {1, 2}, {}});
  plan_memory(program);
  EXPECT_EQ(program.buffers[0].offset, program.buffers[2].offset);
  EXPECT_EQ(program.buffers[1].offset, 1024U);
  EXPECT_EQ(program.buffers[3].offset, 1536U);
  EXPECT_EQ(program.memory_bytes, 1792U);
}

// Models of one operator or a few. Inputs whose names do not begin with x become constants.

struct TextModel {
  const char* body;
  int opset = 20;
};

// clang-format off
const TextModel kModels[] = {
    {"(float[2,3,4] x) => (float[2,3,4] y) { y = Relu(x) }"},
    {"(float[2,3,5] x, float[3,1] w) => (float[2,3,5] y) { a = Add(x, w) b = Sigmoid(a) y = Mul(a, b) }"},
    {"(float[2,3,5] x) => (float[2,3,5] y) { a = Erf(x) b = Tanh(a) c = Exp(b) d = HardSwish(c) e = Gelu(d) f = Mish(e) y = Elu<alpha = 0.5>(f) }"},
    {"(float[2,3] x) => (float[2,3] y) { one = Constant<value_float = 1.0>() p = Abs(x) a = Add(p, one) b = Sqrt(a) c = Log(b) d = Neg(c) e = Softplus(d) f = Selu(e) g = Celu(f) y = HardSigmoid(g) }"},
    {"(float[2,3] x, float[3] x2) => (bool[2,3] y, int64[2,3] z, float[2,3] u) { a = Greater(x, x2) y = Not(a) z = Cast<to = 7>(x) u = Where(a, x, x2) }"},
    {"(int64[4] x, int64[4] w) => (int64[4] y, int64[4] z) { a = Add(x, w) y = Mul(a, x) one = Constant<value_int = 1>() b = Abs(w) c = Add(b, one) d = Mod(x, c) z = Max(d, w) }"},
    {"(float[2,3,8] x) => (float[8,3,2] y) { y = Transpose<perm = [2, 1, 0]>(x) }"},
    {"(float[2,3,8] x) => (float[6,8] y, float[2,24] z) { a = Transpose<perm = [1, 0, 2]>(x) s = Constant<value_ints = [6, 8]>() t = Constant<value_ints = [2, 24]>() y = Reshape(a, s) z = Reshape(a, t) }"},
    {"(float[4,6] x) => (float[2,3] y) { b = Constant<value_ints = [3, 1]>() e = Constant<value_ints = [-10, 6]>() a = Constant<value_ints = [0, 1]>() s = Constant<value_ints = [-2, 2]>() y = Slice(x, b, e, a, s) }"},
    {"(float[2,6] x) => (float[2,2] y, float[2,4] z) { s = Constant<value_ints = [2, 4]>() y, z = Split<axis = 1>(x, s) }"},
    {"(float[2,3] x, float[2,4] x2) => (float[2,7] y) { a = Relu(x) y = Concat<axis = 1>(a, x2) }"},
    {"(float[2,3] x) => (float[4,7] y) { p = Constant<value_ints = [1, 2, 1, 2]>() v = Constant<value_float = 0.5>() y = Pad(x, p, v) }"},
    {"(float[3,4] x) => (float[7,4] y) { p = Constant<value_ints = [2, 0, 2, 0]>() y = Pad<mode = \"reflect\">(x, p) }"},
    {"(float[2,3] x) => (float[4,9] y) { r = Constant<value_ints = [2, 3]>() y = Tile(x, r) }"},
    {"(float[4,3] x, int64[2,2] x2) => (float[2,2,3] y) { y = Gather<axis = 0>(x, x2) }"},
    {"(float[2,4,3] x) => (float[2,3] y) { i = Constant<value_int = 1>() y = Gather<axis = 1>(x, i) }"},
    {"(float[4,3] x, int64[2,3] x2) => (float[2,3] y) { y = GatherElements<axis = 0>(x, x2) }"},
    {"(float[1,8,2,3] x) => (float[1,2,4,6] y) { y = DepthToSpace<blocksize = 2>(x) }"},
    {"(float[1,2,4,6] x) => (float[1,8,2,3] y) { y = SpaceToDepth<blocksize = 2>(x) }"},
    {"(float[2,3,300] x) => (float[2,3,1] y, float[300] z, float u) { a = Constant<value_ints = [2]>() b = Constant<value_ints = [0, 1]>() y = ReduceMean<keepdims = 1>(x, a) z = ReduceMax<keepdims = 0>(x, b) u = ReduceL2<keepdims = 0>(x) }"},
    {"(float[2,3,300] x) => (float[2,3,300] y, float[2,3,300] z) { y = Softmax(x) z = LogSoftmax<axis = 1>(x) }"},
    {"(float[2,3,40] x) => (float[2,3,40] y) { y = Softmax<axis = 1>(x) }", 11},
    {"(float[2,3,5000] x) => (float[2,3,5000] y) { y = Softmax(x) }"},
    {"(float[2,3,64] x, float[64] w, float[64] b) => (float[2,3,64] y) { a = Relu(x) y = LayerNormalization(a, w, b) }"},
    {"(float[2,3,9] x, float[3] w, float[3] b) => (float[2,3,9] y) { y = InstanceNormalization(x, w, b) }"},
    {"(float[2,3,9,8] x, float[3] w, float[3] b, float[3] m, float[3] v) => (float[2,3,9,8] y) { a = BatchNormalization(x, w, b, m, v) y = Relu(a) }"},
    {"(float[2,3,9,8] x) => (float[2,3,5,4] y) { y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x) }"},
    {"(float[2,3,9] x) => (float[2,3,9] y) { y = AveragePool<kernel_shape = [3], pads = [1, 1]>(x) }"},
    {"(float[2,3,9,8] x) => (float[2,3,1,1] y, float[2,3,1,1] z) { y = GlobalAveragePool(x) z = GlobalMaxPool(x) }"},
    {"(float[1,2,3,4] x) => (float[1,2,6,8] y) { s = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>() y = Resize<mode = \"linear\">(x, , s) }"},
    {"(float[1,2,4,4] x) => (float[1,2,7,3] y) { s = Constant<value_ints = [1, 2, 7, 3]>() y = Resize<mode = \"cubic\">(x, , , s) }"},
    {"(float[5,8] x, float[8,12] w, float[12] b) => (float[5,12] y) { a = MatMul(x, w) c = Add(a, b) y = Relu(c) }"},
    {"(float[2,5,8] x, float[8,12] w, float[12] b, float[2,5,12] x2) => (float[2,5,12] y) { a = MatMul(x, w) c = Add(b, a) y = Add(c, x2) }"},
    {"(float[2,4,5,8] x, float[2,4,5,8] x2) => (float[2,4,5,5] y) { t = Transpose<perm = [0, 1, 3, 2]>(x2) a = MatMul(x, t) y = Softmax(a) }"},
    {"(float[2,5,4,8] x, float[2,5,4,8] x2) => (float[2,4,5,5] y) { s = Transpose<perm = [0, 2, 1, 3]>(x) t = Transpose<perm = [0, 2, 3, 1]>(x2) y = MatMul(s, t) }"},
    {"(float[8] x, float[8,12] w) => (float[12] y) { y = MatMul(x, w) }"},
    {"(float[5,8] x, float[8] w, float[5] b) => (float[5] y) { a = MatMul(x, w) y = Add(a, b) }"},
    {"(float[3,4,8] x, float[8,6] w) => (float[3,4,6] y) { y = MatMul(x, w) }"},
    {"(float[8,5] x, float[12,8] w, float[12] b) => (float[5,12] y) { y = Gemm<transA = 1, transB = 1, alpha = 0.5>(x, w, b) }"},
    {"(float[2,3,9,8] x, float[4,3,3,3] w, float[4] b) => (float[2,4,9,8] y) { a = Conv<pads = [1, 1, 1, 1]>(x, w, b) y = Relu(a) }"},
    {"(float[2,3,9,8] x, float[4,3,3,3] w, float[2,4,5,4] x2) => (float[2,4,5,4] y) { a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w) c = Add(x2, a) y = Relu(c) }"},
    {"(float[1,3,9,8] x, float[4,3,3,3] w, float[4] b) => (float[1,4,5,4] y) { a = Conv<auto_pad = \"SAME_UPPER\", strides = [2, 2]>(x, w, b) y = Sigmoid(a) }"},
    {"(float[2,4,9,8] x, float[4,1,3,3] w, float[4] b) => (float[2,4,9,8] y) { lo = Constant<value_float = 0.0>() hi = Constant<value_float = 6.0>() a = Conv<pads = [1, 1, 1, 1], group = 4>(x, w, b) y = Clip(a, lo, hi) }"},
    {"(float[2,4,9] x, float[8,1,3] w) => (float[2,8,7] y) { y = Conv<group = 4>(x, w) }"},
    {"(float[2,4,9] x, float[6,2,3] w) => (float[2,6,7] y) { y = Conv<group = 2>(x, w) }"},
    {"(float[1,2,5,6,7] x, float[3,2,3,3,3] w) => (float[1,3,3,4,5] y) { y = Conv(x, w) }"},
    {"(float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Identity(x) z = Relu(x) }"},
};
// clang-format on

template <typename T>
void fill_integers(Tensor& tensor, std::mt19937& generator, int least, int largest) {
  std::uniform_int_distribution<int> numbers(least, largest);
  for (T& value : tensor.as<T>()) value = static_cast<T>(numbers(generator));
}

/// Reproducible numbers around 0, small enough that deep sums stay of order 1. Integers are indices
/// of a dimension of two or more.
Tensor random_tensor(const Type& type, std::uint32_t seed) {
  Tensor tensor = Tensor::allocate(type.dtype, dims_of(type));
  std::mt19937 generator(seed);
  if (type.dtype == DType::kI64) fill_integers<std::int64_t>(tensor, generator, -2, 1);
  if (type.dtype == DType::kI32) fill_integers<std::int32_t>(tensor, generator, -2, 1);
  if (type.dtype == DType::kBool) fill_integers<bool>(tensor, generator, 0, 1);
  if (type.dtype != DType::kF32) return tensor;
  std::uniform_real_distribution<float> numbers(-1, 1);
  for (float& value : tensor.as<float>()) value = numbers(generator);
  return tensor;
}

/// Those that begin with v are positive, as a variance is.
std::string bytes_of(const TextModel& model) {
  graph::Graph graph = graph::import_text(
      concat("<ir_version: 10, opset_import: [\"\" : ", model.opset, "]> g ", model.body));
  std::vector<graph::ValueId> inputs;
  std::uint32_t seed = 7;
  for (const auto id : graph.inputs) {
    auto& value = graph.values[index(id)];
    if (value.name.starts_with("x")) {
      inputs.push_back(id);
      continue;
    }
    Tensor constant = random_tensor(value.type, ++seed);
    if (value.name == "v") {
      for (float& number : constant.as<float>()) number = number * number + 0.5F;
    }
    value.constant = std::move(constant);
    value.is_input = false;
  }
  graph.inputs = inputs;
  auto bytes = graph::to_onnx_bytes(graph::Subgraph::whole(graph));
  if (bytes) return *std::move(bytes);
  ADD_FAILURE() << bytes.error().message();
  return {};
}

std::vector<fs::path> networks() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(PENSTOCK_TEST_NETWORKS)) {
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  }
  return files;
}

class CudaCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto nvrtc = load_nvrtc();
    if (!nvrtc) GTEST_SKIP() << nvrtc.error().message();
    nvrtc_ = *std::move(nvrtc);
  }

  /// Its kernels become code for an H100, which need not be there.
  void expect_code(const Result<graph::Graph>& graph, const std::string& what) {
    ASSERT_TRUE(graph) << graph.error().message();
    for (const bool optimize : {true, false}) {
      Builder builder(nullptr, *graph, {.optimize = optimize, .tf32 = false});
      const auto program = builder.build();
      ASSERT_TRUE(program) << what << ": " << program.error().message();
      for (const auto& source : builder.sources()) {
        if (!seen_.insert(source).second) continue;
        const auto code = compile(*nvrtc_, source, "sm_90");
        ASSERT_TRUE(code) << what << ": " << code.error().message() << source;
      }
    }
  }

  std::shared_ptr<const Nvrtc> nvrtc_;
  std::set<std::string> seen_;
};

TEST_F(CudaCompilerTest, EachKernelOfTheModelsIsCode) {
  for (const auto& model : kModels) {
    expect_code(graph::import_onnx_bytes(bytes_of(model), {}, {}), model.body);
  }
}

TEST_F(CudaCompilerTest, EachKernelOfTheNetworksIsCode) {
  for (const auto& file : networks()) expect_code(graph::import_onnx(file, {}), file.string());
}

TEST_F(CudaCompilerTest, WhatDoesNotCompileIsShownWithTheLog) {
  const auto code = compile(*nvrtc_, "nonsense", "sm_90");
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message(), HasSubstr("penstock.cu(1)"));
}

// On a device.

class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto found = registry().find("cuda");
    ASSERT_TRUE(found) << found.error().message();
    backend_ = *found;
    const auto description = backend_->describe();
    if (!description.unavailable.empty()) GTEST_SKIP() << description.unavailable;
  }

  static const backend::Registry& registry() {
    static const backend::Registry loaded = backend::Registry::load();
    return loaded;
  }
  static backend::CompileRequest request_for(std::string bytes) {
    backend::CompileRequest request;
    request.name = "test";
    request.bytes = std::move(bytes);
    request.device.kind = device::Device::Kind::kCuda;
    return request;
  }
  static backend::CompileRequest request_for(const fs::path& file) {
    auto request = request_for(std::string());
    request.file = file;
    return request;
  }

  static std::vector<Tensor> inputs_of(const backend::PlainModel& model, std::uint32_t seed) {
    std::vector<Tensor> inputs;
    for (const auto& port : model.inputs()) inputs.push_back(random_tensor(port.type, ++seed));
    return inputs;
  }
  static std::vector<Tensor> run(backend::PlainModel& model, std::uint32_t seed) {
    const auto inputs = inputs_of(model, seed);
    std::vector<const Tensor*> pointers;
    for (const auto& input : inputs) pointers.push_back(&input);
    const auto outcome = model.run(pointers);
    EXPECT_TRUE(outcome) << outcome.error().message();
    return outcome ? model.take_values() : std::vector<Tensor>();
  }

  /// Fused and not, it computes what ONNX Runtime does without optimisations.
  void expect_agreement(const backend::CompileRequest& request, const std::string& what) {
    const auto reference = registry().find("onnxruntime");
    if (!reference || !(*reference)->describe().unavailable.empty()) {
      GTEST_SKIP() << "nothing to compare with";
    }
    backend::CompileRequest plain = request;
    plain.device = {.host = {}, .cpus = {0}};
    plain.optimize = false;
    auto expecting = backend::PlainModel::create(**reference, plain);
    ASSERT_TRUE(expecting) << what << ": " << expecting.error().message();
    for (const bool optimize : {true, false}) {
      backend::CompileRequest own = request;
      own.optimize = optimize;
      auto model = backend::PlainModel::create(*backend_, own);
      ASSERT_TRUE(model) << what << ": " << model.error().message();
      // Several: a run must not depend on what the last one left.
      for (const std::uint32_t seed : {1U, 2U, 1U}) {
        const auto expected = run(*expecting, seed);
        const auto actual = run(*model, seed);
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i) {
          const auto result = compare(actual[i], expected[i]);
          EXPECT_TRUE(result.ok())
              << what << ", output " << i << (optimize ? ", fused: " : ", not fused: ")
              << to_string(result);
        }
      }
    }
  }

  std::shared_ptr<backend::Backend> backend_;
};

TEST_F(CudaTest, ModelsAgreeWithOnnxRuntime) {
  for (const auto& model : kModels) expect_agreement(request_for(bytes_of(model)), model.body);
}

TEST_F(CudaTest, NetworksAgreeWithOnnxRuntime) {
  for (const auto& file : networks()) expect_agreement(request_for(file), file.string());
}

TEST_F(CudaTest, DescribesTheCompilerThatWasTaken) {
  const auto description = backend_->describe();
  EXPECT_EQ(description.name, "cuda");
  EXPECT_TRUE(fs::exists(description.engine_file)) << description.engine_file;
  EXPECT_FALSE(description.whole_graph);
}

TEST_F(CudaTest, TellsWhoSleepsAndThenWaitReturnsAtOnce) {
  const auto executable =
      backend_->compile(request_for(fs::path(PENSTOCK_TEST_NETWORKS) / "resnet_tiny.onnx"));
  ASSERT_TRUE(executable) << executable.error().message();
  EXPECT_TRUE((*executable)->is_asynchronous());
  auto context = (*executable)->create_context();
  ASSERT_TRUE(context) << context.error().message();
  const Tensor input = random_tensor((*executable)->inputs().front().type, 1);
  const std::vector<const Tensor*> inputs = {&input};
  std::vector<Tensor> results;
  for (int frame = 0; frame < 3; ++frame) {
    Tensor output;
    const std::vector<Tensor*> outputs = {&output};
    std::promise<void> told;
    backend::Call call;
    call.done = [](void* whom) { static_cast<std::promise<void>*>(whom)->set_value(); };
    call.whom = &told;
    ASSERT_TRUE((*context)->run(call, inputs, outputs));
    told.get_future().wait();
    ASSERT_TRUE((*context)->wait(backend::kNoDeadline));
    results.push_back(output);
  }
  EXPECT_EQ(compare(results[0], results[2], Tolerance::of(0)).mismatches, 0U);
}

TEST_F(CudaTest, ACancelledRunSaysSoAndTheNextIsComputed) {
  const auto executable = backend_->compile(request_for(bytes_of(kModels[0])));
  ASSERT_TRUE(executable);
  auto context = (*executable)->create_context();
  ASSERT_TRUE(context);
  const Tensor input = random_tensor((*executable)->inputs().front().type, 1);
  const std::vector<const Tensor*> inputs = {&input};
  Tensor output;
  const std::vector<Tensor*> outputs = {&output};
  (*context)->cancel();
  auto outcome = (*context)->run({}, inputs, outputs);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kCancelled);
  ASSERT_TRUE((*context)->run({}, inputs, outputs));
  (*context)->cancel();
  outcome = (*context)->wait(backend::kNoDeadline);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kCancelled);
  ASSERT_TRUE((*context)->run({}, inputs, outputs));
  EXPECT_TRUE((*context)->wait(backend::kNoDeadline));
}

TEST_F(CudaTest, TensorsOfTheDeviceAreReadAndWrittenThere) {
  const auto request = request_for(bytes_of(kModels[0]));
  const auto memory = backend_->memory(request.device);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->name(), "cuda:0");
  const auto executable = backend_->compile(request);
  ASSERT_TRUE(executable);
  auto context = (*executable)->create_context();
  ASSERT_TRUE(context);
  const Tensor input = random_tensor((*executable)->inputs().front().type, 1);
  auto there = memory->allocate(DType::kF32, input.bytes());
  auto result = memory->allocate(DType::kF32, input.bytes());
  ASSERT_TRUE(there);
  ASSERT_TRUE(result);
  ASSERT_TRUE(there->set_dims(input.dims()));
  ASSERT_TRUE(memory->copy(input, *there));
  const std::vector<const Tensor*> inputs = {&*there};
  const std::vector<Tensor*> outputs = {&*result};
  ASSERT_TRUE((*context)->run({}, inputs, outputs));
  ASSERT_TRUE((*context)->wait(backend::kNoDeadline));
  Tensor back = Tensor::allocate(DType::kF32, input.dims());
  ASSERT_TRUE(memory->copy(*result, back));
  for (std::size_t i = 0; i < input.count(); ++i) {
    EXPECT_EQ(back.as<float>()[i], std::max(input.as<float>()[i], 0.0F));
  }
}

TEST_F(CudaTest, WhatIsNotThereOrNotKnownIsNamed) {
  auto request = request_for(bytes_of(kModels[0]));
  request.device.index = 4096;
  auto refused = backend_->compile(request);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("no device cuda:4096"));
  request.device.index = 0;
  request.options["speed"] = "1";
  refused = backend_->compile(request);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("'cuda:speed'"));
}

}  // namespace
}  // namespace penstock::cuda
