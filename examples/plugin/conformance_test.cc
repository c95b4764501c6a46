// What the pipeline asks of every backend (penstock/backend/backend.h), as tests of one that is
// named when this is compiled: CONFORMANCE_BACKENDS, one or several in quotes. The network is y =
// Relu(a + b), f32[2,3]; a backend that runs something else changes kOperators. Needs GoogleTest,
// and the plugin in PENSTOCK_PLUGIN_PATH.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "penstock/backend/backend.h"
#include "penstock/backend/registry.h"
#include "penstock/device/device.h"
#include "penstock/tensor/tensor.h"

namespace {

namespace backend = penstock::backend;
namespace fs = std::filesystem;
using penstock::Code;
using penstock::concat;
using penstock::DType;
using penstock::Error;
using penstock::Status;
using penstock::Tensor;
using testing::HasSubstr;
using testing::Not;
using Values = std::vector<float>;

// ---------------------------------------------------------------- models, without a library that
// writes them

/// A field of a message of protobuf that has a length, or is a number below 128.
std::string field(int number, const std::string& bytes) {
  std::string made(1, static_cast<char>(number << 3 | 2));
  std::size_t length = bytes.size();
  for (; length > 127; length >>= 7U) made += static_cast<char>((length & 127U) | 128U);
  made += static_cast<char>(length);
  return made + bytes;
}
std::string field(int number, char value) {
  return {static_cast<char>(number << 3), value};
}

struct Operator {
  std::vector<std::string> inputs;
  std::string name;
  std::string output;
};

/// (float[2,3] a, float[2,3] b) => (float[2,3] sum, float[2,3] y), as an onnx.ModelProto.
std::string model_of(const std::vector<Operator>& operators) {
  const auto value = [](const std::string& name) {
    const std::string shape = field(1, field(1, '\2')) + field(1, field(1, '\3'));
    return field(1, name) + field(2, field(1, field(1, '\1') + field(2, shape)));
  };
  std::string graph;
  for (const auto& [inputs, name, output] : operators) {
    std::string node;
    for (const auto& input : inputs) node += field(1, input);
    graph += field(1, node + field(2, output) + field(3, "make_" + output) + field(4, name));
  }
  graph += field(2, "conformance") + field(11, value("a")) + field(11, value("b")) +
           field(12, value("sum")) + field(12, value("y"));
  return field(1, '\10') + field(7, graph) + field(8, field(1, "") + field(2, '\21'));
}

const std::vector<Operator> kOperators = {{{"a", "b"}, "Add", "sum"}, {{"sum"}, "Relu", "y"}};
const std::vector<std::int64_t> kDims = {2, 3};
constexpr std::size_t kBytes = 6 * sizeof(float);

Tensor floats(const Values& values) {
  Tensor tensor = Tensor::allocate(DType::kF32, kDims);
  std::ranges::copy(values, tensor.as<float>().begin());
  return tensor;
}

/// The inputs of a frame, and what its outputs must be.
struct Frame {
  explicit Frame(float number) {
    const Values a = {-3, -2, -1, 1, 2, number};
    const Values b = {1, 1, number, 1, -2, 1};
    std::ranges::transform(a, b, std::back_inserter(sum), std::plus<>());
    std::ranges::transform(sum, std::back_inserter(y), [](float v) { return std::max(v, 0.0F); });
    inputs = {floats(a), floats(b)};
  }

  std::vector<Tensor> inputs;
  Values sum, y;
};

Values values_of(const Tensor& tensor) {
  const auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

std::vector<Tensor> buffers() {
  return {floats(Values(6, -1)), floats(Values(6, -1))};
}

/// Whether the outputs are the frame's.
void expect_outputs(const Frame& frame, const std::vector<Tensor>& outputs) {
  for (const auto& output : outputs) ASSERT_EQ(output.dims(), kDims);
  EXPECT_EQ(values_of(outputs[0]), frame.sum);
  EXPECT_EQ(values_of(outputs[1]), frame.y);
}

// ---------------------------------------------------------------- runs, to their end

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// A model with one context: what a stage has.
class Runner {
 public:
  Runner(std::shared_ptr<backend::Executable> executable)  // NOLINT(google-explicit-constructor)
      : executable_(std::move(executable)) {
    auto context = executable_->create_context();
    EXPECT_TRUE(context) << context.error().message();
    if (context) context_ = *std::move(context);
  }

  /// Gives the run to the backend. Tensors must live until finish().
  Status start(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs,
               std::int64_t deadline_ns = backend::kNoDeadline) {
    std::vector<const Tensor*> in;
    std::vector<Tensor*> out;
    for (const auto& input : inputs) in.push_back(&input);
    for (auto& output : outputs) out.push_back(&output);
    backend::Call call;
    call.deadline_ns = deadline_ns;
    if (executable_->is_asynchronous()) {
      call.done = [](void* whom) { ++*static_cast<std::atomic<int>*>(whom); };
      call.whom = &done_;
    }
    auto status = context_->run(call, in, out);
    if (status) ++started_;
    return status;
  }

  /// Waits for the run, and asks what the backend told of it.
  Status finish() {
    auto status = context_->wait(backend::kNoDeadline);
    if (executable_->is_asynchronous()) {
      EXPECT_EQ(done_, started_) << "Call::done once for each run, before wait() returns";
    }
    return status;
  }

  Status run(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs,
             std::int64_t deadline_ns = backend::kNoDeadline) {
    auto status = start(inputs, outputs, deadline_ns);
    return status ? finish() : status;
  }

  /// Runs the frame, into buffers of its own; its outputs must be right.
  void expect_right(const Frame& frame) {
    auto outputs = buffers();
    const auto status = run(frame.inputs, outputs);
    ASSERT_TRUE(status) << status.error().message();
    expect_outputs(frame, outputs);
  }

  backend::Context& context() { return *context_; }
  std::shared_ptr<backend::Executable>& executable() { return executable_; }

 private:
  std::shared_ptr<backend::Executable> executable_;
  std::unique_ptr<backend::Context> context_;
  std::atomic<int> done_{0};
  int started_ = 0;
};

std::set<int> threads_of_process() {
  std::set<int> ids;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    ids.insert(std::stoi(task.path().filename().string()));
  }
  return ids;
}

bool runs_only_on(int thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(thread, sizeof set, &set);
  return CPU_COUNT(&set) == 1 && CPU_ISSET(cpu, &set);
}

void pin_to(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

class Conformance : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    static const backend::Registry registry = backend::Registry::load();
    auto found = registry.find(GetParam());
    ASSERT_TRUE(found) << found.error().message();
    backend_ = *std::move(found);
    const auto description = backend_->describe();
    if (!description.unavailable.empty()) GTEST_SKIP() << description.unavailable;
  }

  static backend::CompileRequest request() {
    backend::CompileRequest made;
    made.name = "stage 'conformance'";
    made.bytes = model_of(kOperators);
    return made;
  }

  std::shared_ptr<backend::Executable> compiled(const backend::CompileRequest& request) {
    auto executable = backend_->compile(request);
    EXPECT_TRUE(executable) << executable.error().message();
    return executable ? std::shared_ptr<backend::Executable>(*std::move(executable)) : nullptr;
  }

  Error refusal(const backend::CompileRequest& request) {
    const auto executable = backend_->compile(request);
    EXPECT_FALSE(executable) << "it was compiled";
    return executable ? Error() : executable.error();
  }

  std::shared_ptr<backend::Backend> backend_;
};

/// Tests that hand tensors of the host's memory to it.
class ConformanceOfRuns : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto memory = backend_->memory(request().device);
    if (memory && !memory->reaches_host()) GTEST_SKIP() << "its runs read " << memory->name();
  }
};

// ---------------------------------------------------------------- what it says of itself

TEST_P(Conformance, DescribesItselfByTheNameOfItsPlugin) {
  const auto description = backend_->describe();
  EXPECT_EQ(description.name, GetParam());
  EXPECT_FALSE(description.engine_version.empty());
  EXPECT_TRUE(description.engine_file.empty() || fs::exists(description.engine_file))
      << description.engine_file;
}

TEST_P(Conformance, GivesItsRulesWithTheirVersion) {
  EXPECT_THAT(backend_->rules(), HasSubstr("\"version\""));
  EXPECT_EQ(backend_->rules(), backend_->rules());
}

// ---------------------------------------------------------------- compile

TEST_P(Conformance, NamesInputsAndOutputsInTheModelsOrderWithTheirTypes) {
  const auto executable = compiled(request());
  ASSERT_TRUE(executable);
  std::string found;
  for (const auto& port : executable->inputs()) found += port.name + to_string(port.type) + " ";
  for (const auto& port : executable->outputs()) found += port.name + to_string(port.type) + " ";
  EXPECT_EQ(found, "af32[2,3] bf32[2,3] sumf32[2,3] yf32[2,3] ");
}

TEST_P(Conformance, CompilesFromAFileAsFromBytes) {
  auto from_file = request();
  from_file.file = fs::temp_directory_path() / concat("conformance_", ::getpid(), ".onnx");
  std::ofstream(from_file.file, std::ios::binary) << from_file.bytes;
  from_file.bytes.clear();
  const auto executable = compiled(from_file);
  fs::remove(from_file.file);
  ASSERT_TRUE(executable);
  Runner(executable).expect_right(Frame(5));
}

TEST_P(Conformance, RefusesWhatIsNoModelInOneLine) {
  auto junk = request();
  junk.bytes = "junk";
  EXPECT_THAT(refusal(junk).code, testing::AnyOf(Code::kDataLoss, Code::kInvalidArgument));
  EXPECT_THAT(refusal(junk).message(), Not(HasSubstr("\n")));
}

TEST_P(Conformance, NamesAnOperatorThatItDoesNotHave) {
  auto unknown = request();
  unknown.bytes = model_of({{{"a", "b"}, "Frobnicate", "sum"}, {{"sum"}, "Relu", "y"}});
  const auto error = refusal(unknown);
  EXPECT_THAT(error.code, testing::AnyOf(Code::kUnimplemented, Code::kInvalidArgument));
  EXPECT_THAT(error.message(), HasSubstr("Frobnicate"));
}

TEST_P(Conformance, RefusesAnOptionThatItDoesNotKnowByName) {
  auto odd = request();
  odd.options = {{"frobnicate", "1"}};
  const auto error = refusal(odd);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("frobnicate"));
}

TEST_P(Conformance, RefusesDevicesThatItDoesNotAccept) {
  auto elsewhere = request();
  elsewhere.device = *penstock::device::parse_device("cuda:0");
  if (backend_->accepts(elsewhere.device)) GTEST_SKIP() << "it accepts cuda:0";
  EXPECT_EQ(refusal(elsewhere).code, Code::kUnimplemented);
}

// ---------------------------------------------------------------- run

TEST_P(ConformanceOfRuns, WritesIntoTheCallersBuffers) {
  Runner runner = compiled(request());
  const Frame frame(5);
  std::vector<Tensor> outputs = {floats(Values(6, -1)), Tensor::reserve(DType::kF32, kBytes)};
  const void* sum = outputs[0].data();
  const void* y = outputs[1].data();
  ASSERT_TRUE(runner.run(frame.inputs, outputs));
  EXPECT_EQ(outputs[0].data(), sum);
  EXPECT_EQ(outputs[1].data(), y);
  expect_outputs(frame, outputs);
}

TEST_P(ConformanceOfRuns, AllocatesOutputsThatComeWithoutStorageOrWithTooLittle) {
  Runner runner = compiled(request());
  const Frame frame(5);
  std::vector<Tensor> outputs = {Tensor(), Tensor::reserve(DType::kF32, 8)};
  ASSERT_TRUE(runner.run(frame.inputs, outputs));
  expect_outputs(frame, outputs);
}

TEST_P(ConformanceOfRuns, OutputsThatItAllocatedOutliveIt) {
  const Frame frame(5);
  std::vector<Tensor> outputs(2);
  {
    Runner runner = compiled(request());
    ASSERT_TRUE(runner.run(frame.inputs, outputs));
    runner.expect_right(Frame(7));
  }
  expect_outputs(frame, outputs);
}

TEST_P(ConformanceOfRuns, FollowsBuffersThatChangeFromRunToRun) {
  Runner runner = compiled(request());
  std::vector<std::vector<Tensor>> sets(3);
  std::ranges::generate(sets, buffers);
  for (int number = 0; number < 12; ++number) {
    const Frame frame(static_cast<float>(number));
    auto& outputs = sets[number % sets.size()];
    ASSERT_TRUE(runner.run(frame.inputs, outputs));
    expect_outputs(frame, outputs);
  }
}

TEST_P(ConformanceOfRuns, BuffersSeenBeforeCostNoMoreCopiesThanTheRunBefore) {
  Runner runner = compiled(request());
  const Frame frame(5);
  auto outputs = buffers();
  std::vector<std::uint64_t> allocations, copies;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(runner.run(frame.inputs, outputs));
    allocations.push_back(runner.context().counters().allocations);
    copies.push_back(runner.context().counters().copies);
  }
  EXPECT_EQ(allocations[3], allocations[2]);
  EXPECT_EQ(copies[3] - copies[2], copies[2] - copies[1]);
}

TEST_P(ConformanceOfRuns, SaysWhichInputIsWrongAndStaysUsable) {
  Runner runner = compiled(request());
  const Frame frame(5);
  const std::array wrong = {Tensor::allocate(DType::kF32, {2, 4}),
                            Tensor::allocate(DType::kF32, {6}),
                            Tensor::allocate(DType::kI32, {2, 3})};
  for (const auto& tensor : wrong) {
    auto outputs = buffers();
    const auto status = runner.run({frame.inputs[0], tensor}, outputs);
    ASSERT_FALSE(status) << to_string(tensor.type());
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_THAT(status.error().message(), HasSubstr("'b'"));
    runner.expect_right(frame);
  }
}

// ---------------------------------------------------------------- cancel, deadline

TEST_P(ConformanceOfRuns, ACancelEndsTheNextRunOrNoneAndLeavesTheOneAfterItAlone) {
  Runner runner = compiled(request());
  const Frame frame(5);
  runner.expect_right(frame);
  runner.context().cancel();
  runner.context().cancel();
  auto outputs = buffers();
  const auto status = runner.run(frame.inputs, outputs);
  if (status) {
    expect_outputs(frame, outputs);  // It cannot cancel.
  } else {
    EXPECT_EQ(status.error().code, Code::kCancelled);
  }
  runner.expect_right(frame);
}

TEST_P(ConformanceOfRuns, ACancelFromAnotherThreadEndsARunOrItsOutputsAreRight) {
  Runner runner = compiled(request());
  const Frame frame(5);
  for (int i = 0; i < 50; ++i) {
    auto outputs = buffers();
    std::thread canceller([&] { runner.context().cancel(); });
    const auto status = runner.run(frame.inputs, outputs);
    canceller.join();
    if (status) {
      expect_outputs(frame, outputs);
      // The cancel may have come behind it: then it is for the next run.
      static_cast<void>(runner.run(frame.inputs, outputs));
    } else {
      ASSERT_EQ(status.error().code, Code::kCancelled);
    }
    runner.expect_right(frame);
  }
}

TEST_P(ConformanceOfRuns, ADeadlineThatHasPassedEndsARunOrItsOutputsAreRight) {
  Runner runner = compiled(request());
  const Frame frame(5);
  auto outputs = buffers();
  const auto status = runner.run(frame.inputs, outputs, now_ns() - 1);
  if (status) {
    expect_outputs(frame, outputs);
  } else {
    EXPECT_THAT(status.error().code, testing::AnyOf(Code::kDeadlineExceeded, Code::kCancelled));
  }
  runner.expect_right(frame);
}

TEST_P(ConformanceOfRuns, AWaitReturnsAtOnceWhereNothingWasStarted) {
  Runner runner = compiled(request());
  EXPECT_TRUE(runner.context().wait(backend::kNoDeadline));
  runner.expect_right(Frame(5));
  EXPECT_TRUE(runner.context().wait(backend::kNoDeadline));
}

// ---------------------------------------------------------------- contexts, lanes, threads

TEST_P(ConformanceOfRuns, ContextsOfOneExecutableRunAtTheSameTime) {
  auto several = request();
  several.replicas = 3;
  const auto executable = compiled(several);
  ASSERT_TRUE(executable);
  std::vector<std::thread> threads;
  for (int number = 0; number < several.replicas; ++number) {
    threads.emplace_back([&executable, number] {
      Runner runner = executable;
      for (int i = 0; i < 200; ++i)
        runner.expect_right(Frame(static_cast<float>(number * 1000 + i)));
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_P(ConformanceOfRuns, OneThreadKeepsAsManyFramesInProgressAsItRecommends) {
  const auto executable = compiled(request());
  ASSERT_TRUE(executable);
  ASSERT_GE(executable->recommended_contexts(), 1);
  std::vector<std::unique_ptr<Runner>> lanes;
  for (int i = 0; i < executable->recommended_contexts(); ++i) {
    lanes.push_back(std::make_unique<Runner>(executable));
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<Frame> frames;
    std::vector<std::vector<Tensor>> outputs(lanes.size());
    std::ranges::generate(outputs, buffers);
    for (std::size_t i = 0; i < lanes.size(); ++i) frames.emplace_back(static_cast<float>(i));
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      ASSERT_TRUE(lanes[i]->start(frames[i].inputs, outputs[i]));
    }
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      ASSERT_TRUE(lanes[i]->finish());
      expect_outputs(frames[i], outputs[i]);
    }
  }
}

TEST_P(ConformanceOfRuns, MakesTheThreadsThatItIsGivenAndKeepsThemOnTheCallersCpus) {
  const int cpu = penstock::device::inherited_cpus().back();
  for (const int threads : {1, 2}) {
    std::thread([] {}).join();  // A sanitizer starts a thread of its own beside the first.
    std::thread([&] {
      pin_to(cpu);
      const auto before = threads_of_process();
      auto asked = request();
      asked.threads = threads;
      Runner runner = compiled(asked);
      runner.expect_right(Frame(5));
      std::vector<int> made;
      std::ranges::set_difference(threads_of_process(), before, std::back_inserter(made));
      EXPECT_LE(static_cast<int>(made.size()), threads - 1 + runner.executable()->idle_threads());
      for (const int thread : made) EXPECT_TRUE(runs_only_on(thread, cpu)) << threads << " threads";
      EXPECT_TRUE(runs_only_on(0, cpu)) << "the caller's own thread was moved";
    }).join();
  }
}

// ---------------------------------------------------------------- memory of its own

TEST_P(Conformance, MemoryOfItsOwnGivesBackWhatWasCopiedThere) {
  const auto memory = backend_->memory(request().device);
  if (!memory) GTEST_SKIP() << "its tensors lie in the host's memory";
  EXPECT_THAT(memory->name(), Not(testing::AnyOf("", "host")));
  auto there = memory->allocate(DType::kF32, kBytes);
  ASSERT_TRUE(there) << there.error().message();
  ASSERT_TRUE(there->set_dims(kDims));
  EXPECT_FALSE(there->in_host_memory());
  const Tensor from = floats({1, 2, 3, 4, 5, 6});
  Tensor back = floats(Values(6, -1));
  ASSERT_TRUE(memory->copy(from, *there));
  ASSERT_TRUE(memory->copy(*there, back));
  EXPECT_EQ(values_of(back), values_of(from));
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, testing::Values(CONFORMANCE_BACKENDS),
                         [](const auto& tested) { return std::string(tested.param); });
INSTANTIATE_TEST_SUITE_P(Backends, ConformanceOfRuns, testing::Values(CONFORMANCE_BACKENDS),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
