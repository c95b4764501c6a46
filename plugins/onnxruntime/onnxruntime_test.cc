#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <set>
#include <thread>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sched.h>

#include "penstock/backend/evaluate.h"
#include "penstock/backend/registry.h"
#include "penstock/backend/settings.h"
#include "penstock/device/device.h"

namespace {

// Allocations made by Penstock's own libraries, told apart by where the call comes from.
struct AddressRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
std::array<AddressRange, 2> our_code;
std::atomic<int> our_allocations{0};

int note_library(dl_phdr_info* info, std::size_t, void*) {
  const std::string_view name = info->dlpi_name;
  const bool is_plugin = name.find("libpenstock_backend_onnxruntime") != name.npos;
  if (!is_plugin && name.find("libpenstock.so") == name.npos) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const auto begin = static_cast<std::uintptr_t>(info->dlpi_addr + segment.p_vaddr);
    our_code[is_plugin ? 0 : 1] = {begin, begin + segment.p_memsz};
  }
  return 0;
}

}  // namespace

// Not inlined: the caller's address is the point, and GCC warns about half-inlined pairs.
[[gnu::noinline]] void* operator new(std::size_t size) {
  const auto caller = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  for (const auto& range : our_code) {
    if (caller >= range.begin && caller < range.end) ++our_allocations;
  }
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

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

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
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

/// An executable with one context, run on copies of the caller's tensors' handles.
struct Runner {
  std::unique_ptr<Executable> executable;
  std::unique_ptr<Context> context;

  /// Copies and allocations so far.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> counted() const {
    const auto counters = context->counters();
    return {counters.copies, counters.allocations};
  }
  Status run(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
    std::vector<const Tensor*> in;
    std::vector<Tensor*> out;
    for (const auto& input : inputs) in.push_back(&input);
    for (auto& output : outputs) out.push_back(&output);
    return context->run({}, in, out);
  }
};

class OnnxRuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto found = registry().find("onnxruntime");
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

TEST_F(OnnxRuntimeTest, IsLoadedWithItsReportsOfUsageOff) {
  EXPECT_NE(std::getenv("ORT_DISABLE_TELEMETRY"), nullptr);
}

TEST_F(OnnxRuntimeTest, DescribesTheEngineThatWasTaken) {
  const auto description = backend_->describe();
  EXPECT_EQ(description.name, "onnxruntime");
  EXPECT_TRUE(description.engine_version.starts_with("1."));
  EXPECT_TRUE(fs::exists(description.engine_file)) << description.engine_file;
  EXPECT_TRUE(description.whole_graph);
}

TEST_F(OnnxRuntimeTest, NamesInputsAndOutputsInTheModelsOrder) {
  const auto executable = backend_->compile(request_for("add"));
  ASSERT_TRUE(executable);
  ASSERT_EQ((*executable)->inputs().size(), 2U);
  EXPECT_EQ((*executable)->inputs()[0].name, "a");
  EXPECT_EQ((*executable)->inputs()[1].name, "b");
  EXPECT_EQ((*executable)->outputs()[1].name, "product");
  EXPECT_EQ(to_string((*executable)->outputs()[1].type), "f32[2,3]");
}

TEST_F(OnnxRuntimeTest, KeepsTheSymbolsOfOpenDimensions) {
  const auto executable = backend_->compile(request_for("dynamic_batch"));
  ASSERT_TRUE(executable);
  EXPECT_EQ(to_string((*executable)->inputs()[0].type), "f32[n,3]");
}

TEST_F(OnnxRuntimeTest, ReadsExternalDataBesideTheFile) {
  Runner add = runner("external");
  std::vector<Tensor> outputs(1);
  ASSERT_TRUE(add.run({floats({64}, Values(64, 1))}, outputs));
  EXPECT_EQ(values_of(outputs[0])[63], 64);
}

TEST_F(OnnxRuntimeTest, SizesOpenOutputsByTheInputsOfEachFrame) {
  Runner twice = runner("dynamic_batch");
  std::vector<Tensor> outputs = {Tensor::reserve(DType::kF32, 24)};
  const void* buffer = outputs[0].data();
  for (const std::int64_t n : {1, 2, 1, 0}) {
    const auto count = static_cast<std::size_t>(n) * 3;
    ASSERT_TRUE(twice.run({floats({n, 3}, Values(count, 2))}, outputs));
    EXPECT_EQ(outputs[0].data(), buffer);
    EXPECT_EQ(outputs[0].dims(), (std::vector<std::int64_t>{n, 3}));
    EXPECT_EQ(values_of(outputs[0]), Values(count, 4));
  }
}

TEST_F(OnnxRuntimeTest, SurvivesAModelThatDeclaresAWrongShape) {
  Runner twice = runner("lying_shape");
  std::vector<Tensor> outputs = {Tensor::reserve(DType::kF32, 24)};
  const void* buffer = outputs[0].data();
  for (int frame = 0; frame < 3; ++frame) {
    ASSERT_TRUE(twice.run({floats({1, 3}, {1, 2, 3})}, outputs));
    EXPECT_EQ(outputs[0].data(), buffer);
    EXPECT_EQ(values_of(outputs[0]), (Values{1, 2, 3, 1, 2, 3}));
  }
}

TEST_F(OnnxRuntimeTest, ReturnsToTheDeclaredShapeAfterAnother) {
  Runner count = runner("count_to");
  std::vector<Tensor> outputs = {Tensor::reserve(DType::kI64, 24)};
  const void* buffer = outputs[0].data();
  for (const std::int64_t n : {0, 3, 3, 1, 3}) {
    Tensor end = Tensor::allocate(DType::kI64, {});
    end.as<std::int64_t>()[0] = n;
    ASSERT_TRUE(count.run({end}, outputs)) << n;
    EXPECT_EQ(outputs[0].data(), buffer);
    EXPECT_THAT(outputs[0].dims(), testing::ElementsAre(n));
  }
}

TEST_F(OnnxRuntimeTest, CopiesDataDependentResultsIntoTheCallersBufferWhereTheyFit) {
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

TEST_F(OnnxRuntimeTest, ForeseesAnUndeclaredShapeOnceItHasSeenIt) {
  Runner reshape = runner("undeclared");
  std::vector<Tensor> outputs = {Tensor::reserve(DType::kF32, 64)};
  for (const std::int64_t n : {2, 2, 4, 2, 4, 4}) {
    const auto count = static_cast<std::size_t>(n);
    ASSERT_TRUE(reshape.run({floats({n}, Values(count, 3))}, outputs));
    EXPECT_EQ(outputs[0].dims(), (std::vector<std::int64_t>{n / 2, 2}));
    EXPECT_EQ(values_of(outputs[0]), Values(count, 3));
  }
}

TEST_F(OnnxRuntimeTest, RunsScalarsAndTensorsWithoutElements) {
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

TEST_F(OnnxRuntimeTest, PassesTypesThatItDoesNotComputeIn) {
  Runner flatten = runner("bf16");
  Tensor input = Tensor::allocate(DType::kBF16, {2, 2});
  input.as<std::uint16_t>()[3] = 0x3F80;
  std::vector<Tensor> outputs = {Tensor::allocate(DType::kBF16, {1, 4})};
  ASSERT_TRUE(flatten.run({input}, outputs));
  EXPECT_EQ(outputs[0].as<std::uint16_t>()[3], 0x3F80);
}

TEST_F(OnnxRuntimeTest, TakesAndGivesStrings) {
  Runner concat = runner("strings");
  std::vector<Tensor> outputs(1);
  ASSERT_TRUE(
      concat.run({Tensor::strings({3}, {"abc", "", "long enough to be on the heap"})}, outputs));
  ASSERT_EQ(outputs[0].kind(), Tensor::Kind::kStrings);
  EXPECT_THAT(outputs[0].strings(),
              testing::ElementsAre("abc!", "!", "long enough to be on the heap!"));
}

TEST_F(OnnxRuntimeTest, TakesAndGivesSequencesEmptyOnesToo) {
  Runner insert = runner("sequence");
  std::vector<Tensor> outputs(2);
  ASSERT_TRUE(insert.run({Tensor::sequence({}), floats({2}, {1, 2})}, outputs));
  ASSERT_EQ(outputs[0].kind(), Tensor::Kind::kSequence);
  ASSERT_EQ(outputs[0].elements().size(), 1U);
  const Tensor longer = outputs[0];
  ASSERT_TRUE(insert.run({longer, floats({2}, {3, 4})}, outputs));
  ASSERT_EQ(outputs[0].elements().size(), 2U);
  EXPECT_EQ(values_of(outputs[0].elements()[0]), (Values{1, 2}));
  EXPECT_EQ(values_of(outputs[0].elements()[1]), (Values{3, 4}));
  EXPECT_THAT(outputs[1].as<std::int64_t>(), testing::ElementsAre(2));
}

TEST_F(OnnxRuntimeTest, TakesAndGivesOptionalsWithAndWithoutAValue) {
  Runner same = runner("optional");
  std::vector<Tensor> outputs(2);
  ASSERT_TRUE(same.run({floats({2}, {1, 2})}, outputs));
  EXPECT_TRUE(outputs[0].as<bool>()[0]);
  EXPECT_EQ(values_of(outputs[1]), (Values{1, 2}));
  const auto status = same.run({Tensor()}, outputs);
  ASSERT_TRUE(status) << status.error().message();
  EXPECT_FALSE(outputs[0].as<bool>()[0]);
  EXPECT_EQ(outputs[1].kind(), Tensor::Kind::kNone);
}

TEST_F(OnnxRuntimeTest, SaysWhatAnInputExpectsAndStaysUsable) {
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

TEST_F(OnnxRuntimeTest, AFailingFrameNamesTheNodeAndLeavesTheContextUsable) {
  Runner gather = runner("gather");
  std::vector<Tensor> outputs = {Tensor::allocate(DType::kF32, {1})};
  Tensor index = Tensor::allocate(DType::kI64, {1});
  index.as<std::int64_t>()[0] = 99;
  const auto status = gather.run({index}, outputs);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(status.error().message().starts_with("node 'gather1' (Gather): "))
      << status.error().message();
  index.as<std::int64_t>()[0] = 2;
  ASSERT_TRUE(gather.run({index}, outputs));
  EXPECT_EQ(values_of(outputs[0]), (Values{2}));
}

TEST_F(OnnxRuntimeTest, OneThreadIsTheCallersOwn) {
  const auto before = threads_of_process();
  Runner conv = runner("conv_relu");
  std::vector<Tensor> outputs(1);
  ASSERT_TRUE(conv.run({floats({1, 4, 16, 16}, Values(1024, 1))}, outputs));
  EXPECT_EQ(threads_of_process(), before);
}

TEST_F(OnnxRuntimeTest, TwoThreadsAreTheCallerAndOneMoreOnItsCpus) {
  std::thread([] {}).join();  // A sanitizer starts a thread of its own beside the first.
  const auto before = threads_of_process();
  const int cpu = device::inherited_cpus().back();
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    CompileRequest request = request_for("conv_relu");
    request.threads = 2;
    Runner conv = runner(request);
    std::vector<Tensor> outputs(1);
    ASSERT_TRUE(conv.run({floats({1, 4, 16, 16}, Values(1024, 1))}, outputs));
    std::set<int> started;
    std::ranges::set_difference(threads_of_process(), before,
                                std::inserter(started, started.end()));
    EXPECT_EQ(started.size(), 2U);  // This thread and its worker.
    for (const int thread : started) EXPECT_EQ(cpus_of(thread), (std::vector{cpu}));
  }).join();
}

TEST_F(OnnxRuntimeTest, BuffersSeenBeforeCostNoAllocationOfOurs) {
  Runner add = runner("add");
  const Tensor input = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  std::vector<Tensor> slots;
  for (int i = 0; i < 200; ++i) slots.push_back(Tensor::allocate(DType::kF32, {2, 3}));
  std::array<const Tensor*, 2> in{&input, &input};
  const auto run_all = [&] {
    for (std::size_t i = 0; i + 1 < slots.size(); i += 2) {
      std::array<Tensor*, 2> out{&slots[i], &slots[i + 1]};
      ASSERT_TRUE(add.context->run({}, in, out));
    }
  };
  run_all();
  dl_iterate_phdr(note_library, nullptr);
  run_all();
  EXPECT_EQ(our_allocations, 0);
  std::vector<Tensor> allocated(2);
  ASSERT_TRUE(add.run({input, input}, allocated));
  EXPECT_GT(our_allocations, 0) << "the counter does not count";
  our_code = {};
}

using Counted = std::pair<std::uint64_t, std::uint64_t>;

TEST_F(OnnxRuntimeTest, CountsNothingWhereItWritesIntoTheCallersBuffers) {
  Runner add = runner("add");
  const Tensor input = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  std::vector<Tensor> outputs = {Tensor::allocate(DType::kF32, {2, 3}),
                                 Tensor::reserve(DType::kF32, 24)};
  for (int frame = 0; frame < 3; ++frame) ASSERT_TRUE(add.run({input, input}, outputs));
  EXPECT_EQ(add.counted(), (Counted{0, 0}));
  outputs = {Tensor(), Tensor::reserve(DType::kF32, 8)};
  ASSERT_TRUE(add.run({input, input}, outputs));
  EXPECT_EQ(add.counted(), (Counted{0, 2}));
}

TEST_F(OnnxRuntimeTest, CountsTheAllocationAndTheCopyOfADataDependentOutput) {
  Runner nonzero = runner("nonzero");
  for (std::uint64_t frame = 1; frame <= 3; ++frame) {
    std::vector<Tensor> fresh(1);
    ASSERT_TRUE(nonzero.run({floats({4}, {0, 1, 0, 1})}, fresh));
    EXPECT_EQ(nonzero.counted(), (Counted{0, frame}));
  }
  std::vector<Tensor> roomy = {Tensor::reserve(DType::kI64, 32)};
  ASSERT_TRUE(nonzero.run({floats({4}, {1, 1, 0, 1})}, roomy));
  EXPECT_EQ(nonzero.counted(), (Counted{1, 4}));
}

TEST_F(OnnxRuntimeTest, CountsTheConversionOfStrings) {
  Runner concat = runner("strings");
  std::vector<Tensor> outputs(1);
  ASSERT_TRUE(concat.run({Tensor::strings({1}, {"a"})}, outputs));
  EXPECT_EQ(concat.counted(), (Counted{2, 3}));  // In and out; and the engine's own output.
}

TEST_F(OnnxRuntimeTest, ContextsOfOneExecutableRunAtTheSameTime) {
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

TEST_F(OnnxRuntimeTest, ACancelledRunSaysSoAndTheNextOneRuns) {
  Runner loop = runner("long_loop");
  Tensor count = Tensor::allocate(DType::kI64, {});
  std::vector<Tensor> outputs = {Tensor::allocate(DType::kF32, {1})};
  // However the two meet: before the run, as it begins, within it.
  for (int i = 0; i < 10; ++i) {
    count.as<std::int64_t>()[0] = 1'000'000'000;
    std::jthread canceller([&] { loop.context->cancel(); });
    const auto status = loop.run({count, floats({1}, {1})}, outputs);
    canceller.join();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kCancelled);
    EXPECT_EQ(status.error().message(), "the run was cancelled");
    count.as<std::int64_t>()[0] = 3;
    ASSERT_TRUE(loop.run({count, floats({1}, {1})}, outputs));
    EXPECT_EQ(values_of(outputs[0]), (Values{4}));
  }
}

TEST_F(OnnxRuntimeTest, ACancelBetweenRunsEndsTheNextOneOnly) {
  Runner conv = runner("conv_relu");
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

TEST_F(OnnxRuntimeTest, CompilingLeavesTheCallersFloatingPointModeAlone) {
  CompileRequest request = request_for("denormal");
  request.flush_denormals = true;
  Runner mul = runner(request);
  volatile float small = 1e-20F;
  const float product = small * small;
  EXPECT_GT(product, 0.0F) << "denormals are flushed on this thread";
}

TEST_F(OnnxRuntimeTest, RefusesOptionsThatItUnderstandsAndThatAreWrong) {
  CompileRequest request = request_for("add");
  request.options = {{"graph_optimization_level", "7"}};
  EXPECT_EQ(compile_error(request).message(),
            "backend option 'onnxruntime:graph_optimization_level': expected 0 (none), 1 (basic), "
            "2 (extended), 3 (layout) or 99 (all), found '7'");
  request.options = {{"execution_mode", "fast"}};
  EXPECT_EQ(compile_error(request).message(),
            "backend option 'onnxruntime:execution_mode': expected 'sequential' or 'parallel', "
            "found 'fast'");
  request.options = {{"", "1"}};
  EXPECT_EQ(compile_error(request).code, Code::kInvalidArgument);
  EXPECT_TRUE(compile_error(request).message().starts_with("backend option 'onnxruntime:': "));
}

TEST_F(OnnxRuntimeTest, RefusesKeysThatNoVersionOfTheEngineHas) {
  CompileRequest request = request_for("add");
  for (const char* key : {"foo", "sesion.use_env_allocators", "intra_op_threads"}) {
    request.options = {{key, "1"}};
    const auto error = compile_error(request);
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_TRUE(error.message().starts_with(concat(
        "backend option 'onnxruntime:", key, "': unknown; expected graph_optimization_level")))
        << error.message();
  }
}

TEST_F(OnnxRuntimeTest, LeavesThreadsToTheDeviceThatAStageHas) {
  CompileRequest request = request_for("add");
  request.options = {{"intra_op_num_threads", "0"}};
  EXPECT_TRUE(backend_->compile(request));
  request.device.cpus = {0};
  EXPECT_EQ(compile_error(request).code, Code::kInvalidArgument);
  EXPECT_THAT(compile_error(request).message(),
              testing::HasSubstr("one thread for each CPU of its device"));
}

TEST_F(OnnxRuntimeTest, ChecksSettingsBeforeThereIsAModel) {
  EXPECT_TRUE(check_settings(*backend_, {}, {}));
  EXPECT_TRUE(check_settings(*backend_, {{"graph_optimization_level", "2"}}, {}));
  EXPECT_EQ(check_settings(*backend_, {{"foo", "1"}}, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(check_settings(*backend_, {}, {"absent.so"}).error().code, Code::kNotFound);
}

TEST_F(OnnxRuntimeTest, PassesOtherOptionsToTheEngine) {
  CompileRequest request = request_for("add");
  request.threads = 2;
  request.options = {{"session.intra_op_thread_affinities", "1;1;1"}};
  EXPECT_EQ(compile_error(request).code, Code::kInvalidArgument);
  request.options = {{"session.intra_op.allow_spinning", "0"}, {"execution_mode", "sequential"}};
  EXPECT_TRUE(backend_->compile(request));
}

TEST_F(OnnxRuntimeTest, NamesACustomOperatorLibraryThatCannotBeUsed) {
  CompileRequest request = request_for("add");
  request.custom_ops = {"absent.so"};
  EXPECT_EQ(compile_error(request).code, Code::kNotFound);
  EXPECT_EQ(compile_error(request).message(),
            "custom-operator library 'absent.so': no such file; check the path");
  request.custom_ops = {model("add")};
  const Error error = compile_error(request);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_TRUE(
      error.message().starts_with("custom-operator library '" + model("add").string() + "': "))
      << error.message();
}

TEST_F(OnnxRuntimeTest, RefusesWhatIsNoModel) {
  EXPECT_EQ(compile_error(request_for("absent")).message(),
            "model '" + model("absent").string() + "': no such file; check the path");
  const Error junk = compile_error(request_for("junk"));
  EXPECT_EQ(junk.code, Code::kDataLoss);
  EXPECT_NE(junk.message().find(model("junk").string()), std::string::npos) << junk.message();
  CompileRequest request;
  request.name = "stage 'head'";
  request.bytes = "junk";
  EXPECT_EQ(compile_error(request).code, Code::kDataLoss);
  EXPECT_TRUE(compile_error(request).message().starts_with("stage 'head': "));
  request.bytes.clear();
  EXPECT_EQ(compile_error(request).message(), "neither a model file nor bytes given");
}

TEST_F(OnnxRuntimeTest, NamesAnOperatorThatItDoesNotHave) {
  const Error error = compile_error(request_for("unknown_operator"));
  EXPECT_EQ(error.code, Code::kUnimplemented);
  EXPECT_NE(error.message().find("acme"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("Swish"), std::string::npos) << error.message();
}

TEST_F(OnnxRuntimeTest, RefusesDevicesThatItDoesNotHave) {
  CompileRequest request = request_for("add");
  request.device = *device::parse_device("cuda:0");
  EXPECT_EQ(compile_error(request).code, Code::kUnimplemented);
  EXPECT_EQ(compile_error(request).message(),
            "backend 'onnxruntime' runs on CPUs of this machine, found device 'cuda:0'");
}

TEST_F(OnnxRuntimeTest, EvaluatesAModelOnceForItsValuesOrTypes) {
  const std::string bytes = read_file(model("dynamic_batch"));
  const auto outputs = evaluate(*backend_, bytes, {floats({1, 3}, {1, 2, 3})});
  ASSERT_TRUE(outputs);
  EXPECT_EQ(values_of((*outputs)[0]), (Values{2, 4, 6}));
  const auto types = output_types(*backend_, bytes);
  ASSERT_TRUE(types);
  EXPECT_EQ(to_string((*types)[0]), "f32[n,3]");
}

TEST_F(OnnxRuntimeTest, EndsAnEvaluationThatTakesTooLong) {
  Tensor count = Tensor::allocate(DType::kI64, {});
  count.as<std::int64_t>()[0] = std::numeric_limits<std::int64_t>::max();
  const auto outputs =
      evaluate(*backend_, read_file(model("long_loop")), {std::move(count), floats({1}, {0})}, {},
               std::chrono::milliseconds(1));
  ASSERT_FALSE(outputs);
  EXPECT_EQ(outputs.error().code, Code::kCancelled);
}

TEST(OnnxRuntimeSearchTest, SaysWhereItSoughtAnEngineAndWhatToDo) {
  setenv("PENSTOCK_ONNXRUNTIME", "/absent/libonnxruntime.so", 1);
  const Registry registry = Registry::load();
  const auto backend = registry.find("onnxruntime");
  ASSERT_TRUE(backend) << backend.error().message();
  const auto description = (*backend)->describe();
  unsetenv("PENSTOCK_ONNXRUNTIME");
  EXPECT_EQ(description.engine_version, "");
  EXPECT_EQ(description.unavailable,
            "no usable ONNX Runtime found; sought in PENSTOCK_ONNXRUNTIME "
            "('/absent/libonnxruntime.so'): /absent/libonnxruntime.so: cannot open shared object "
            "file: No such file or directory; install one with 'pip install onnxruntime', or set "
            "PENSTOCK_ONNXRUNTIME to libonnxruntime.so or its folder");
  const auto executable = (*backend)->compile({});
  ASSERT_FALSE(executable);
  EXPECT_EQ(executable.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace penstock::backend
