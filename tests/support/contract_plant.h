// The plan of a case, over a backend and functions that answer as the case says.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include "penstock/function/function.h"
#include "penstock/pipeline/pipeline.h"
#include "tests/support/contract_case.h"
#include "tests/support/fake_accelerator.h"
#include "tests/support/fake_device.h"
#include "tests/support/fake_remote.h"
#include "tests/support/no_more_threads.h"
#include "tests/support/temporary_folder.h"

namespace penstock::contract {

/// Of a case where a call hangs.
inline constexpr std::chrono::milliseconds kMaxRun{100};

/// Where stages run that are far; it comes and goes.
inline constexpr const char* kPeer = "first:1/cpu:0";

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

inline Type type_of(const TensorCase& tensor) {
  const Dim two{2, "", Dim::kOpen};
  if (!tensor.items) return Type::tensor(DType::kI64, std::vector<Dim>{two});
  return Type::tensor(DType::kI64, std::vector<Dim>{{Dim::kOpen, "", kMostItems}, two});
}

inline Words words_of(const Tensor& tensor) {
  const auto words = tensor.as<std::int64_t>();
  return {words.begin(), words.end()};
}

inline Tensor tensor_of(const Words& words, bool items) {
  const auto rows = static_cast<std::int64_t>(words.size() / 2);
  auto tensor = Tensor::allocate(
      DType::kI64, items ? std::vector<std::int64_t>{rows, 2} : std::vector<std::int64_t>{2});
  std::ranges::copy(words, tensor.as<std::int64_t>().begin());
  return tensor;
}

/// Of a process all threads, or none, may be refused.
inline std::shared_mutex& thread_limit() {
  static std::shared_mutex mutex;
  return mutex;
}

/// To a device, and back.
struct Copies {
  int in = 0, out = 0;
};

/// What the stages share; outlives their threads.
class Plant {
 public:
  explicit Plant(const Case& given)
      : given_(given),
        calls_(given.stages.size() * width()),
        order_(calls_.size()),
        hangs_(given.stages.size()),
        counters_(given.stages.size()) {
    assemble(first_);
    if (given.swap_at >= 0 || given.bad_swap_at >= 0) assemble(next_);
    if (given.start_fault == StartFault::kMemory) {
      first_.network.plan.edges.front().policy = plan::FullPolicy::kBlock;
      first_.network.plan.edges.front().capacity = 2'000'000'000;
    }
  }

  Result<std::unique_ptr<pipeline::Pipeline>> start() {
    if (given_.start_fault == StartFault::kThread && given_.start_fault_stage == 0) {
      no_threads_ = std::make_unique<NoMoreThreads>();
    }
    auto started = first_.network.start({}, options());
    no_threads_.reset();
    if (first_.accelerator) first_.accelerator->forget_copies();
    return started;
  }
  /// Lets the other plan take the frames that follow.
  Status replace(pipeline::Pipeline& running) {
    auto with = options();
    with.functions = next_.network.functions;
    auto replaced =
        running.replace(next_.network.plan, next_.network.folder, next_.network.registry, with);
    if (next_.accelerator) next_.accelerator->forget_copies();
    return replaced;
  }
  /// The same without backends and functions: it cannot start.
  Status replace_badly(pipeline::Pipeline& running) const {
    return running.replace(next_.network.plan, next_.network.folder, {}, options());
  }

  static std::string state(std::size_t index) { return "state" + std::to_string(index); }

  [[nodiscard]] bool began(int stage, std::int64_t tag) const {
    return calls_[place(stage, tag)].load() > 0;
  }
  [[nodiscard]] int calls() const { return begun_; }  ///< Of all stages and frames.
  [[nodiscard]] int calls(int stage, std::int64_t tag) const { return calls_[place(stage, tag)]; }
  /// In which place among its stage's frames that of the tag was begun.
  [[nodiscard]] int order(int stage, std::int64_t tag) const { return order_[place(stage, tag)]; }
  /// Of both plans, but for what they compute.
  [[nodiscard]] const plan::Plan& plan() const { return first_.network.plan; }
  [[nodiscard]] bool lossy() const {
    return std::ranges::any_of(
        plan().edges, [](const auto& edge) { return edge.policy != plan::FullPolicy::kBlock; });
  }
  /// The one edge to the output, if what it drops is certain once all stages are done.
  [[nodiscard]] const plan::Edge* settling() const {
    const plan::Edge* found = nullptr;
    for (const auto& edge : plan().edges) {
      if (edge.to.back() != plan::kPipelineOutput) continue;
      if (found != nullptr || edge.to.size() > 1 || edge.from < 0) return nullptr;
      if (given_.stages[at(edge.from)].replicas > 1) return nullptr;
      if (edge.policy == plan::FullPolicy::kBlock) return nullptr;
      found = &edge;
    }
    return given_.settles ? found : nullptr;
  }
  /// Since the start.
  [[nodiscard]] Copies copies(int device) const {
    Copies sum;
    for (const auto* side : {&first_, &next_}) {
      if (!side->accelerator) continue;
      const auto& memory = side->accelerator->memory_of(at(device));
      sum.in += memory.from_host;
      sum.out += memory.to_host;
    }
    return sum;
  }
  /// Whether accelerators copy from one place of their memory to another.
  [[nodiscard]] bool copies_within() const { return given_.seed / 8 % 2 == 0; }
  /// How many calls of the stage hung.
  [[nodiscard]] int hangs(int stage) const { return hangs_[at(stage)]; }
  /// Ends the calls that hang, and waits for them. How many there were.
  int release() {
    open_ = true;
    while (inside_ > 0) std::this_thread::yield();
    return hung_;
  }
  std::vector<std::string> complaints() {
    const std::scoped_lock lock(mutex_);
    return complaints_;
  }

  static std::string name(int tensor) { return "t" + std::to_string(tensor); }

 private:
  /// A plan, with what it runs on.
  struct Side {
    std::uint64_t version;
    testing::FakeNetwork network;
    std::shared_ptr<testing::FakeDevice> device;            // Null where no stage is on it.
    std::shared_ptr<testing::FakeAccelerator> accelerator;  // The same.
    std::shared_ptr<testing::FakeRemote> remote;            // The same.
  };
  Side first_{0, {}, {}, {}, {}}, next_{1, {}, {}, {}, {}};

  [[nodiscard]] pipeline::Options options() const {
    pipeline::Options options;
    options.in_flight = given_.in_flight;
    options.max_held = given_.max_held;
    return options;
  }

  void assemble(Side& side) {
    thread_local const TemporaryFolder kFolder;
    auto& network = side.network;
    network.folder = kFolder.path();
    declare(network);
    for (int s = 0; s < std::ssize(given_.stages); ++s) add(side, s);
    for (std::size_t i = 0; i < given_.states.size(); ++i) {
      network.state(name(given_.states[i]), state(i));
    }
    for (const int output : given_.outputs) network.output(name(output));
    network.finish();
    network.plan.streams = {given_.most_streams, given_.evicts};
    for (std::size_t e = 0; e < network.plan.edges.size(); ++e) {
      const auto& edge = given_.edges[e % given_.edges.size()];
      auto& made = network.plan.edges[e];
      made.capacity = edge.capacity;
      if (!given_.settles || made.to.back() == plan::kPipelineOutput) made.policy = edge.policy;
    }
    if (given_.stop_at_error) network.plan.on_error = plan::OnError::kStop;
    if (given_.max_age_us > 0) network.plan.max_age = std::chrono::microseconds(given_.max_age_us);
    for (auto& stage : network.plan.stages) {
      stage.max_left_behind = given_.max_left_behind;
      if (given_.has(Fault::kHang)) stage.max_run = kMaxRun;
    }
    network.backend->on_compile = [this](const auto& request) { return compiled(request); };
  }

  [[nodiscard]] std::size_t width() const { return at(given_.frames) + 1; }
  [[nodiscard]] std::size_t place(int stage, std::int64_t tag) const {
    return at(stage) * width() + static_cast<std::size_t>(tag);
  }

  void declare(testing::FakeNetwork& network) const {
    for (int i = 0; i < given_.inputs(); ++i)
      network.input(name(i), type_of(given_.tensors[at(i)]));
    for (std::size_t i = 0; i < given_.states.size(); ++i) {
      network.state_input(state(i), type_of({}));
    }
    if (std::ranges::any_of(given_.stages, &StageCase::parameter)) {
      network.parameter("parameter", Tensor::allocate(DType::kI64, {1}));
    }
  }

  void add(Side& side, int index) {
    auto& network = side.network;
    const auto& made = given_.stages[at(index)];
    const auto stage_name = "s" + std::to_string(index);
    std::vector<std::string> inputs, outputs, each;
    std::vector<backend::Port> ports_in, ports_out;
    std::vector<Type> types;
    const int first = given_.first_written(index);
    const auto port = [&](int tensor) {
      auto shown = given_.tensors[at(tensor)];
      if (made.each) shown.items = false;
      return backend::Port{name(tensor), type_of(shown)};
    };
    for (const int tensor : made.reads) {
      inputs.push_back(name(tensor));
      ports_in.push_back(port(tensor));
      if (made.each && given_.tensors[at(tensor)].items) each.push_back(name(tensor));
    }
    for (int tensor = first; tensor < first + made.writes; ++tensor) {
      outputs.push_back(name(tensor));
      ports_out.push_back(port(tensor));
      types.push_back(type_of(given_.tensors[at(tensor)]));
    }
    const auto call = [this, index, version = side.version](testing::Inputs in,
                                                            testing::Outputs out) {
      return run(version, index, in, out);
    };
    if (!made.function) {
      for (const int i : made.states) inputs.push_back(state(at(i)));
      if (made.parameter) inputs.emplace_back("parameter");
      if (made.in_two) {
        add_in_two(network, stage_name, inputs, outputs, call, made.replicas);
        if (made.accelerators > 0) move_to_accelerators(side, stage_name, made.accelerators);
        return;
      }
      network.stage(stage_name, inputs, outputs, call, made.replicas, types);
      if (made.each) run_for_each(network, stage_name, each, ports_in, ports_out);
      take_together(network, stage_name, made);
      if (made.lanes > 0 && made.fault != Fault::kHang)
        move_to_device(side, stage_name, made.lanes);
      if (made.accelerators > 0) move_to_accelerators(side, stage_name, made.accelerators);
      if (made.far) move_to_peers(side, given_.direct);
      return;
    }
    auto function = function::stateless(stage_name, ports_in, ports_out, call);
    function.stateful = made.stateful;
    network.function(stage_name, std::move(function), inputs, outputs, made.replicas, each);
  }

  // The model reads and writes one item, the stage all of them. A parameter stays as it is.
  static void run_for_each(testing::FakeNetwork& network, const std::string& stage_name,
                           std::vector<std::string> each, const std::vector<backend::Port>& in,
                           std::vector<backend::Port> out) {
    auto& model = network.backend->models.at(stage_name + ".onnx");
    std::ranges::copy(in, model.inputs.begin());
    model.outputs = std::move(out);
    network.plan.stages.back().each = std::move(each);
  }

  // For every number of frames, or items: a call computes no rows that no frame has.
  static void take_together(testing::FakeNetwork& network, const std::string& stage_name,
                            const StageCase& made) {
    std::vector<int> sizes;
    for (int frames = 2; frames <= made.together; ++frames) sizes.push_back(frames);
    if (sizes.empty()) return;
    network.together(stage_name, sizes);
    network.plan.stages.back().batch.wait = std::chrono::microseconds(made.wait_us);
  }

  void move_to_device(Side& side, const std::string& stage_name, int lanes) {
    if (!side.device) {
      side.device = std::make_shared<testing::FakeDevice>();
      side.device->on_compile = [this](const auto& request) { return compiled(request); };
      side.network.registry.add(side.device);
    }
    side.device->take(side.network, stage_name);
    auto& stage = side.network.plan.stages.back();
    const bool ordered = !side.network.plan.states.empty() || !given_.states.empty();
    stage.lanes = ordered ? 0 : lanes;
  }

  void move_to_accelerators(Side& side, const std::string& stage_name, int which) {
    if (!side.accelerator) {
      side.accelerator = std::make_shared<testing::FakeAccelerator>();
      side.accelerator->asynchronous = given_.seed % 2 == 0;
      side.accelerator->contexts = 1 + static_cast<int>(given_.seed / 2 % 3);
      for (const std::size_t device : {0U, 1U}) {
        side.accelerator->memory_of(device).within = copies_within();
      }
      side.network.registry.add(side.accelerator);
    }
    std::vector<int> devices;
    for (int device = 0; device < 2; ++device) {
      if ((which >> device) % 2 == 1) devices.push_back(device);
    }
    side.accelerator->take(side.network, stage_name, devices);
  }

  static void move_to_peers(Side& side, bool direct) {
    if (!side.remote) {
      side.remote = std::make_shared<testing::FakeRemote>(side.network);
      side.remote->direct = direct;
      side.network.registry.add(side.remote);
    }
    auto& stage = side.network.plan.stages.back();
    stage.devices = {*device::parse_device(kPeer)};
    stage.standby = {*device::parse_device("second:1/cpu:0")};
  }
  // While frames are in flight there, or not.
  void lose_or_restore(const Side& side) {
    if (!side.remote || mix(given_.seed ^ blinks_.fetch_add(1)) % 4 != 0) return;
    const std::string host = device::parse_device(kPeer)->host;
    lost_.exchange(!lost_) ? side.remote->restore(host) : side.remote->lose(host);
  }

  static void add_in_two(testing::FakeNetwork& network, const std::string& stage_name,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, const testing::Function& call,
                         int replicas) {
    std::vector<std::string> between;
    testing::FakeModel copy;
    for (const auto& output : outputs) {
      between.push_back(output + "_between");
      copy.inputs.push_back({between.back(), type_of({})});
      copy.outputs.push_back({output, type_of({})});
      network.state_input(output, type_of({}));  // Makes the tensor known.
    }
    copy.run = [](testing::Inputs in, testing::Outputs out) -> Status {
      for (std::size_t i = 0; i < in.size(); ++i) {
        std::ranges::copy(in[i]->as<std::int64_t>(), out[i]->as<std::int64_t>().begin());
      }
      return {};
    };
    network.backend->models[stage_name + "_copy.onnx"] = std::move(copy);
    const std::vector<Type> types(outputs.size(), type_of({}));
    network.stage(stage_name, inputs, between, call, replicas, types);
    auto& stage = network.plan.stages.back();
    stage.outputs = outputs;
    stage.partitions.push_back(
        {"fake", concat("stages/", stage_name, "_copy.onnx"), between, outputs, {}, {}});
  }

  Status compiled(const backend::CompileRequest& request) {
    if (request.file.filename() != concat("s", given_.start_fault_stage, ".onnx")) return {};
    if (given_.start_fault == StartFault::kCompile) return invalid_argument("planted");
    if (given_.start_fault == StartFault::kCompileThrows) throw std::bad_alloc();
    if (given_.start_fault == StartFault::kThread && !no_threads_) {
      no_threads_ = std::make_unique<NoMoreThreads>();
    }
    return {};
  }

  Status run(std::uint64_t version, int index, testing::Inputs in, testing::Outputs out) {
    const auto& made = given_.stages[at(index)];
    std::vector<Words> inputs, states;
    inputs.reserve(made.reads.size());
    for (std::size_t i = 0; i < made.reads.size(); ++i) inputs.push_back(words_of(*in[i]));
    for (std::size_t i = 0; i < made.states.size(); ++i) {
      states.push_back(words_of(*in[made.reads.size() + i]));
    }
    const std::int64_t parameter = made.parameter ? in.back()->as<std::int64_t>()[0] : 0;
    const std::int64_t tag = tag_of(inputs);
    note(index, tag, inputs);
    lose_or_restore(version == 0 ? first_ : next_);
    const auto answered = answer(given_, index, inputs, states, parameter, version);
    if (answered.fault != Fault::kNone) {
      if (answered.fault == Fault::kHang) return hang(index, in, out);
      PENSTOCK_CHECK_OK(befall(answered.fault, out));
      return {};
    }
    for (std::size_t o = 0; o < out.size(); ++o) write(index, answered.outputs[o], *out[o]);
    return {};
  }

  void note(int index, std::int64_t tag, const std::vector<Words>& inputs) {
    if (tag == 0) return;
    ++begun_;
    if (tag < 0 || at(static_cast<int>(tag)) >= width()) {
      return complain(concat("stage s", index, " read a frame that nobody pushed, tag ", tag));
    }
    if (calls_[place(index, tag)].fetch_add(1) == 0) {
      order_[place(index, tag)] = counters_[at(index)].fetch_add(1);
    }
    for (const auto& words : inputs) {
      for (std::size_t i = 0; i < words.size(); i += 2) {
        if (words[i] == tag || words[i] == 0) continue;
        complain(concat("stage s", index, " read tensors of the frames with tags ", tag, " and ",
                        words[i], " together"));
      }
    }
  }

  Status befall(Fault fault, testing::Outputs out) {
    switch (fault) {
      case Fault::kThrow:
        throw std::runtime_error("planted");
      case Fault::kThrowInt:
        throw 7;
      case Fault::kNoMemory:
        throw std::bad_alloc();
      case Fault::kDrop:
        return make_error(Code::kAborted, "planted");
      case Fault::kWrongShape:
        *out[0] = Tensor::allocate(DType::kI64, {3});
        return {};
      case Fault::kWrongRank:
        *out[0] = Tensor::allocate(DType::kI64, {});
        return {};
      case Fault::kWrongType:
        *out[0] = Tensor::allocate(DType::kF32, {2});
        return {};
      case Fault::kSpoil:
        *out[0] = Tensor::allocate(DType::kI64, {});
        return make_error(Code::kUnknown, "planted");
      default:
        return make_error(Code::kUnknown, "planted");
    }
  }

  // Until the stage has begun some more frames, or for ever; then it spoils what it was given.
  Status hang(int index, testing::Inputs in, testing::Outputs out) {
    const auto read = words_of(*in[0]);
    ++hangs_[at(index)];
    ++hung_;
    ++inside_;
    const int back_at = counters_[at(index)] + 2;
    while (!open_ && counters_[at(index)] < back_at) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (words_of(*in[0]) != read) complain(concat("stage s", index, " hung, and lost its input"));
    for (Tensor* tensor : out) std::ranges::fill(tensor->as<std::int64_t>(), -1);
    --inside_;
    return make_error(Code::kUnknown, "came back");  // Nothing more is computed.
  }

  void write(int index, const Words& words, Tensor& out) {
    const auto& made = given_.stages[at(index)];
    const auto rows = static_cast<std::int64_t>(words.size() / 2);
    const std::vector<std::int64_t> dims =
        made.finds ? std::vector<std::int64_t>{rows, 2} : std::vector<std::int64_t>{2};
    if (out.kind() != Tensor::Kind::kDense || out.dtype() != DType::kI64 ||
        out.capacity_bytes() < words.size() * sizeof(std::int64_t) ||
        (!made.finds && out.dims() != dims)) {
      return complain(concat("stage s", index, " is to write to a slot of ", out.type()));
    }
    if (made.finds && !out.set_dims(dims)) {
      return complain(concat("stage s", index, ": no room for ", rows, " items"));
    }
    std::ranges::copy(words, out.as<std::int64_t>().begin());
  }

  void complain(std::string text) {
    const std::scoped_lock lock(mutex_);
    if (complaints_.size() < 5) complaints_.push_back(std::move(text));
  }

  const Case given_;
  std::vector<std::atomic<int>> calls_, order_;  // By stage and tag.
  std::vector<std::atomic<int>> hangs_;          // By stage.
  std::vector<std::atomic<int>> counters_;       // The same.
  std::atomic<int> begun_{0};                    // Calls.
  std::atomic<std::uint64_t> blinks_{0};
  std::atomic<bool> lost_{false};  // The peer.
  std::unique_ptr<NoMoreThreads> no_threads_;
  std::atomic<bool> open_{false};
  std::atomic<int> hung_{0}, inside_{0};
  std::mutex mutex_;
  std::vector<std::string> complaints_;
};

}  // namespace penstock::contract
