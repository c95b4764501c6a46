#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sched.h>

#include "penstock/backend/registry.h"
#include "penstock/device/device.h"
#include "penstock/graph/test_support.h"
#include "penstock/tensor/compare.h"

namespace penstock::backend {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

template <typename T>
void fill_integers(Tensor& tensor, std::mt19937& generator, int least, int largest) {
  std::uniform_int_distribution<int> numbers(least, largest);
  for (T& value : tensor.as<T>()) value = static_cast<T>(numbers(generator));
}

/// Reproducible numbers around 0, small enough that deep sums stay of order 1. Integers are indices
/// of a dimension of four.
Tensor random_tensor(const Type& type, std::uint32_t seed) {
  std::vector<std::int64_t> dims;
  for (const auto& dim : type.dims) dims.push_back(dim.size);
  Tensor tensor = Tensor::allocate(type.dtype, dims);
  std::mt19937 generator(seed);
  if (type.dtype == DType::kI64) fill_integers<std::int64_t>(tensor, generator, -4, 3);
  if (type.dtype == DType::kI32) fill_integers<std::int32_t>(tensor, generator, -4, 3);
  if (type.dtype == DType::kBool) fill_integers<bool>(tensor, generator, 0, 1);
  if (type.dtype != DType::kF32) return tensor;
  std::uniform_real_distribution<float> numbers(-1, 1);
  for (float& value : tensor.as<float>()) value = numbers(generator);
  return tensor;
}

/// A model from text. Inputs whose names do not begin with x become random constants; those that
/// begin with v are positive, as a variance is.
std::string model_of(const std::string& body, int opset = 20) {
  graph::Graph graph =
      graph::import_text(concat("<ir_version: 10, opset_import: [\"\" : ", opset, "]> g ", body));
  std::vector<graph::ValueId> inputs;
  std::uint32_t seed = 7;
  for (const auto id : graph.inputs) {
    auto& value = graph.values[index(id)];
    if (value.name.starts_with("x")) {
      inputs.push_back(id);
      continue;
    }
    Tensor constant = random_tensor(value.type, ++seed);
    if (value.name.starts_with("v")) {
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

struct Runner {
  std::unique_ptr<Executable> executable;
  std::unique_ptr<Context> context;

  Status run(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
    std::vector<const Tensor*> in;
    std::vector<Tensor*> out;
    for (const auto& input : inputs) in.push_back(&input);
    for (auto& output : outputs) out.push_back(&output);
    return context->run({}, in, out);
  }

  /// Of seeded inputs; whatever the outputs are.
  std::vector<Tensor> run_seeded(std::uint32_t seed) {
    if (executable == nullptr) return {};
    std::vector<Tensor> inputs;
    for (const auto& port : executable->inputs())
      inputs.push_back(random_tensor(port.type, ++seed));
    std::vector<Tensor> outputs(executable->outputs().size());
    const auto outcome = run(inputs, outputs);
    EXPECT_TRUE(outcome) << outcome.error().message();
    return outputs;
  }
};

Runner runner_of(Backend& backend, const CompileRequest& request) {
  auto executable = backend.compile(request);
  if (!executable) {
    ADD_FAILURE() << executable.error().message();
    return {};
  }
  auto context = (*executable)->create_context();
  if (!context) {
    ADD_FAILURE() << context.error().message();
    return {};
  }
  return {*std::move(executable), *std::move(context)};
}

std::set<int> threads_of_process() {
  std::set<int> ids;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    ids.insert(std::stoi(task.path().filename().string()));
  }
  return ids;
}

std::vector<int> cpus_of(int thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(thread, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

class OneDnn : public testing::Test {
 protected:
  void SetUp() override {
    const auto found = registry().find("onednn");
    ASSERT_TRUE(found) << found.error().message();
    backend_ = *found;
    const auto description = backend_->describe();
    if (!description.unavailable.empty()) GTEST_SKIP() << description.unavailable;
  }

  static const Registry& registry() {
    static const Registry loaded = Registry::load();
    return loaded;
  }
  static CompileRequest request_for(std::string bytes) {
    CompileRequest request;
    request.name = "test";
    request.bytes = std::move(bytes);
    return request;
  }

  Error compile_error(const std::string& body, int opset = 20) {
    auto executable = backend_->compile(request_for(model_of(body, opset)));
    EXPECT_FALSE(executable);
    return executable ? Error{} : executable.error();
  }

  /// Fused and not, it computes what ONNX Runtime does without optimisations.
  void expect_agreement(const CompileRequest& request) {
    const auto reference = registry().find("onnxruntime");
    if (!reference || !(*reference)->describe().unavailable.empty()) {
      GTEST_SKIP() << "nothing to compare with";
    }
    CompileRequest plain = request;
    plain.optimize = false;
    const auto expected = runner_of(**reference, plain).run_seeded(1);
    for (const bool optimize : {true, false}) {
      CompileRequest own = request;
      own.optimize = optimize;
      Runner runner = runner_of(*backend_, own);
      ASSERT_NE(runner.context, nullptr);
      // Twice: a run must not depend on what the last one left.
      for (int run = 0; run < 2; ++run) {
        const auto actual = runner.run_seeded(1);
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i) {
          const auto result = compare(actual[i], expected[i]);
          EXPECT_TRUE(result.ok())
              << "output " << i << (optimize ? ", fused: " : ", not fused: ") << to_string(result);
        }
      }
    }
  }

  std::shared_ptr<Backend> backend_;
};

struct Network {
  const char* name;
  const char* body;
  int opset = 20;
};

class OneDnnAgreesWithOnnxRuntime : public OneDnn, public testing::WithParamInterface<Network> {};

TEST_P(OneDnnAgreesWithOnnxRuntime, FusedAndNot) {
  expect_agreement(request_for(model_of(GetParam().body, GetParam().opset)));
}

constexpr Network kNetworks[] = {
    {"ConvBatchNormRelu", R"((float[1,3,17,19] x, float[8,3,3,3] w, float[8] s, float[8] h,
        float[8] m, float[8] v) => (float[1,8,9,10] y) {
        c = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w)
        n = BatchNormalization(c, s, h, m, v)
        y = Relu(n) })"},
    {"DepthwiseConvClip", R"((float[1,24,12,12] x, float[24,1,3,3] w, float[24] b) =>
        (float[1,24,12,12] y) {
        l = Constant<value_float=0.0>()
        h = Constant<value_float=6.0>()
        c = Conv<pads=[1,1,1,1], group=24>(x, w, b)
        y = Clip(c, l, h) })"},
    {"GroupedAndDilatedConvs", R"((float[2,8,11,13] x, float[12,4,3,3] w, float[12] b,
        float[6,12,2,2] u, float[4,6,4,4] k) => (float[2,4,6,7] y) {
        c = Conv<pads=[2,2,2,2], dilations=[2,2], group=2>(x, w, b)
        r = LeakyRelu<alpha=0.2>(c)
        d = Conv<auto_pad="SAME_LOWER">(r, u)
        y = Conv<auto_pad="SAME_UPPER", strides=[2,2]>(d, k) })"},
    {"ConvsOfOneAndThreeDimensions", R"((float[1,4,20] x, float[6,4,5] w, float[1,2,6,6,6] xx,
        float[3,2,3,3,3] u) => (float[1,6,16] y, float[1,3,4,4,4] z) {
        c = Conv(x, w)
        y = Tanh(c)
        d = Conv(xx, u)
        z = Sigmoid(d) })"},
    {"ResidualThatDies", R"((float[1,16,9,9] x, float[16,16,3,3] w, float[16,16,1,1] u) =>
        (float[1,16,9,9] y) {
        a = Conv<pads=[1,1,1,1]>(x, w)
        r = Relu(a)
        b = Conv(r, u)
        s = Add(b, r)
        y = Relu(s) })"},
    {"ResidualReadOnceMore", R"((float[1,16,9,9] x, float[16,16,3,3] w, float[16,16,1,1] u) =>
        (float[1,16,9,9] y, float[1,16,9,9] z) {
        a = Conv<pads=[1,1,1,1]>(x, w)
        r = Relu(a)
        b = Conv(r, u)
        s = Add(r, b)
        y = Relu(s)
        z = Mul(r, y) })"},
    {"ResidualOfTheConvsOwnSource", R"((float[1,16,9,9] x, float[16,16,3,3] w) =>
        (float[1,16,9,9] y) {
        a = Relu(x)
        b = Conv<pads=[1,1,1,1]>(a, w)
        y = Add(b, a) })"},
    {"TwoBranchesMeet", R"((float[1,16,8,8] x, float[32,16,1,1] w, float[32,16,1,1] u) =>
        (float[1,32,8,8] y) {
        a = Conv(x, w)
        b = Conv(x, u)
        s = Add(a, b)
        y = Elu<alpha=0.7>(s) })"},
    {"SwishAndHardSwish", R"((float[1,8,10,10] x, float[16,8,3,3] w, float[16,16,1,1] u) =>
        (float[1,16,8,8] y) {
        a = Conv(x, w)
        g = Sigmoid(a)
        s = Mul(a, g)
        b = Conv(s, u)
        h = HardSwish(b)
        y = Gelu(h) })"},
    {"HardSwishWrittenOut", R"((float[1,8,10,10] x, float[16,8,3,3] w) => (float[1,16,8,8] y) {
        three = Constant<value_float=3.0>()
        zero = Constant<value_float=0.0>()
        six = Constant<value_float=6.0>()
        sixth = Constant<value_float=0.16666667>()
        a = Conv(x, w)
        b = Add(a, three)
        c = Clip(b, zero, six)
        d = Mul(sixth, c)
        y = Mul(a, d) })"},
    {"PReluWrittenOut", R"((float[1,8,10,10] x, float[16,8,3,3] w, float[1,16,1,1] s) =>
        (float[1,16,8,8] y) {
        a = Conv(x, w)
        p = Relu(a)
        n = Neg(a)
        m = Relu(n)
        k = Mul(m, s)
        y = Add(p, k) })"},
    {"PReluWrittenOutAndTransposed", R"((float[1,8,10,10] x, float[16,8,3,3] w,
        float[1,1,16] s) => (float[1,16,8,8] y) {
        a = Conv(x, w)
        p = Relu(a)
        t = Transpose<perm=[0,2,3,1]>(a)
        n = Neg(t)
        m = Relu(n)
        k = Mul(m, s)
        q = Transpose<perm=[0,3,1,2]>(k)
        y = Add(p, q) })"},
    {"ShortRunsJoined", R"((float[1,600,2] x, float[1,600,3] xx) => (float[1,600,7] y) {
        n = Neg(x)
        y = Concat<axis=2>(n, xx, n) })"},
    {"ChannelsLastNetwork", R"((float[1,12,12,3] x, float[16,3,3,3] w, float[16] s,
        float[16,16,1,1] u) => (float[1,10,10,16] y) {
        t = Transpose<perm=[0,3,1,2]>(x)
        a = Conv(t, w)
        l = Transpose<perm=[0,2,3,1]>(a)
        p = Relu(l)
        n = Neg(l)
        m = Relu(n)
        k = Mul(m, s)
        q = Add(p, k)
        r = Transpose<perm=[0,3,1,2]>(q)
        b = Conv(r, u)
        c = Transpose<perm=[0,2,3,1]>(b)
        d = Add(q, c)
        y = Relu(d) })"},
    {"PReluPerChannel", R"((float[1,8,10,10] x, float[16,8,3,3] w, float[16,1,1] s, float[1] t) =>
        (float[1,16,8,8] y, float[1,8,10,10] z) {
        a = Conv(x, w)
        y = PRelu(a, s)
        z = PRelu(x, t) })"},
    {"SqueezeAndExcite", R"((float[1,8,10,10] x, float[16,8,3,3] w, float[16,16,1,1] u) =>
        (float[1,16,8,8] y) {
        a = Conv(x, w)
        r = Relu(a)
        g = GlobalAveragePool(r)
        e = Conv(g, u)
        s = Sigmoid(e)
        y = Mul(r, s) })"},
    {"PerChannelScaleAndShift", R"((float[1,8,10,10] x, float[16,8,3,3] w, float[1,16,1,1] s,
        float[16,1,1] h, float[16,1,1] k) => (float[1,16,8,8] y) {
        a = Conv(x, w)
        b = Mul(a, s)
        c = Sub(h, b)
        d = Relu(c)
        e = Mul(d, k)
        y = Sub(k, e) })"},
    {"ConvTranspose", R"((float[1,8,7,7] x, float[8,6,3,3] w, float[12] b, float[12] s, float[12] h,
        float[12] m, float[12] v) => (float[1,12,14,14] y) {
        c = ConvTranspose<strides=[2,2], pads=[1,1,1,1], output_padding=[1,1], group=2>(x, w, b)
        n = BatchNormalization(c, s, h, m, v)
        y = Relu(n) })"},
    {"ConvTransposeWithoutSteps", R"((float[2,8,7,7] x, float[8,6,3,3] w, float[12] b, float[12] s,
        float[12] h, float[12] m, float[12] v) => (float[2,12,7,7] y) {
        c = ConvTranspose<pads=[1,1,1,1], group=2>(x, w, b)
        n = BatchNormalization(c, s, h, m, v)
        y = Relu(n) })"},
    {"ConvTransposeOfEachChannelCutOff", R"((float[1,16,11,20] x, float[16,1,3,3] w, float[16] b) =>
        (float[1,16,1,20] y) {
        p = Relu(x)
        y = ConvTranspose<pads=[10,1,8,1], dilations=[4,1], group=16>(p, w, b) })"},
    {"ConvTransposeDilated", R"((float[1,4,5,5] x, float[4,6,2,3] w) => (float[1,6,7,11] y) {
        y = ConvTranspose<dilations=[2,3]>(x, w) })"},
    {"Poolings", R"((float[1,8,13,13] x) => (float[1,8,7,7] a, float[1,8,6,6] b, float[1,8,1,1] c,
        float[1,8,7,7] d) {
        p = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x)
        a = Relu(p)
        b = AveragePool<kernel_shape=[3,3], strides=[2,2]>(x)
        c = GlobalMaxPool(x)
        d = AveragePool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(x) })"},
    {"PoolingsOfSizesThatInferenceMisses", R"((float[1,8,8,8] x) => (float[1,8,2,2] a,
        float[1,8,4,4] b) {
        p = MaxPool<kernel_shape=[3,3], strides=[3,3], dilations=[2,2], auto_pad="SAME_LOWER">(x)
        a = Relu(p)
        q = MaxPool<kernel_shape=[2,2], strides=[3,3], pads=[1,1,1,1], ceil_mode=1>(x)
        b = Relu(q) })"},
    {"PoolingsBeforeSumsAndProductsWithInputs", R"((float[1,8,12,12] x, float[1,8,6,6] xs) =>
        (float[1,8,6,6] y, float[1,8,6,6] z, float[1,8,6,6] u) {
        p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)
        y = Add(p, xs)
        q = AveragePool<kernel_shape=[2,2], strides=[2,2]>(x)
        z = Mul(q, xs)
        g = GlobalMaxPool(x)
        u = Add(xs, g) })"},
    {"BatchNormAlone", R"((float[1,8,6,6] x, float[8] s, float[8] h, float[8] m, float[8] v) =>
        (float[1,8,6,6] y) {
        n = BatchNormalization(x, s, h, m, v)
        y = Sigmoid(n) })"},
    {"DenseLayers", R"((float[3,20] x, float[20,32] w, float[32] b, float[10,32] u, float[10] c) =>
        (float[3,10] y) {
        m = MatMul(x, w)
        a = Add(m, b)
        r = Relu(a)
        g = Gemm<transB=1, alpha=0.5, beta=2.0>(r, u, c)
        y = Softmax(g) })"},
    {"BatchedProducts", R"((float[2,4,5,8] x, float[2,4,5,8] xx, float[8,6] w, float[6] b) =>
        (float[2,4,5,6] y) {
        t = Transpose<perm=[0,1,3,2]>(xx)
        p = MatMul(x, t)
        s = Softmax(p)
        q = MatMul(s, x)
        m = MatMul(q, w)
        a = Add(m, b)
        y = Gelu<approximate="tanh">(a) })"},
    {"SumBehindAProduct", R"((float[2,5,8] x, float[2,5,8] xx, float[8,8] w) => (float[2,5,8] y) {
        r = Relu(xx)
        m = MatMul(x, w)
        y = Add(m, r) })"},
    {"Normalisations", R"((float[2,6,16] x, float[16] s, float[16] h, float[1,8,5,5] xx) =>
        (float[2,6,16] y, float[1,8,5,5] z, float[2,6,16] l) {
        y = LayerNormalization(x, s, h)
        z = LRN<size=5>(xx)
        l = LogSoftmax<axis=1>(x) })"},
    {"Broadcasts", R"((float[2,3,4,5] x, float[4,5] xa, float[2,1,4,1] xb, float[5] c) =>
        (float[2,3,4,5] y) {
        a = Add(x, xa)
        b = Mul(xb, a)
        d = Sub(b, c)
        e = Max(d, x)
        f = Min(e, a, xa)
        y = Div(f, xb) })"},
    {"Expanded", R"((float[3,1,5] x) => (float[2,3,4,5] y) {
        shape = Constant<value_ints=[2,1,4,1]>()
        e = Expand(x, shape)
        y = Relu(e) })"},
    {"Reductions", R"((float[2,8,6,6] x) => (float[2,8] a, float[2,1,6,6] b, float[2,8,1,1] c,
        float d) {
        axes = Constant<value_ints=[2,3]>()
        one = Constant<value_ints=[1]>()
        a = ReduceMean<keepdims=0>(x, axes)
        b = ReduceSum(x, one)
        c = ReduceMax(x, axes)
        d = ReduceMin<keepdims=0>(x) })"},
    {"ReductionsOfWhatLiesOtherwise", R"((float[2,6,5,7] x, float[2,7,6,5] xs) =>
        (float[2,7,6,1] a, float[2,1,6,5] b, float[2,7] c, float[1,7,1,5] d, float[2,7,6,1] e) {
        t = Transpose<perm=[0,3,1,2]>(x)
        last = Constant<value_ints=[3]>()
        first = Constant<value_ints=[1]>()
        space = Constant<value_ints=[2,-1]>()
        others = Constant<value_ints=[0,2]>()
        m = ReduceMean(t, last)
        a = Tanh(m)
        b = ReduceMax(t, first)
        c = ReduceMin<keepdims=0>(t, space)
        d = ReduceSum(t, others)
        s = Add(t, xs)
        e = ReduceMean(s, last) })"},
    {"TwinsOfSeveralOperands", R"((float[2,6] x, float[2,6] xa, float[2,6] xb) =>
        (float[2,6] y, float[2,6] z, float[2,6] m, float[2,6] n) {
        s = Sum(x, xa, xb)
        y = Relu(s)
        t = Sum(x, xa, xb)
        z = Neg(t)
        m = Max(x, xa, xb)
        n = Max(x, xa, xb) })"},
    {"TwinsInPlaceAndAsOutputs", R"((float[1,8,9,9] x, float[8,8,3,3] w, float[8,8,3,3] v) =>
        (float[1,8,9,9] y, float[1,8,9,9] z, float[1,8,9,9] u, float[1,4,9,9] s,
         float[1,4,9,9] t) {
        c = Conv<pads=[1,1,1,1]>(x, w)
        a = Relu(c)
        i = Add(a, x)
        j = Conv<pads=[1,1,1,1]>(i, v)
        y = Add(j, a)
        b = Relu(c)
        k = Neg(b)
        z = Sigmoid(k)
        u = Relu(c)
        p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(c)
        q = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(c)
        halves = Constant<value_ints=[4,4]>()
        s, other = Split<axis=1>(p, halves)
        left, t = Split<axis=1>(q, halves) })"},
    {"Views", R"((float[1,16,6,6] x, float[16,16,3,3] w) =>
        (float[1,4,36] a, float[1,8,6,6] b, float[1,16,3,6] c, float[1,4,12,12] d) {
        shape = Constant<value_ints=[1,4,4,36]>()
        first = Constant<value_ints=[0]>()
        last = Constant<value_ints=[1000]>()
        two = Constant<value_ints=[2]>()
        axis = Constant<value_ints=[2]>()
        k = Conv<pads=[1,1,1,1]>(x, w)
        r = Reshape(k, shape)
        t = Transpose<perm=[0,2,1,3]>(r)
        zero = Constant<value_ints=[0]>()
        one = Constant<value_ints=[1]>()
        at = Constant<value_ints=[1]>()
        s = Slice(t, zero, one, at)
        q = Squeeze(s, at)
        a = Relu(q)
        b, unused = Split<axis=1, num_outputs=2>(k)
        c = Slice(k, first, last, axis, two)
        other = Neg(unused)
        d = DepthToSpace<blocksize=2>(k) })"},
    {"ChannelShuffle", R"((float[1,8,6,5] x, float[12,8,3,3] w, float[6,12,1,1] u) =>
        (float[1,6,6,5] y, float[1,12,30] z, float[1,6,5,2] s) {
        apart = Constant<value_ints=[1,3,4,6,5]>()
        joined = Constant<value_ints=[1,12,6,5]>()
        flat = Constant<value_ints=[1,12,30]>()
        two = Constant<value_ints=[2]>()
        zero = Constant<value_ints=[0]>()
        axis = Constant<value_ints=[3]>()
        c = Conv<pads=[1,1,1,1]>(x, w)
        r = Reshape(c, apart)
        t = Transpose<perm=[0,2,1,3,4]>(r)
        j = Reshape(t, joined)
        y = Conv(j, u)
        z = Reshape(c, flat)
        l = Transpose<perm=[0,2,3,1]>(j)
        k = Slice(l, zero, two, axis)
        s = Softmax(k) })"},
    {"ConcatAndPad", R"((float[1,8,6,6] x, float[8,8,3,3] w) => (float[1,16,8,7] y) {
        c = Conv<pads=[1,1,1,1]>(x, w)
        r = Relu(x)
        j = Concat<axis=1>(c, r)
        p = Constant<value_ints=[0,0,1,0,0,0,1,1]>()
        v = Constant<value_float=0.5>()
        y = Pad(j, p, v) })"},
    {"PadsOfTheInputItself", R"((float[1,8,6,5] x, float[8,8,3,3] w) =>
        (float[1,8,11,9] a, float[2,8,10,5] b, float[1,8,6,9] c) {
        k = Conv<pads=[1,1,1,1]>(x, w)
        p = Constant<value_ints=[0,0,3,4,0,0,2,0]>()
        a = Pad<mode="reflect">(k, p)
        q = Constant<value_ints=[0,0,1,0,1,0,3,0]>()
        b = Pad<mode="edge">(k, q)
        r = Constant<value_ints=[1,3]>()
        axis = Constant<value_ints=[3]>()
        c = Pad<mode="wrap">(x, r, , axis) })",
     19},
    {"Resizes", R"((float[1,8,5,6] x) => (float[1,8,10,12] a, float[1,8,10,12] b,
        float[1,8,10,12] c) {
        s = Constant<value_floats=[1.0,1.0,2.0,2.0]>()
        a = Resize<mode="nearest", coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor">(x, , s)
        b = Resize<mode="linear">(x, , s)
        c = Resize<mode="nearest">(x, , s) })"},
    {"ResizesOnOtherGrids", R"((float[1,8,5,6] x) => (float[1,8,10,15] a, float[1,8,10,12] b,
        float[1,8,3,4] c, float[1,8,11,13] d) {
        s = Constant<value_floats=[1.0,1.0,2.0,2.5]>()
        t = Constant<value_floats=[1.0,1.0,2.0,2.0]>()
        u = Constant<value_ints=[1,8,3,4]>()
        v = Constant<value_ints=[1,8,11,13]>()
        r = Relu(x)
        a = Resize<mode="linear", coordinate_transformation_mode="align_corners">(r, , s)
        b = Resize<mode="cubic">(r, , t)
        c = Resize<mode="nearest", nearest_mode="ceil">(r, , , u)
        d = Resize<mode="linear", coordinate_transformation_mode="asymmetric">(r, , , v) })"},
    {"Functions", R"((float[3,40] x) => (float[3,40] y, float[3,40] z) {
        two = Constant<value_float=2.0>()
        half = Constant<value_float=0.5>()
        a = Abs(x)
        b = Add(a, half)
        c = Log(b)
        d = Exp(c)
        e = Sqrt(d)
        f = Reciprocal(e)
        g = Pow(f, two)
        h = Softplus(g)
        y = HardSigmoid(h)
        k = Mish(x)
        l = Round(k)
        m = Div(two, b)
        z = Sub(m, l) })"},
    {"OutputsThatAreInputsAndConstants", R"((float[2,3] x, float[2,3] c) =>
        (float[3,2] y, float[2,3] z) {
        y = Transpose(x)
        z = Add(x, c) })"},
    {"GatheredRows", R"((int64[2,3] x, int32[3,5] xj, float[10,4] w, float[2,4,5] xf) =>
        (float[2,3,4] y, float[2,3,5,5] z, float[2,3,5] u, float[2,4] v, float[4] k) {
        row = Constant<value_int=2>()
        some = Constant<value_ints=[0,-1]>()
        all = Gather(w, x)
        y = Tanh(all)
        z = Gather<axis=1>(xf, xj)
        last = Constant<value_ints=[2]>()
        shape = Constant<value_ints=[2,3,5]>()
        i = Unsqueeze(x, last)
        e = Expand(i, shape)
        u = GatherElements<axis=1>(xf, e)
        v = Gather<axis=2>(xf, row)
        two = Gather(w, some)
        zero = Constant<value_ints=[0]>()
        k = ReduceSum<keepdims=0>(two, zero) })"},
    {"PartsThatNoLayoutIs", R"((float[5,3] x, int64[5,3] xi, float[1,8,5,5] xx) =>
        (float[5,2] y, int64[2,3] z, float[1,8,5,5] u, float[5,2] v) {
        from = Constant<value_ints=[0]>()
        last = Constant<value_ints=[-1]>()
        to = Constant<value_ints=[100]>()
        back = Constant<value_ints=[-100]>()
        one = Constant<value_ints=[1]>()
        two = Constant<value_ints=[2]>()
        three = Constant<value_ints=[-3]>()
        a = Slice(x, from, to, one, two)
        y = Relu(a)
        z = Slice(xi, last, back, from, three)
        u = Slice(xx, last, back, two, last)
        even = Constant<value_ints=[0,2]>()
        g = Gather<axis=1>(x, even)
        v = Neg(g) })"},
    {"GatheredPixels", R"((float[1,8,9,9] x, float[16,8,3,3] w, int64[3] xi) =>
        (float[1,16,3,7] y, float[1,16,7] z) {
        c = Conv(x, w)
        y = Gather<axis=2>(c, xi)
        row = Constant<value_int=-1>()
        z = Gather<axis=2>(c, row) })"},
    {"Scattered", R"((float[4,4,6] x, int64[5,2] xi, float[5,6] xu) => (float[4,4,6] y) {
        a = Neg(x)
        u = Relu(xu)
        places = Constant<value=int64[5,2]{0,1,3,-1,2,2,-4,0,1,3}>()
        nought = Sub(xi, xi)
        i = Add(nought, places)
        y = ScatterND(a, i, u) })"},
    {"GatheredTuples", R"((float[2,3,4] x, int64[5,2] xi, int64[2,2,1] xk) =>
        (float[5,4] y, float[2,2,4] z, float[5] u) {
        a = Neg(x)
        nought = Sub(xi, xi)
        places = Constant<value=int64[5,2]{0,1,1,-1,-2,2,1,0,0,0}>()
        i = Add(nought, places)
        y = GatherND(a, i)
        none = Sub(xk, xk)
        rows = Constant<value=int64[2,2,1]{2,0,-1,1}>()
        k = Add(none, rows)
        z = GatherND<batch_dims=1>(x, k)
        elements = Constant<value=int64[5,3]{0,1,3,1,-1,2,1,0,0,0,0,0,-1,-1,-1}>()
        u = GatherND(a, elements) })"},
    {"Tiled", R"((float[2,1,3] x, int64[3] xi, bool[2,2] xb) =>
        (float[4,3,3] y, int64[6] z, bool[2,6] u, float[1,1] v, float[3,4,1] w) {
        some = Constant<value_ints=[2,3,1]>()
        a = Neg(x)
        t = Tile(a, some)
        y = Relu(t)
        two = Constant<value_ints=[2]>()
        z = Tile(xi, two)
        wide = Constant<value_ints=[1,3]>()
        u = Tile(xb, wide)
        one = Constant<value=float[1,1]{4.0}>()
        ones = Constant<value_ints=[1,1]>()
        v = Tile(one, ones)
        b = Transpose<perm=[2,0,1]>(x)
        twice = Constant<value_ints=[1,2,1]>()
        w = Tile(b, twice) })"},
    {"CumulativeSums", R"((float[2,5,3] x, int64[4,5] xi, int32[6] xj) =>
        (float[2,5,3] a, float[2,5,3] b, int64[4,5] c, int64[4,5] d, int32[6] e) {
        zero = Constant<value_int=0>()
        one = Constant<value_int=1>()
        last = Constant<value_int=-1>()
        n = Neg(x)
        a = CumSum(n, one)
        b = CumSum<exclusive=1>(x, last)
        c = CumSum<reverse=1>(xi, zero)
        d = CumSum<exclusive=1, reverse=1>(xi, one)
        e = CumSum(xj, zero) })"},
    {"NotNumbers", R"((float[3,4] x) => (bool[3,4] y, float[3,4] z) {
        two = Constant<value_float=0.5>()
        a = Sub(x, two)
        r = Sqrt(a)
        y = IsNaN(r)
        zero = Constant<value_float=0.0>()
        z = Where(y, zero, r) })"},
    {"Integers", R"((int64[3,4] x, int64[4] xa, int32[2,1,4] xb, int32[3,1] xc) =>
        (int64[3,4] a, int64[3,4] b, int32[2,3,4] c, int32[2,3,4] d, int64[4,6] e, int64[3,4] f) {
        five = Constant<value_int=5>()
        seven = Constant<value_int=-7>()
        s = Add(x, xa)
        p = Mul(s, five)
        a = Sub(p, x)
        q = Div(a, seven)
        m = Mod(a, seven)
        n = Mod<fmod=1>(a, seven)
        qm = Add(q, m)
        b = Max(qm, n, x)
        c = Min(xb, xc)
        g = Abs(xb)
        h = Neg(g)
        k = Sign(h)
        d = Add(k, xc)
        t = Transpose(x)
        r = Concat<axis=1>(t, t)
        e = Identity(r)
        i, j = Split<axis=1, num_outputs=2>(b)
        f = Concat<axis=1>(j, i) })"},
    {"ComparisonsAndChoices", R"((float[2,3,4] x, float[3,1] xa, int64[4] xi, bool[2,3,4] xb) =>
        (bool[2,3,4] a, float[2,3,4] b, int64[2,3,4] c, bool[2,3,4] d) {
        zero = Constant<value_float=0.0>()
        one = Constant<value_int=1>()
        g = Greater(x, xa)
        l = LessOrEqual(x, zero)
        e = Equal(xi, one)
        n = Not(e)
        o = Or(g, l)
        p = And(o, n)
        a = Xor(p, xb)
        b = Where(a, x, xa)
        c = Where(xb, xi, one)
        q = GreaterOrEqual(xa, x)
        r = Less(xi, one)
        d = And(q, r) })"},
    {"Casts", R"((float[3,5] x, int64[3,5] xi, int32[5] xj, bool[3,5] xb) =>
        (int64[3,5] a, float[3,5] b, bool[3,5] c, int32[5] d, float[3,5] e, uint8[3,5] f) {
        nine = Constant<value_float=9.0>()
        y = Mul(x, nine)
        a = Cast<to=7>(y)
        s = Cast<to=1>(xi)
        b = Relu(s)
        c = Cast<to=9>(b)
        k = Cast<to=7>(xj)
        d = Cast<to=6>(k)
        e = Cast<to=1>(xb)
        u = Cast<to=2>(c)
        f = Add(u, u) })"},
    {"MoreFunctions", R"((float[3,40] x, float[40] xa) => (float[3,40] y, float[3,40] z) {
        three = Constant<value_float=3.0>()
        a = Mul(x, three)
        b = Floor(a)
        c = Ceil(a)
        d = Add(b, c)
        e = Sign(d)
        f = Erf(a)
        g = Sin(a)
        h = Cos(g)
        i = Sum(e, f, h)
        p = Abs(a)
        q = Pow(p, xa)
        y = Mul(i, q)
        z = Mod<fmod=1>(a, xa) })"},
    {"ExactGelusWrittenOut", R"((float[4,16] x, float[16,32] w, float[32,16] u, float[16] b) =>
        (float[4,16] y, float[4,32] z) {
        root = Constant<value_float=1.4142135>()
        inverse = Constant<value_float=0.70710678>()
        one = Constant<value_float=1.0>()
        half = Constant<value_float=0.5>()
        m = MatMul(x, w)
        d = Div(m, root)
        e = Erf(d)
        s = Add(e, one)
        p = Mul(m, s)
        g = Mul(p, half)
        n = MatMul(g, u)
        nb = Add(n, b)
        h = Mul(nb, half)
        i = Mul(nb, inverse)
        f = Erf(i)
        k = Add(one, f)
        y = Mul(h, k)
        dx = Div(z0, root)
        ex = Erf(dx)
        sx = Add(ex, one)
        hx = Mul(sx, half)
        z = Mul(z0, hx)
        z0 = Concat<axis=1>(x, x) })"},
    {"LstmOfOneStep", R"((float[1,1,24] x, float[1,1,32] xh, float[1,1,32] xc, float[1,128,24] w,
        float[1,128,32] r, float[1,256] b) => (float[1,1,1,32] y, float[1,1,32] h,
        float[1,1,32] c) {
        y, h, c = LSTM<hidden_size=32>(x, w, r, b, , xh, xc) })"},
    {"LstmsOfBothDirections", R"((float[5,3,8] x, float[2,48,8] w, float[2,48,12] r,
        float[2,96] b, float[1,48,24] v, float[1,48,12] u) =>
        (float[5,3,24] y, float[2,3,12] h, float[5,1,3,12] z, float[1,3,12] c) {
        a = Neg(x)
        f, h, unused = LSTM<hidden_size=12, direction="bidirectional">(a, w, r, b)
        t = Transpose<perm=[0,2,1,3]>(f)
        shape = Constant<value_ints=[5,3,24]>()
        y = Reshape(t, shape)
        z, , c = LSTM<hidden_size=12, direction="reverse",
                      activations=["Sigmoid","Tanh","Tanh"]>(y, v, u) })"},
    {"LstmWithOneStateAndFullLengths", R"((float[4,2,8] x, float[1,2,12] xh, float[1,48,8] w,
        float[1,48,12] r) => (float[1,2,12] h) {
        lengths = Constant<value=int32[2]{4,4}>()
        , h = LSTM<hidden_size=12>(x, w, r, , lengths, xh) })"},
    {"Grus", R"((float[6,2,8] x, float[1,2,12] xh, float[1,36,8] w, float[1,36,12] r,
        float[1,72] b, float[2,36,12] v, float[2,36,12] u, float[2,72] c) =>
        (float[6,1,2,12] y, float[1,2,12] h, float[6,2,2,12] z, float[2,2,12] k,
         float[6,1,2,12] q) {
        y, h = GRU<hidden_size=12>(x, w, r, b, , xh)
        axis = Constant<value_ints=[1]>()
        s = Squeeze(y, axis)
        z, k = GRU<hidden_size=12, direction="bidirectional", linear_before_reset=1>(s, v, u, c)
        q = GRU<hidden_size=12, direction="reverse">(x, w, r) })"},
    {"GrusOfManyUnits", R"((float[6,2,8] x, float[1,2,40] xh, float[1,120,8] w, float[1,120,40] r,
        float[1,240] b, float[2,120,40] v, float[2,120,40] u, float[2,240] c) =>
        (float[6,1,2,40] y, float[1,2,40] h, float[6,2,2,40] z, float[2,2,40] k,
         float[6,1,2,40] q) {
        y, h = GRU<hidden_size=40>(x, w, r, b, , xh)
        axis = Constant<value_ints=[1]>()
        s = Squeeze(y, axis)
        z, k = GRU<hidden_size=40, direction="bidirectional", linear_before_reset=1>(s, v, u, c)
        q = GRU<hidden_size=40, direction="reverse">(x, w, r) })"},
    {"LstmsOfFewUnits", R"((float[5,1,6] x, float[2,16,6] w, float[2,16,4] r, float[2,32] b,
        float[2,2,4] xh, float[2,2,4] xc, float[7,2,3] xz, float[2,16,3] v, float[1,16,6] u,
        float[1,16,4] s) => (float[5,2,1,4] y, float[2,1,4] h, float[2,1,4] c, float[7,2,2,4] q,
        float[2,2,4] d, float[5,1,1,4] p) {
        y, h, c = LSTM<hidden_size=4, direction="bidirectional">(x, w, r, b)
        q, , d = LSTM<hidden_size=4, direction="bidirectional">(xz, v, r, b, , xh, xc)
        p = LSTM<hidden_size=4, direction="reverse">(x, u, s) })"},
    {"TanhGeluWrittenOut", R"((float[4,16] x, float[16,32] w, float[32,16] u) =>
        (float[4,16] y, float[4,16] z) {
        three = Constant<value_float=3.0>()
        small = Constant<value_float=0.044715>()
        root = Constant<value_float=0.7978846>()
        one = Constant<value_float=1.0>()
        half = Constant<value_float=0.5>()
        m = MatMul(x, w)
        c = Pow(m, three)
        s = Mul(c, small)
        a = Add(m, s)
        r = Mul(a, root)
        t = Tanh(r)
        p = Add(t, one)
        h = Mul(m, half)
        g = Mul(h, p)
        y = MatMul(g, u)
        cx = Pow(x, three)
        sx = Mul(small, cx)
        ax = Add(sx, x)
        rx = Mul(root, ax)
        tx = Tanh(rx)
        px = Add(one, tx)
        gx = Mul(x, px)
        z = Mul(gx, half) })"},
    {"ChainsThroughReshapes",
     R"((float[6,16] x, float[16,8] w, float[1,8,6,6] xx, float[12,8,3,3] u,
        float[3,2,8] xr, float[8] c, float[4] s) =>
        (float[3,2,8] y, float[1,12,36] z, float[1,4,108] p) {
        shape = Constant<value_ints=[3,2,8]>()
        flat = Constant<value_ints=[1,12,36]>()
        other = Constant<value_ints=[1,4,108]>()
        m = MatMul(x, w)
        a = Add(m, c)
        r = Reshape(a, shape)
        g = Gelu(r)
        h = Mul(g, c)
        y = Add(h, xr)
        k = Conv<pads=[1,1,1,1]>(xx, u)
        l = Relu(k)
        f = Reshape(l, flat)
        z = Sigmoid(f)
        e = Conv<pads=[1,1,1,1]>(xx, u)
        i = Reshape(e, other)
        axis = Constant<value_ints=[1]>()
        t = Unsqueeze(s, axis)
        p = PRelu(i, t) })"},
    {"AlmostAGelu", R"((float[4,16] x, float[16,16] w) => (float[4,16] y, float[4,16] z) {
        root = Constant<value_float=1.5>()
        one = Constant<value_float=1.0>()
        m = MatMul(x, w)
        d = Div(m, root)
        e = Erf(d)
        s = Add(e, one)
        y = Mul(m, s)
        n = MatMul(y, w)
        good = Constant<value_float=1.4142135>()
        dn = Div(n, good)
        en = Erf(dn)
        sn = Add(en, one)
        tn = Mul(n, sn)
        z = Add(tn, sn) })"},
    {"NormalisationsWrittenOut", R"((float[2,6,16] x, float[16] s, float[16] h, float[16,16] w) =>
        (float[2,6,16] y, float[2,6,16] z) {
        two = Constant<value_float=2.0>()
        small = Constant<value_float=0.001>()
        a = ReduceMean<axes=[-1]>(x)
        b = Sub(x, a)
        c = Pow(b, two)
        d = ReduceMean<axes=[-1]>(c)
        e = Add(d, small)
        f = Sqrt(e)
        g = Div(b, f)
        k = Mul(g, s)
        l = Add(h, k)
        m = MatMul(l, w)
        n = Add(m, x)
        y = Relu(n)
        p = ReduceMean<axes=[2]>(n)
        q = Sub(n, p)
        r = Mul(q, q)
        t = ReduceMean<axes=[2]>(r)
        u = Add(t, small)
        v0 = Sqrt(u)
        w0 = Reciprocal(v0)
        g0 = Mul(w0, s)
        a0 = Mul(n, g0)
        b0 = Mul(p, g0)
        c0 = Sub(h, b0)
        z = Add(a0, c0) })",
     17},
    {"NormalisationsWhoseMiddleIsRead", R"((float[2,6,16] x, float[16] s) =>
        (float[2,6,16] y, float[2,6,1] z, float[2,6,16] u) {
        two = Constant<value_float=2.0>()
        small = Constant<value_float=0.001>()
        a = ReduceMean<axes=[-1]>(x)
        b = Sub(x, a)
        c = Pow(b, two)
        d = ReduceMean<axes=[-1]>(c)
        e = Add(d, small)
        z = Sqrt(e)
        y = Div(b, z)
        f = ReduceMean<axes=[-1]>(y)
        g = Sub(y, f)
        h = Mul(g, g)
        i = ReduceMean<axes=[-1]>(h)
        j = Add(i, small)
        k = Sqrt(j)
        l = Div(g, k)
        u = Add(l, g) })",
     17},
    {"BroadcastsThatTheLibraryIsSlowAt", R"((float[1,9,20] x, float[1,9,1] xa, float[20] c) =>
        (float[1,9,20] y, float[1,9,20] z, float[20,9] u, float[1,9,20] v) {
        a = Sub(c, x)
        b = Mul(xa, c)
        y = Relu(b)
        z = Div(c, a)
        shape = Constant<value_ints=[9,20]>()
        r = Reshape(x, shape)
        t = Transpose(r)
        one = Constant<value_ints=[9,1]>()
        k = Reshape(xa, one)
        l = Transpose(k)
        u = Max(l, t)
        v = Min(c, xa, x) })"},
    {"InstanceNormalisations", R"((float[1,3,9,9] x, float[8,3,3,3] w, float[8] s, float[8] h,
        float[2,8,5,7] xx, float[1,32,6] xs, float[4] g, float[4] k) =>
        (float[1,8,7,7] y, float[2,8,5,7] z, float[1,32,6] u) {
        c = Conv(x, w)
        n = InstanceNormalization<epsilon=1e-3>(c, s, h)
        y = Relu(n)
        z = InstanceNormalization(xx, s, h)
        groups = Constant<value_ints=[1,4,-1]>()
        whole = Constant<value_ints=[1,32,6]>()
        a = Reshape(xs, groups)
        b = InstanceNormalization(a, g, k)
        u = Reshape(b, whole) })"},
    {"InstanceNormalisationsOfOtherRanks", R"((float[2,3,40] x, float[3] s, float[3] h,
        float[1,3,4,5,6] xx) => (float[2,3,40] y, float[1,3,4,5,6] z) {
        n = InstanceNormalization(x, s, h)
        y = LeakyRelu<alpha=0.2>(n)
        z = InstanceNormalization(xx, s, h) })"},
    {"PlacesOfExtremes", R"((float[2,5,6,7] x, float[16,5,3,3] w, int64[3,40] xi) =>
        (int64[2,1,4,5] a, int64[2,5,6] b, int64[3,1] c, int64[3,1] d, int64[5,6,7] e) {
        q = Conv(x, w)
        a = ArgMax<axis=1>(q)
        b = ArgMin<axis=-1, keepdims=0>(x)
        c = ArgMax<axis=1>(xi)
        d = ArgMin<axis=1, select_last_index=1>(xi)
        e = ArgMax<keepdims=0>(x) })"},
    {"ReductionsOfFunctions", R"((float[2,8,6,6] x) => (float[2,8] a, float[2,1,6,6] b,
        float[2,8,1,1] c, float d, float[2,8,6,1] e) {
        axes = Constant<value_ints=[2,3]>()
        one = Constant<value_ints=[1]>()
        last = Constant<value_ints=[-1]>()
        a = ReduceL2<keepdims=0>(x, axes)
        b = ReduceL1(x, one)
        c = ReduceSumSquare(x, axes)
        d = ReduceL2<keepdims=0>(x)
        e = ReduceProd(x, last) })"},
    {"ReductionsOfOneElementEach", R"((float[4,1,5] x) => (float[4,1,5] y, float[4,5] z) {
        one = Constant<value_ints=[1]>()
        y = ReduceL2(x, one)
        z = ReduceSumSquare<keepdims=0>(x, one) })"},
    {"ReductionsOfFunctionsOfOldOpsets", R"((float[2,8,6] x) => (float[2,8,6] y, float[2,8] z) {
        n = ReduceL2<axes=[-1], keepdims=1>(x)
        y = Div(x, n)
        z = ReduceProd<axes=[2], keepdims=0>(x) })",
     13},
    {"SpaceToDepth", R"((float[1,4,6,8] x) => (float[1,36,2,2] y, float[1,16,3,4] z) {
        a = Relu(x)
        z = SpaceToDepth<blocksize=2>(a)
        first = Constant<value_ints=[0]>()
        six = Constant<value_ints=[6]>()
        last = Constant<value_ints=[3]>()
        c = Slice(x, first, six, last)
        y = SpaceToDepth<blocksize=3>(c) })"},
    {"SoftmaxOfOldOpsets", R"((float[2,3,4] x) => (float[2,3,4] y) {
        y = Softmax<axis=1>(x) })",
     11},
};

INSTANTIATE_TEST_SUITE_P(On, OneDnnAgreesWithOnnxRuntime, testing::ValuesIn(kNetworks),
                         [](const auto& network) { return network.param.name; });

TEST_F(OneDnn, AgreesOnWholeNetworks) {
  for (const char* name : {"resnet_tiny", "diamond"}) {
    SCOPED_TRACE(name);
    CompileRequest request;
    request.file = fs::path(PENSTOCK_TEST_NETWORKS) / concat(name, ".onnx");
    expect_agreement(request);
  }
}

TEST_F(OneDnn, DescribesTheLibraryThatWasTaken) {
  const auto description = backend_->describe();
  EXPECT_EQ(description.name, "onednn");
  EXPECT_TRUE(description.engine_version.starts_with("3."));
  EXPECT_TRUE(fs::exists(description.engine_file)) << description.engine_file;
  EXPECT_FALSE(description.whole_graph);
}

TEST_F(OneDnn, GivesRulesAsJson) {
  const auto rules = nlohmann::json::parse(backend_->rules(), nullptr, false);
  ASSERT_FALSE(rules.is_discarded());
  EXPECT_EQ(rules["version"], 1);
}

constexpr const char* kSmall = R"((float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,6,6] y) {
    c = Conv(x, w)
    y = Relu(c) })";

TEST_F(OneDnn, WritesIntoTheCallersBuffersAndAllocatesNothing) {
  Runner runner = runner_of(*backend_, request_for(model_of(kSmall)));
  const std::vector<Tensor> inputs = {random_tensor(runner.executable->inputs()[0].type, 1)};
  std::vector<Tensor> outputs = {Tensor::allocate(DType::kF32, {1, 4, 6, 6})};
  const void* const buffer = outputs[0].data();
  for (int run = 0; run < 3; ++run) {
    ASSERT_TRUE(runner.run(inputs, outputs));
    EXPECT_EQ(outputs[0].data(), buffer);
  }
  EXPECT_EQ(runner.context->counters().allocations, 0U);
  EXPECT_EQ(runner.context->counters().copies, 0U);
}

TEST_F(OneDnn, FollowsBuffersThatChangeFromRunToRun) {
  Runner runner = runner_of(*backend_, request_for(model_of(kSmall)));
  const Type& type = runner.executable->inputs()[0].type;
  std::vector<Tensor> first(1), second(1);
  ASSERT_TRUE(runner.run({random_tensor(type, 1)}, first));
  ASSERT_TRUE(runner.run({random_tensor(type, 2)}, second));
  std::vector<Tensor> again(1);
  ASSERT_TRUE(runner.run({random_tensor(type, 1)}, again));
  EXPECT_FALSE(compare(first[0], second[0]).ok());
  EXPECT_TRUE(std::ranges::equal(first[0].as<float>(), again[0].as<float>()));
  EXPECT_EQ(runner.context->counters().allocations, 3U);
}

TEST_F(OneDnn, ACancelBetweenRunsEndsTheNextOneOnly) {
  Runner conv = runner_of(*backend_, request_for(model_of(kSmall)));
  const std::vector<Tensor> inputs = {random_tensor(conv.executable->inputs()[0].type, 1)};
  std::vector<Tensor> outputs(1);
  ASSERT_TRUE(conv.run(inputs, outputs));
  conv.context->cancel();
  conv.context->cancel();
  const auto status = conv.run(inputs, outputs);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCancelled);
  EXPECT_EQ(status.error().message(), "the run was cancelled");
  EXPECT_TRUE(conv.run(inputs, outputs));
}

TEST_F(OneDnn, NamesTheOperatorThatItDoesNotRun) {
  const auto error = compile_error("(float[2,3] x) => (float[2,3] y) { y = Asin(x) }");
  EXPECT_EQ(error.code, Code::kUnimplemented);
  EXPECT_THAT(error.message(), HasSubstr("Asin"));
}

TEST_F(OneDnn, NamesTheTypeThatAnOperatorDoesNotTake) {
  const auto error = compile_error("(int64[2,3] x) => (int64[2,3] y) { y = Relu(x) }");
  EXPECT_EQ(error.code, Code::kUnimplemented);
  EXPECT_THAT(error.message(), HasSubstr("(Relu): tensor 'x': "));
  EXPECT_THAT(error.message(), HasSubstr("computes it of f32, found i64[2,3]"));
  const auto other = compile_error("(double[2,3] x) => (double[2,3] y) { y = Add(x, x) }");
  EXPECT_EQ(other.code, Code::kUnimplemented);
  EXPECT_THAT(other.message(), HasSubstr("found f64[2,3]"));
}

TEST_F(OneDnn, TellsHowToFixTheSizesOfAnInput) {
  const auto error = compile_error("(float[n,3] x) => (float[n,3] y) { y = Relu(x) }");
  EXPECT_EQ(error.code, Code::kUnimplemented);
  EXPECT_THAT(error.message(), HasSubstr("found f32[n,3]; fix the sizes of the model's inputs: "
                                         "'--shape', in Python 'shapes'"));
}

TEST_F(OneDnn, RefusesARunWhoseIndexIsOutOfRangeOrWhoseDivisorIsNought) {
  const auto outcome_of = [&](const std::string& body, std::int64_t last) {
    Runner runner = runner_of(*backend_, request_for(model_of(body)));
    Tensor numbers = Tensor::allocate(DType::kI64, {3});
    std::ranges::copy(std::array<std::int64_t, 3>{1, 2, last}, numbers.as<std::int64_t>().begin());
    std::vector<Tensor> outputs(1);
    return runner.run({numbers}, outputs);
  };
  const std::string gather = "(int64[3] x, float[4,2] w) => (float[3,2] y) { y = Gather(w, x) }";
  EXPECT_TRUE(outcome_of(gather, -4));
  EXPECT_TRUE(outcome_of(gather, 3));
  for (const std::int64_t index : {4, -5}) {
    const auto outcome = outcome_of(gather, index);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().message(), "an index is out of range: the dimension has 4 elements");
  }
  const std::string divide =
      "(int64[3] x) => (int64[3] y) { n = Constant<value_int=9>() y = Div(n, x) }";
  EXPECT_TRUE(outcome_of(divide, -1));
  const auto outcome = outcome_of(divide, 0);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kInvalidArgument);
  EXPECT_EQ(outcome.error().message(), "an integer is divided by 0");
}

TEST_F(OneDnn, GivesNoNumberAsTheSignOfWhatIsNone) {
  Runner runner =
      runner_of(*backend_, request_for(model_of("(float[3] x) => (float[3] y) { y = Sign(x) }")));
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  Tensor numbers = Tensor::allocate(DType::kF32, {3});
  std::ranges::copy(std::array<float, 3>{-2, kNone, 0}, numbers.as<float>().begin());
  std::vector<Tensor> outputs(1);
  ASSERT_TRUE(runner.run({numbers}, outputs));
  EXPECT_THAT(outputs[0].as<float>(), testing::ElementsAre(-1, testing::IsNan(), 0));
}

TEST_F(OneDnn, NamesTheTensorOfAnOpenShape) {
  const auto error = compile_error("(float[n,3] x) => (float[n,3] y) { y = Relu(x) }");
  EXPECT_EQ(error.code, Code::kUnimplemented);
  EXPECT_THAT(error.message(), HasSubstr("tensor 'x'"));
  EXPECT_THAT(error.message(), HasSubstr("f32[n,3]"));
}

TEST_F(OneDnn, SaysWhatOfAnOperatorIsNotDone) {
  const auto error = compile_error(
      R"((float[1,2,5,5] x) => (float[1,2,4,5] y) {
        pads = Constant<value_ints=[0,0,-1,0,0,0,0,0]>()
        y = Pad(x, pads) })");
  EXPECT_EQ(error.code, Code::kUnimplemented);
  EXPECT_THAT(error.message(), HasSubstr("(Pad): takes no negative pads"));
}

TEST_F(OneDnn, SaysWhatOfARecurrenceIsNotDone) {
  const auto refused = [&](const char* attributes, const char* inputs) {
    return compile_error(concat("(float[4,2,8] x, float[1,48,8] w, float[1,48,12] r, int32[2] xl, "
                                "float[1,36] p) => "
                                "(float[4,1,2,12] y) { y = LSTM<hidden_size=12",
                                attributes, ">(x, w, r", inputs, ") }"))
        .message();
  };
  EXPECT_THAT(refused(", clip=1.0", ""), HasSubstr("(LSTM): takes no clip"));
  EXPECT_THAT(refused(", input_forget=1", ""), HasSubstr("takes no input_forget"));
  EXPECT_THAT(refused("", ", , xl"), HasSubstr("takes no sequence_lens but a constant"));
  EXPECT_THAT(refused("", ", , , , , p"), HasSubstr("takes no peepholes"));
  EXPECT_THAT(refused(", activations=[\"Relu\",\"Tanh\",\"Tanh\"]", ""),
              HasSubstr("takes the usual activations, found Relu"));
}

TEST_F(OneDnn, RefusesOptionsAndPrecisionsThatItLacks) {
  CompileRequest request = request_for(model_of(kSmall));
  request.options["speed"] = "high";
  auto refused = backend_->compile(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("onednn:speed"));
  request.options.clear();
  request.precision = Precision::kI8;
  refused = backend_->compile(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnimplemented);
  request.options["precision"] = "f8";
  refused = backend_->compile(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "precision: expected f32, bf16, f16 or i8, found 'f8'");
}

constexpr const char* kWide = R"((float[1,64,56,56] x, float[64,64,3,3] w) =>
    (float[1,64,56,56] y) {
    c = Conv<pads=[1,1,1,1]>(x, w)
    y = Relu(c) })";

TEST_F(OneDnn, ComputesOnTheCallerAloneWithOneThread) {
  std::thread([&] {
    const auto before = threads_of_process();
    Runner runner = runner_of(*backend_, request_for(model_of(kWide)));
    runner.run_seeded(1);
    EXPECT_EQ(threads_of_process(), before);
  }).join();
}

TEST_F(OneDnn, CreatesOneThreadLessThanAskedOnTheCallersCpus) {
  const auto cpus = device::inherited_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "needs two CPUs";
  std::thread([&] {
    cpu_set_t two;
    CPU_ZERO(&two);
    CPU_SET(cpus[0], &two);
    CPU_SET(cpus[1], &two);
    ASSERT_EQ(sched_setaffinity(0, sizeof two, &two), 0);
    const auto before = threads_of_process();
    CompileRequest request = request_for(model_of(kWide));
    request.threads = 2;
    Runner runner = runner_of(*backend_, request);
    runner.run_seeded(1);
    std::set<int> created;
    std::ranges::set_difference(threads_of_process(), before,
                                std::inserter(created, created.end()));
    ASSERT_EQ(created.size(), 1U);
    EXPECT_EQ(cpus_of(*created.begin()), (std::vector{cpus[0], cpus[1]}));
    EXPECT_EQ(cpus_of(0), (std::vector{cpus[0], cpus[1]}));
  }).join();
}

TEST_F(OneDnn, GivesTheSameWithTwoThreads) {
  CompileRequest request = request_for(model_of(kWide));
  const auto one = runner_of(*backend_, request).run_seeded(1);
  request.threads = 2;
  const auto two = runner_of(*backend_, request).run_seeded(1);
  EXPECT_TRUE(compare(two[0], one[0]).ok());
}

std::size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t pages = 0;
  in >> pages >> pages;
  return pages * 4096;
}

TEST_F(OneDnn, SharesWeightsAmongContexts) {
  const auto executable = backend_->compile(request_for(
      model_of("(float[1,2048] x, float[2048,2048] w) => (float[1,2048] y) { y = MatMul(x, w) }")));
  ASSERT_TRUE(executable) << executable.error().message();
  constexpr std::size_t kWeights = 2048 * 2048 * sizeof(float);
  const std::size_t before = resident_bytes();
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < 4; ++i) {
    auto context = (*executable)->create_context();
    ASSERT_TRUE(context);
    contexts.push_back(*std::move(context));
    const Tensor input = random_tensor((*executable)->inputs()[0].type, 1);
    Tensor output;
    const std::array<const Tensor*, 1> in = {&input};
    const std::array<Tensor*, 1> out = {&output};
    ASSERT_TRUE(contexts.back()->run({}, in, out));
  }
  EXPECT_LT(resident_bytes() - std::min(before, resident_bytes()), kWeights / 2);
}

TEST_F(OneDnn, RunsContextsAtTheSameTime) {
  const auto executable = backend_->compile(request_for(model_of(kWide)));
  ASSERT_TRUE(executable) << executable.error().message();
  const Tensor input = random_tensor((*executable)->inputs()[0].type, 1);
  std::array<Tensor, 2> results;
  std::vector<std::thread> callers;
  for (auto& result : results) {
    callers.emplace_back([&] {
      const auto context = (*executable)->create_context();
      ASSERT_TRUE(context);
      const std::array<const Tensor*, 1> in = {&input};
      const std::array<Tensor*, 1> out = {&result};
      for (int run = 0; run < 20; ++run) ASSERT_TRUE((*context)->run({}, in, out));
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_TRUE(std::ranges::equal(results[0].as<float>(), results[1].as<float>()));
}

}  // namespace
}  // namespace penstock::backend
