#include <atomic>
#include <cfenv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "penstock/backend/registry.h"
#include "penstock/backend/request.h"
#include "penstock/device/device.h"
#include "tests/support/no_more_threads.h"

namespace penstock::backend {
namespace {

namespace fs = std::filesystem;

using Values = std::vector<float>;

Tensor floats(std::vector<std::int64_t> dims, const Values& values) {
  Tensor tensor = Tensor::allocate(DType::kF32, std::move(dims));
  std::ranges::copy(values, tensor.as<float>().begin());
  return tensor;
}

Values values_of(const Tensor& tensor) {
  const auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

std::set<int> threads_of_process() {
  std::set<int> ids;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    ids.insert(std::stoi(task.path().filename().string()));
  }
  return ids;
}

std::set<int> threads_since(const std::set<int>& before) {
  std::set<int> ids;
  std::ranges::set_difference(threads_of_process(), before, std::inserter(ids, ids.end()));
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

void pin_to(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

/// Nanoseconds for which the thread has run.
std::uint64_t busy_ns(int thread) {
  std::ifstream file(concat("/proc/self/task/", thread, "/schedstat"));
  std::uint64_t busy = 0;
  file >> busy;
  return busy;
}

/// An executable with one context, run on copies of the caller's tensors' handles.
struct Runner {
  std::unique_ptr<Executable> executable;
  std::unique_ptr<Context> context;

  /// Copies and allocations so far.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> counted() const {
    const auto counters = context->counters();
    return {counters.copies, counters.allocations};
  }
  Status start(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
    std::vector<const Tensor*> in;
    std::vector<Tensor*> out;
    for (const auto& input : inputs) in.push_back(&input);
    for (auto& output : outputs) out.push_back(&output);
    return context->run({}, in, out);
  }
  Status run(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
    PENSTOCK_CHECK_OK(start(inputs, outputs));
    return context->wait(backend::kNoDeadline);
  }
};

class OpenVinoTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto found = registry().find("openvino");
    ASSERT_TRUE(found) << found.error().message();
    backend_ = *found;
    const auto description = backend_->describe();
    if (!description.unavailable.empty()) GTEST_SKIP() << description.unavailable;
  }

  static const Registry& registry() {
    static const Registry loaded = Registry::load();
    return loaded;
  }
  static fs::path model(const std::string& name) {
    return fs::path(PENSTOCK_TEST_MODELS) / (name + ".onnx");
  }
  static CompileRequest request_for(const std::string& name) {
    CompileRequest request;
    request.file = model(name);
    return request;
  }

  Error compile_error(const CompileRequest& request) {
    auto executable = backend_->compile(request);
    EXPECT_FALSE(executable);
    return executable ? Error{} : executable.error();
  }
  Runner runner(const CompileRequest& request) {
    auto executable = backend_->compile(request);
    EXPECT_TRUE(executable) << executable.error().message();
    auto context = (*executable)->create_context();
    EXPECT_TRUE(context) << context.error().message();
    return {*std::move(executable), *std::move(context)};
  }
  Runner runner(const std::string& name) { return runner(request_for(name)); }

  std::shared_ptr<Backend> backend_;
};

TEST_F(OpenVinoTest, DescribesTheEngineThatWasTaken) {
  const auto description = backend_->describe();
  EXPECT_EQ(description.name, "openvino");
  EXPECT_TRUE(description.engine_version.starts_with("20")) << description.engine_version;
  EXPECT_TRUE(fs::exists(description.engine_file)) << description.engine_file;
  EXPECT_TRUE(description.whole_graph);
}

TEST_F(OpenVinoTest, NamesInputsAndOutputsAsTheFileDoesAndInItsOrder) {
  const auto executable = backend_->compile(request_for("add"));
  ASSERT_TRUE(executable);
  ASSERT_EQ((*executable)->inputs().size(), 2U);
  EXPECT_EQ((*executable)->inputs()[0].name, "a");
  EXPECT_EQ((*executable)->inputs()[1].name, "b");
  EXPECT_EQ((*executable)->outputs()[1].name, "product");
  EXPECT_EQ(to_string((*executable)->outputs()[1].type), "f32[2,3]");
}

TEST_F(OpenVinoTest, KeepsTheNamesOfTensorsThatItsConversionsMerge) {
  Runner merged = runner("merged_names");
  std::vector<std::string> names;
  for (const auto& port : merged.executable->inputs()) names.push_back(port.name);
  EXPECT_THAT(names, testing::ElementsAre("x", "unused"));
  names.clear();
  for (const auto& port : merged.executable->outputs()) names.push_back(port.name);
  EXPECT_THAT(names, testing::ElementsAre("same", "x", "kept", "also", "constant"));
  std::vector<Tensor> outputs(5), others(5);
  for (const float x : {2.0F, 3.0F, 4.0F}) {
    for (auto* of_frame : {&outputs, &others, &outputs}) {
      const auto ran = merged.run({floats({2}, {-1, x}), floats({1}, {9})}, *of_frame);
      ASSERT_TRUE(ran) << ran.error().message();
      EXPECT_EQ(values_of((*of_frame)[0]), (Values{-1, x}));
      EXPECT_EQ(values_of((*of_frame)[1]), (Values{-1, x}));
      EXPECT_EQ(values_of((*of_frame)[2]), (Values{0, x}));
      EXPECT_EQ(values_of((*of_frame)[3]), (Values{0, x}));
      EXPECT_EQ(values_of((*of_frame)[4]), (Values{5, 6}));
    }
  }
}

TEST_F(OpenVinoTest, TakesAnInputThatTheModelDoesNotNeed) {
  Runner like = runner("dropped_input");
  ASSERT_EQ(like.executable->inputs().size(), 2U);
  std::vector<Tensor> outputs(1);
  const auto ran = like.run({floats({2}, {1.5, 2}), Tensor::allocate(DType::kI32, {1})}, outputs);
  ASSERT_TRUE(ran) << ran.error().message();
  EXPECT_THAT(outputs[0].as<std::int32_t>(), testing::ElementsAre(1, 2));
}

TEST_F(OpenVinoTest, KeepsTheSymbolsOfOpenDimensions) {
  const auto executable = backend_->compile(request_for("dynamic_batch"));
  ASSERT_TRUE(executable);
  EXPECT_EQ(to_string((*executable)->inputs()[0].type), "f32[n,3]");
  EXPECT_EQ(to_string((*executable)->outputs()[0].type), "f32[n,3]");
}

TEST_F(OpenVinoTest, TakesTheBuffersOfEachFrame) {
  Runner add = runner("add");
  std::vector<Tensor> inputs, slots;
  for (int i = 0; i < 40; ++i) {
    inputs.push_back(floats({2, 3}, Values(6, static_cast<float>(i))));
    slots.push_back(Tensor::allocate(DType::kF32, {2, 3}));
    slots.push_back(Tensor::allocate(DType::kF32, {2, 3}));
  }
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::array<const Tensor*, 2> in{&inputs[i], &inputs[(i + 1) % inputs.size()]};
      const std::array<Tensor*, 2> out{&slots[2 * i], &slots[2 * i + 1]};
      ASSERT_TRUE(add.context->run({}, in, out));
      const auto other = static_cast<float>((i + 1) % inputs.size());
      EXPECT_EQ(values_of(slots[2 * i])[5], static_cast<float>(i) + other);
      EXPECT_EQ(values_of(slots[2 * i + 1])[5], static_cast<float>(i) * other);
    }
  }
  EXPECT_EQ(add.counted(), (std::pair<std::uint64_t, std::uint64_t>{0, 0}));
}

TEST_F(OpenVinoTest, AllocatesOutputsThatComeWithoutStorageOrWithTooLittle) {
  std::vector<Tensor> outputs = {Tensor(), Tensor::reserve(DType::kF32, 8)};
  {
    Runner add = runner("add");
    ASSERT_TRUE(
        add.run({floats({2, 3}, {1, 2, 3, 4, 5, 6}), floats({2, 3}, {1, 1, 1, 1, 1, 1})}, outputs));
    EXPECT_EQ(add.counted(), (std::pair<std::uint64_t, std::uint64_t>{0, 2}));
  }
  EXPECT_EQ(values_of(outputs[0]), (Values{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(values_of(outputs[1]), (Values{1, 2, 3, 4, 5, 6}));
}

TEST_F(OpenVinoTest, ReadsExternalDataBesideTheFile) {
  Runner add = runner("external");
  std::vector<Tensor> outputs(1);
  ASSERT_TRUE(add.run({floats({64}, Values(64, 1))}, outputs));
  EXPECT_EQ(values_of(outputs[0])[63], 64);
}

TEST_F(OpenVinoTest, SizesOpenOutputsByTheInputsOfEachFrame) {
  Runner twice = runner("dynamic_batch");
  std::vector<Tensor> outputs = {Tensor::reserve(DType::kF32, 24)};
  const void* buffer = outputs[0].data();
  for (const std::int64_t n : {1, 2, 1, 0, 2}) {
    const auto count = static_cast<std::size_t>(n) * 3;
    const auto ran = twice.run({floats({n, 3}, Values(count, 2))}, outputs);
    ASSERT_TRUE(ran) << ran.error().message();
    EXPECT_EQ(outputs[0].data(), buffer);
    EXPECT_EQ(outputs[0].dims(), (std::vector<std::int64_t>{n, 3}));
    EXPECT_EQ(values_of(outputs[0]), Values(count, 4));
  }
  EXPECT_EQ(twice.counted(), (std::pair<std::uint64_t, std::uint64_t>{0, 0}));
}

TEST_F(OpenVinoTest, GivesAnOpenOutputLargerStorageWhereTheCallersIsTooSmall) {
  Runner twice = runner("dynamic_batch");
  std::vector<Tensor> outputs = {Tensor::reserve(DType::kF32, 24)};
  ASSERT_TRUE(twice.run({floats({2, 3}, Values(6, 1))}, outputs));
  const void* buffer = outputs[0].data();
  const auto ran = twice.run({floats({3, 3}, Values(9, 2))}, outputs);
  ASSERT_TRUE(ran) << ran.error().message();
  EXPECT_NE(outputs[0].data(), buffer);
  EXPECT_EQ(values_of(outputs[0]), Values(9, 4));
  outputs[0] = Tensor();
  ASSERT_TRUE(twice.run({floats({1, 3}, Values(3, 3))}, outputs));
  EXPECT_EQ(values_of(outputs[0]), Values(3, 6));
}

TEST_F(OpenVinoTest, SurvivesAModelThatDeclaresAWrongShape) {
  Runner twice = runner("lying_shape");
  std::vector<Tensor> outputs = {Tensor::reserve(DType::kF32, 24)};
  const void* buffer = outputs[0].data();
  for (int frame = 0; frame < 3; ++frame) {
    ASSERT_TRUE(twice.run({floats({1, 3}, {1, 2, 3})}, outputs));
    EXPECT_EQ(outputs[0].data(), buffer);
    EXPECT_EQ(values_of(outputs[0]), (Values{1, 2, 3, 1, 2, 3}));
  }
}

TEST_F(OpenVinoTest, WritesDataDependentResultsIntoTheCallersBufferWhereTheyFit) {
  Runner nonzero = runner("nonzero");
  std::vector<Tensor> outputs = {Tensor::reserve(DType::kI64, 16)};
  const void* buffer = outputs[0].data();
  ASSERT_TRUE(nonzero.run({floats({4}, {0, 1, 0, 1})}, outputs));
  EXPECT_EQ(outputs[0].data(), buffer);
  EXPECT_THAT(outputs[0].as<std::int64_t>(), testing::ElementsAre(1, 3));
  ASSERT_TRUE(nonzero.run({floats({4}, {1, 1, 1, 1})}, outputs));
  EXPECT_NE(outputs[0].data(), buffer);
  EXPECT_THAT(outputs[0].as<std::int64_t>(), testing::ElementsAre(0, 1, 2, 3));
  ASSERT_TRUE(nonzero.run({floats({4}, {0, 0, 0, 0})}, outputs));
  EXPECT_EQ(outputs[0].count(), 0U);
}

TEST_F(OpenVinoTest, RunsScalarsAndTensorsWithoutElements) {
  Runner sum = runner("scalar");
  std::vector<Tensor> outputs = {Tensor::allocate(DType::kF32, {})};
  for (const float last : {4.0F, 5.0F}) {
    ASSERT_TRUE(sum.run({floats({4}, {1, 2, 3, last})}, outputs));
    EXPECT_EQ(values_of(outputs[0]), (Values{6 + last}));
    EXPECT_TRUE(outputs[0].dims().empty());
  }

  Runner relu = runner("empty");
  outputs = {Tensor::view(DType::kF32, {0, 3}, nullptr)};
  ASSERT_TRUE(relu.run({Tensor::view(DType::kF32, {0, 3}, nullptr)}, outputs));
  EXPECT_EQ(outputs[0].dims(), (std::vector<std::int64_t>{0, 3}));
}

TEST_F(OpenVinoTest, PassesEveryPlainType) {
  Runner plain = runner("plain_types");
  std::vector<Tensor> inputs, outputs;
  for (const auto& port : plain.executable->inputs()) {
    Tensor& input = inputs.emplace_back(Tensor::allocate(port.type.dtype, {2, 3}));
    // Numbers of 32 bits are exact; longer ones are computed as such.
    auto bytes = input.as<std::uint8_t>();
    const std::size_t width = bytes.size() / input.count();
    for (std::size_t i = 0; i < bytes.size(); i += width) bytes[i] = i / width % 2 == 0 ? 1 : 0;
    if (port.type.dtype == DType::kF64) input.as<double>()[0] = 0.5;
    outputs.emplace_back();
  }
  const auto ran = plain.run(inputs, outputs);
  ASSERT_TRUE(ran) << ran.error().message();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(outputs[i].dtype(), inputs[i].dtype());
    EXPECT_EQ(outputs[i].dims(), (std::vector<std::int64_t>{3, 2}));
    const auto width = static_cast<std::ptrdiff_t>(inputs[i].bytes() / 6);
    const auto* in = inputs[i].as<std::uint8_t>().data();
    const auto* out = outputs[i].as<std::uint8_t>().data();
    EXPECT_EQ(std::vector(out, out + width), std::vector(in, in + width))
        << to_string(inputs[i].dtype());
    EXPECT_EQ(std::vector(out + width, out + 2 * width),
              std::vector(in + 3 * width, in + 4 * width));
  }
}

TEST_F(OpenVinoTest, RefusesTypesThatAreNoPlainTensors) {
  EXPECT_EQ(compile_error(request_for("strings")).code, Code::kUnimplemented);
  EXPECT_EQ(compile_error(request_for("sequence")).code, Code::kUnimplemented);
  EXPECT_EQ(compile_error(request_for("optional")).code, Code::kUnimplemented);
}

TEST_F(OpenVinoTest, SaysWhatAnInputExpectsAndStaysUsable) {
  Runner add = runner("add");
  std::vector<Tensor> outputs(2);
  const Tensor good = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  auto status = add.run({good, floats({3, 2}, {1, 2, 3, 4, 5, 6})}, outputs);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_EQ(status.error().message(), "input 'b': expected f32[2,3], found f32[3,2]");
  status = add.run({Tensor::allocate(DType::kU8, {2, 3}), good}, outputs);
  EXPECT_EQ(status.error().message(), "input 'a': expected f32[2,3], found u8[2,3]");
  status = add.run({Tensor(), good}, outputs);
  EXPECT_EQ(status.error().message(), "input 'a': expected f32[2,3], found ?");
  status = add.run({good}, outputs);
  EXPECT_EQ(status.error().message(), "expected 2 inputs and 2 outputs, found 1 and 2");
  EXPECT_TRUE(add.run({good, good}, outputs));
}

TEST_F(OpenVinoTest, AStageOfOneThreadComputesOnTheCaller) {
  const int cpu = device::inherited_cpus().back();
  const auto before = threads_of_process();
  std::thread([&] {
    pin_to(cpu);
    Runner conv = runner("conv_relu");
    std::vector<Tensor> outputs(1);
    const Tensor input = floats({1, 4, 16, 16}, Values(1024, 1));
    ASSERT_TRUE(conv.run({input}, outputs));
    EXPECT_EQ(cpus_of(0), std::vector{cpu});
    std::map<int, std::uint64_t> busy;
    for (const int thread : threads_since(before)) busy[thread] = busy_ns(thread);
    EXPECT_LE(busy.size(), 1U + static_cast<std::size_t>(conv.executable->idle_threads()));
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(conv.run({input}, outputs));
    busy.erase(static_cast<int>(gettid()));
    for (const auto& [thread, ns] : busy) {
      EXPECT_EQ(busy_ns(thread), ns) << "an idle thread computes";
      EXPECT_EQ(cpus_of(thread), std::vector{cpu});
    }
    EXPECT_EQ(cpus_of(0), std::vector{cpu});
  }).join();
}

TEST_F(OpenVinoTest, WorkersOfAStageOfTwoThreadsStayOnItsCpus) {
  if (device::inherited_cpus().size() < 2) GTEST_SKIP() << "needs two CPUs";
  const int cpu = device::inherited_cpus().back();
  std::thread([&] {
    pin_to(cpu);
    CompileRequest request = request_for("long_chain");
    request.threads = 2;
    Runner chain = runner(request);
    std::vector<Tensor> outputs(1);
    const Tensor input = floats({256, 256}, Values(65536, 1));
    ASSERT_TRUE(chain.run({input}, outputs));
    std::map<int, std::uint64_t> busy;
    for (const int thread : threads_of_process()) busy[thread] = busy_ns(thread);
    ASSERT_TRUE(chain.run({input}, outputs));
    int workers = 0;
    for (const int thread : threads_of_process()) {
      if (thread == gettid() || busy_ns(thread) == busy[thread]) continue;
      EXPECT_EQ(cpus_of(thread), std::vector{cpu});
      ++workers;
    }
    EXPECT_EQ(workers, 1);
  }).join();
}

TEST_F(OpenVinoTest, StagesOfSeveralThreadsAreOnTheSameCpus) {
  if (device::inherited_cpus().size() < 2) GTEST_SKIP() << "needs two CPUs";
  CompileRequest request = request_for("conv_relu");
  request.name = "stage 'tail'";
  request.threads = 2;
  {
    const Runner first = runner(request);
    const Runner beside = runner(request);
    Error second;
    std::thread([&] {
      pin_to(device::inherited_cpus().back());
      second = compile_error(request);
    }).join();
    EXPECT_EQ(second.code, Code::kFailedPrecondition);
    EXPECT_EQ(second.message(),
              "stage 'tail': model '" + model("conv_relu").string() +
                  "': OpenVINO's threads are one pool for the process, and another stage has it on "
                  "several other CPUs; give one of the two a single CPU or another backend");
  }
  EXPECT_TRUE(backend_->compile(request));
}

TEST_F(OpenVinoTest, ContextsOfOneExecutableRunAtTheSameTime) {
  Runner first = runner("conv_relu");
  auto second = first.executable->create_context();
  ASSERT_TRUE(second);
  const auto run_many = [](Context& context, float x) {
    const Tensor input = floats({1, 4, 16, 16}, Values(1024, x));
    Tensor output = Tensor::allocate(DType::kF32, {1, 4, 16, 16});
    const std::array<const Tensor*, 1> in{&input};
    const std::array<Tensor*, 1> out{&output};
    std::set<Values> results;
    for (int i = 0; i < 200; ++i) {
      std::ranges::fill(output.as<float>(), -1.0F);
      EXPECT_TRUE(context.run({}, in, out));
      results.insert(values_of(output));
    }
    EXPECT_EQ(results.size(), 1U);
    return results.begin()->at(0);
  };
  const float one = run_many(*first.context, 1);
  float doubled = 0;
  std::thread other([&] { doubled = run_many(**second, 2); });
  EXPECT_EQ(run_many(*first.context, 1), one);
  other.join();
  EXPECT_FLOAT_EQ(doubled, 2 * one);
}

TEST_F(OpenVinoTest, APerformanceHintStartsFramesThatAreWaitedFor) {
  CompileRequest request = request_for("dynamic_batch");
  request.options = {{"PERFORMANCE_HINT", "THROUGHPUT"}};
  Runner first = runner(request);
  EXPECT_GE(first.executable->recommended_contexts(), 1);
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < 4; ++i) {
    auto context = first.executable->create_context();
    ASSERT_TRUE(context) << context.error().message();
    contexts.push_back(*std::move(context));
  }
  std::vector<Tensor> inputs, outputs(4);
  for (std::size_t i = 0; i < 4; ++i) {
    inputs.push_back(floats({1, 3}, Values(3, static_cast<float>(i))));
  }
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < 4; ++i) {
      const std::array<const Tensor*, 1> in{&inputs[i]};
      const std::array<Tensor*, 1> out{&outputs[i]};
      ASSERT_TRUE(contexts[i]->run({}, in, out));
    }
    for (std::size_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(contexts[i]->wait(backend::kNoDeadline));
      EXPECT_EQ(values_of(outputs[i]), Values(3, 2.0F * static_cast<float>(i)));
    }
  }
}

TEST_F(OpenVinoTest, FramesOfOneModelMayEachHaveAnotherShapeAtTheSameTime) {
  // While one sizes its buffers, the next is given its tensors.
  CompileRequest request = request_for("open_scan");
  request.options = {{"PERFORMANCE_HINT", "THROUGHPUT"}};
  Runner first = runner(request);
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < 4; ++i) contexts.push_back(*first.executable->create_context());
  std::vector<Tensor> inputs;
  for (const std::size_t length : {3, 5, 8, 2, 6}) {
    inputs.push_back(floats({static_cast<std::int64_t>(length), 1, 4}, Values(4 * length, 0)));
  }
  std::array<std::array<Tensor, 2>, 4> outputs;
  for (std::size_t frame = 0; frame < 4000; ++frame) {
    auto& context = *contexts[frame % 4];
    auto& made = outputs[frame % 4];
    ASSERT_TRUE(context.wait(backend::kNoDeadline));
    for (auto& output : made) {
      if (frame >= 4) {
        EXPECT_EQ(values_of(output), Values(4, 0));
      }
      output = Tensor::allocate(DType::kF32, {1, 4});
    }
    const std::array<const Tensor*, 1> in{&inputs[frame % inputs.size()]};
    const std::array<Tensor*, 2> out{made.data(), &made[1]};
    ASSERT_TRUE(context.run({}, in, out));
  }
  for (const auto& context : contexts) ASSERT_TRUE(context->wait(backend::kNoDeadline));
}

TEST_F(OpenVinoTest, AWaitThatEndsAtItsDeadlineMayBeRepeatedUntilTheRunIsFinished) {
  CompileRequest request = request_for("long_chain");
  request.options = {{"PERFORMANCE_HINT", "LATENCY"}};
  Runner chain = runner(request);
  const Tensor input = floats({256, 256}, Values(65536, 1));
  std::vector<Tensor> outputs = {Tensor::allocate(DType::kF32, {256, 256})};
  ASSERT_TRUE(chain.start({input}, outputs));
  Status status = chain.context->wait(0);
  while (!status && status.error().code == Code::kDeadlineExceeded) {
    status = chain.context->wait(0);
  }
  ASSERT_TRUE(status) << status.error().message();
  EXPECT_NEAR(values_of(outputs[0])[0], 1, 1e-3);
  EXPECT_TRUE(chain.context->wait(0)) << "no run is in progress";
}

TEST_F(OpenVinoTest, ACancelledRunOfItsOwnThreadsSaysSoAndTheNextOneRuns) {
  CompileRequest request = request_for("long_chain");
  request.options = {{"PERFORMANCE_HINT", "LATENCY"}};
  Runner chain = runner(request);
  const Tensor input = floats({256, 256}, Values(65536, 1));
  std::vector<Tensor> outputs = {Tensor::allocate(DType::kF32, {256, 256})};
  ASSERT_TRUE(chain.start({input}, outputs));
  chain.context->cancel();
  const auto status = chain.context->wait(backend::kNoDeadline);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCancelled);
  EXPECT_EQ(status.error().message(), "the run was cancelled");
  ASSERT_TRUE(chain.run({input}, outputs));
  EXPECT_NEAR(values_of(outputs[0])[0], 1, 1e-3);
}

TEST_F(OpenVinoTest, ACancelBetweenRunsEndsTheNextOneOnly) {
  for (const bool own_threads : {false, true}) {
    CompileRequest request = request_for("conv_relu");
    if (own_threads) request.options = {{"PERFORMANCE_HINT", "LATENCY"}};
    Runner conv = runner(request);
    const Tensor input = floats({1, 4, 16, 16}, Values(1024, 1));
    std::vector<Tensor> outputs(1);
    ASSERT_TRUE(conv.run({input}, outputs));
    conv.context->cancel();
    conv.context->cancel();
    const auto status = conv.run({input}, outputs);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kCancelled);
    EXPECT_TRUE(conv.run({input}, outputs));
  }
}

TEST_F(OpenVinoTest, ARunOnTheCallersThreadIsCancelledOrItsResultIsRight) {
  Runner chain = runner("long_chain");
  const Tensor input = floats({256, 256}, Values(65536, 1));
  std::vector<Tensor> outputs = {Tensor::allocate(DType::kF32, {256, 256})};
  std::atomic<bool> done = false;
  std::jthread canceller([&] {
    while (!done) {
      chain.context->cancel();
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 3; ++i) {
    const auto status = chain.run({input}, outputs);
    if (status) {
      EXPECT_NEAR(values_of(outputs[0])[0], 1, 1e-3);
    } else {
      EXPECT_EQ(status.error().message(), "the run was cancelled");
    }
  }
  done = true;
}

TEST_F(OpenVinoTest, LeavesTheCallersFloatingPointModeAlone) {
  CompileRequest request = request_for("denormal");
  request.options = {{"CPU_DENORMALS_OPTIMIZATION", "YES"}};
  request.flush_denormals = true;
  Runner mul = runner(request);
  std::vector<Tensor> outputs(1);
  ASSERT_TRUE(mul.run({floats({1}, {1})}, outputs));
  volatile float small = 1e-20F;
  const float product = small * small;
  EXPECT_GT(product, 0.0F) << "denormals are flushed on this thread";
}

TEST_F(OpenVinoTest, ComputesInF32UnlessAskedOtherwise) {
  // 1/3 and 3 in bf16 would make 1.0039.
  Runner exact = runner("thirds");
  std::vector<Tensor> outputs(1);
  ASSERT_TRUE(exact.run({floats({1, 64}, Values(64, 1.0F / 3.0F))}, outputs));
  EXPECT_NEAR(values_of(outputs[0])[0], 64.0F, 1e-4);
}

TEST_F(OpenVinoTest, ComputesInThePrecisionsThatItNamesWhereAsked) {
  const std::vector<Tensor> inputs{floats({1, 64}, Values(64, 1.0F / 3.0F))};
  for (const auto precision : backend_->lower_precisions()) {
    CompileRequest request = request_for("thirds");
    request.options["precision"] = backend::to_string(precision);
    Runner lower = runner(request);
    std::vector<Tensor> outputs(1);
    ASSERT_TRUE(lower.run(inputs, outputs));
    EXPECT_NEAR(values_of(outputs[0])[0], 64.0F, 1) << backend::to_string(precision);
  }
  CompileRequest request = request_for("thirds");
  request.options["precision"] = "f8";
  EXPECT_EQ(compile_error(request).message(),
            "precision: expected f32, bf16, f16 or i8, found 'f8'");
}

TEST_F(OpenVinoTest, PassesOptionsToTheEngineAndNamesThoseThatItRefuses) {
  CompileRequest request = request_for("add");
  request.options = {{"NUM_STREAMS", "2"}, {"INFERENCE_NUM_THREADS", "2"}};
  EXPECT_TRUE(backend_->compile(request));
  request.options = {{"FOO", "1"}};
  Error error = compile_error(request);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message(), "model '" + model("add").string() +
                                 "': backend option 'openvino:FOO' = '1': Unsupported property FOO "
                                 "by CPU plugin");
  request.options = {{"PERFORMANCE_HINT", "FAST"}};
  error = compile_error(request);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_NE(error.message().find("'openvino:PERFORMANCE_HINT' = 'FAST'"), std::string::npos)
      << error.message();
}

TEST_F(OpenVinoTest, LeavesCustomOperatorsToOthers) {
  CompileRequest request = request_for("add");
  request.custom_ops = {"mine.so"};  // Of another part of the network.
  EXPECT_TRUE(backend_->compile(request));
  request = request_for("unknown_operator");
  request.custom_ops = {"mine.so"};
  EXPECT_NE(compile_error(request).message().find("is run by 'onnxruntime' only"),
            std::string::npos)
      << compile_error(request).message();
}

TEST_F(OpenVinoTest, RefusesToCompileWithoutThreadsForTheEngine) {
  {
    const NoMoreThreads limited;
    const Error refused = compile_error(request_for("add"));
    EXPECT_EQ(refused.code, Code::kResourceExhausted);
    EXPECT_THAT(refused.message(), testing::HasSubstr("no thread could be started: "));
  }
  EXPECT_TRUE(backend_->compile(request_for("add")));
}

TEST_F(OpenVinoTest, RefusesWhatIsNoModel) {
  const std::string no_model =
      "not an ONNX model: it is text; give the model's own file (.onnx), or download it again";
  EXPECT_EQ(compile_error(request_for("absent")).message(),
            "model '" + model("absent").string() + "': no such file; check the path");
  EXPECT_EQ(compile_error(request_for("junk")).code, Code::kDataLoss);
  EXPECT_EQ(compile_error(request_for("junk")).message(),
            "model '" + model("junk").string() + "': " + no_model);
  CompileRequest request;
  request.name = "stage 'head'";
  request.bytes = "junk";
  EXPECT_EQ(compile_error(request).message(), "stage 'head': " + no_model);
  request.bytes.clear();
  EXPECT_EQ(compile_error(request).message(), "neither a model file nor bytes given");
}

TEST_F(OpenVinoTest, NamesAnOperatorThatItDoesNotHave) {
  const Error error = compile_error(request_for("unknown_operator"));
  EXPECT_EQ(error.code, Code::kUnimplemented);
  EXPECT_EQ(error.message(), "model '" + model("unknown_operator").string() +
                                 "': OpenVINO has no conversion for acme.Swish");
}

TEST_F(OpenVinoTest, RefusesDevicesThatItDoesNotHave) {
  CompileRequest request = request_for("add");
  request.device = *device::parse_device("cuda:0");
  EXPECT_EQ(compile_error(request).message(),
            "backend 'openvino' runs on CPUs of this machine, found device 'cuda:0'");
}

TEST(OpenVinoSearchTest, SaysWhereItSoughtAnEngineAndWhatToDo) {
  setenv("PENSTOCK_OPENVINO", "/absent/libopenvino_c.so", 1);
  const Registry registry = Registry::load();
  const auto backend = registry.find("openvino");
  ASSERT_TRUE(backend) << backend.error().message();
  const auto description = (*backend)->describe();
  unsetenv("PENSTOCK_OPENVINO");
  EXPECT_EQ(description.engine_version, "");
  EXPECT_EQ(description.unavailable,
            "no usable OpenVINO found; sought in PENSTOCK_OPENVINO "
            "('/absent/libopenvino_c.so'): /absent/libopenvino_c.so: cannot open shared object "
            "file: No such file or directory; install one with 'pip install openvino', or set "
            "PENSTOCK_OPENVINO to libopenvino_c.so or its folder");
}

}  // namespace
}  // namespace penstock::backend
