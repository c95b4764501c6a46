// What makes a plan impossible to run, sentence by sentence.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "penstock/base/letters.h"
#include "penstock/base/option_name.h"
#include "penstock/base/words.h"
#include "penstock/device/address.h"
#include "penstock/plan/paths.h"
#include "penstock/plan/plan.h"
#include "penstock/plan/violation.h"
#include "penstock/tensor/utf.h"

namespace penstock::plan {
namespace {

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan) {}

  std::vector<Violation> run() {
    check_tensors();
    check_parameters();
    check_bound_inputs();
    check_stage_names();
    for (const auto& stage : plan_.stages) {
      at_ = &stage;
      check_stage(stage);
    }
    at_ = nullptr;
    check_instances();
    check_flow();
    for (std::size_t i = 0; i < plan_.edges.size(); ++i) check_edge(i);
    check_coverage();
    check_states();
    check_settings();
    return std::move(found_);
  }

 private:
  using NameSet = std::set<std::string, std::less<>>;

  template <typename... Args>
  void add(const Args&... args) {
    found_.push_back({concat(args...), at_});
  }

  void check_name(std::string_view kind, const std::string& name) {
    if (name.empty()) add(kind, " without a name");
    if (!is_utf8(name)) add(kind, " with a name that is not UTF-8: rename it in the model");
  }

  /// An input that is also an output passes through; an output may stand twice. Else names differ.
  void check_tensors() {
    std::map<std::string_view, const Type*> inputs, outputs, others;
    const auto take = [&](std::string_view kind, const TensorInfo& info, auto& list, bool again) {
      check_name(kind, info.name);
      const auto [at, fresh] = list.emplace(info.name, &info.type);
      if (!fresh && !again) add(kind, " '", info.name, "' is listed twice");
      if (!fresh && again && *at->second != info.type) {
        add(kind, " '", info.name, "' is listed with two types, ", *at->second, " and ", info.type);
      }
      known_.insert(info.name);
    };
    for (const auto& info : plan_.inputs) take("input", info, inputs, false);
    for (const auto& info : plan_.outputs) take("output", info, outputs, true);
    for (const auto& info : plan_.tensors) take("tensor", info, others, false);
    for (const auto& [name, type] : outputs) {
      const auto input = inputs.find(name);
      if (input != inputs.end() && *input->second != *type) {
        add("tensor '", name, "' is ", *input->second, " as input and ", *type, " as output");
      }
    }
    for (const auto& [name, type] : others) {
      if (inputs.contains(name) || outputs.contains(name)) {
        add("tensor '", name, "' is listed among the tensors and as an input or output");
      }
    }
  }

  void check_parameters() {
    for (const auto& parameter : plan_.parameters) {
      check_name("parameter", parameter.name);
      if (!parameters_.insert(parameter.name).second) {
        add("parameter '", parameter.name, "' is listed twice");
      }
      if (known_.contains(parameter.name)) {
        add("parameter '", parameter.name, "' has the name of a tensor");
      }
      check_path(concat("parameter '", parameter.name, "': file"), parameter.file);
    }
  }

  void check_bound_inputs() {
    NameSet names;
    for (const auto& input : plan_.bound_inputs) {
      check_name("bound input", input.name);
      if (!names.insert(input.name).second) add("bound input '", input.name, "' is listed twice");
      const auto is_input = [&](const TensorInfo& info) { return info.name == input.name; };
      if (std::ranges::any_of(plan_.inputs, is_input)) {
        add("bound input '", input.name, "' is listed among the inputs");
      }
      if (input.type.kind != Type::Kind::kTensor || !input.type.ranked || !input.type.fixed()) {
        add("bound input '", input.name, "': expected a tensor of fixed shape, found ", input.type);
      }
      if (input.value.empty() == input.file.empty()) {
        add("bound input '", input.name, "': expected either 'value' or 'file', found ",
            input.value.empty() ? "neither" : "both");
      }
      if (!input.value.empty() && input.type.max_bytes().value_or(SIZE_MAX) > kMostBoundBytes) {
        add("bound input '", input.name, "': expected a file, as ", input.type, " is over ",
            kMostBoundBytes, " bytes, found a value");
      }
      if (!input.file.empty()) {
        check_path(concat("bound input '", input.name, "': file"), input.file);
      }
    }
  }

  void check_stage_names() {
    if (plan_.stages.empty()) add("no stages: expected at least one");
    NameSet names;
    for (const auto& stage : plan_.stages) {
      check_name("stage", stage.name);
      if (stage.name == "input" || stage.name == "output") {
        add("stage '", stage.name, "': the name stands for the pipeline's own end; rename it");
      }
      if (!names.insert(stage.name).second) add("stage '", stage.name, "' is listed twice");
    }
  }

  void check_stage(const Stage& stage) {
    const auto place = concat("stage '", stage.name, "'");
    check_once(place, "reads", stage.inputs);
    check_once(place, "writes", stage.outputs);
    check_once(place, "reads the parameter", stage.parameters);
    for (const auto& name : stage.inputs) check_known(place, name);
    for (const auto& name : stage.outputs) check_known(place, name);
    for (const auto& name : stage.parameters) {
      if (!parameters_.contains(name)) add(place, ": parameter '", name, "' is not listed");
    }
    check_devices(place, stage);
    check_partitions(place, stage);
    check_each(place, stage);
    if (stage.stateful && stage.devices.size() > 1) {
      add(place, ": is stateful and sees the frames in order: expected one replica, found ",
          stage.devices.size());
    }
    check_duration(place + ": max_run", stage.max_run);
    check_calls(place, stage);
    check_lanes(place, stage);
    check_host_cpus(place, stage);
    check_standby(place, stage);
    check_servers(place, stage);
  }

  void check_range(const std::string& place, int lowest, int highest, int found) {
    if (found >= lowest && found <= highest) return;
    add(place, ": expected from ", lowest, " to ", highest, ", found ", found);
  }

  void check_calls(const std::string& place, const Stage& stage) {
    constexpr int kMost = std::numeric_limits<int>::max();
    check_range(place + ": lanes", 0, kMostLanes, stage.lanes);
    check_range(place + ": max_left_behind", 0, kMostLanes, stage.max_left_behind);
    check_range(place + ": batch: frames", 1, kMost, stage.batch.frames);
    const auto wait = stage.batch.wait;
    if (wait.count() != 0) check_duration(place + ": batch: wait", wait);
    if (wait.count() > 0 && stage.batch.frames == 1) {
      add(place, ": batch: waits ", wait.count(),
          " microseconds for more frames, and takes 1: expected at least 2 frames, or no wait");
    }
  }

  /// A stage where one call cannot begin before the last one has ended has one lane.
  void check_lanes(const std::string& place, const Stage& stage) {
    if (stage.lanes <= 1) return;
    for (const auto& why : why_one_lane(plan_, stage)) {
      add(place, ": expected 1 lane, found ", stage.lanes, ": ", why);
    }
  }

  /// The thread of a stage on CPUs of this machine runs on those.
  void check_host_cpus(const std::string& place, const Stage& stage) {
    if (stage.host_cpus.empty()) return;
    if (stage.host_cpus.front() < 0 ||
        std::ranges::adjacent_find(stage.host_cpus, std::greater_equal()) !=
            stage.host_cpus.end()) {
      add(place, ": host_cpus: expected CPU numbers from 0, ascending, found ",
          join(stage.host_cpus, " ", [](int cpu) { return std::to_string(cpu); }));
    }
    const auto is_local = [](const device::Device& device) { return device.is_local_cpu(); };
    if (std::ranges::all_of(stage.devices, is_local) &&
        std::ranges::all_of(stage.standby, is_local)) {
      add(place, ": host_cpus: expected none, as its devices are CPUs of this machine");
    }
  }

  void check_standby(const std::string& place, const Stage& stage) {
    for (auto device = stage.standby.begin(); device != stage.standby.end(); ++device) {
      check_device(place + ": standby", *device);
      if (std::ranges::find(stage.devices, *device) != stage.devices.end()) {
        add(place, ": standby '", device::to_string(*device), "' is one of its own devices");
      }
      if (std::find(stage.standby.begin(), device, *device) != device) {
        add(place, ": standby '", device::to_string(*device), "' is listed twice");
      }
    }
  }

  /// Item k of every input makes item k of every output: all have as many.
  void check_each(const std::string& place, const Stage& stage) {
    check_once(place, "runs for each item of", stage.each);
    std::vector<std::string> carriers = stage.each;
    for (const auto& name : stage.each) {
      if (std::ranges::find(stage.inputs, name) == stage.inputs.end()) {
        add(place, ": runs for each item of '", name, "', which it does not read");
      }
    }
    if (!stage.each.empty()) {
      carriers.insert(carriers.end(), stage.outputs.begin(), stage.outputs.end());
    }
    for (const auto& name : carriers) {
      const auto* info = plan_.find_tensor(name);
      if (info == nullptr) continue;  // Said already.
      if (holds_items(info->type)) continue;
      add(place, ": '", name, "' holds items: ", kItemsExpected, ", found ", info->type);
    }
  }

  void check_once(const std::string& place, std::string_view verb,
                  const std::vector<std::string>& names) {
    NameSet seen;
    for (const auto& name : names) {
      if (!seen.insert(name).second) add(place, " ", verb, " '", name, "' twice");
    }
  }

  void check_known(const std::string& place, const std::string& tensor) {
    if (!known_.contains(tensor)) {
      add(place, ": tensor '", tensor, "' is not among the inputs, outputs or tensors");
    }
  }

  void check_devices(const std::string& place, const Stage& stage) {
    if (stage.devices.empty()) add(place, ": expected a device for each replica, found none");
    for (const auto& device : stage.devices) check_device(place, device);
  }

  void check_device(const std::string& place, const device::Device& device) {
    switch (device.kind) {
      case device::Device::Kind::kCpu:
        if (device.cpus.empty()) add(place, ": device names no CPU");
        return;
      case device::Device::Kind::kCuda:
        if (device.index < 0) add(place, ": device names no GPU");
        return;
      case device::Device::Kind::kServer:
        if (!device::is_server(device.host)) add(place, ": device names no server");
        return;
    }
  }

  void check_instances() {
    std::size_t replicas = 0, standby = 0;
    for (const auto& stage : plan_.stages) {
      replicas += stage.devices.size();
      standby += stage.standby.size();
    }
    if (replicas + standby <= static_cast<std::size_t>(kMostInstances)) return;
    const auto besides = standby == 0 ? "" : concat(" and ", standby, " stand-by devices");
    add("the stages have ", replicas, " replicas", besides, " in all: expected at most ",
        kMostInstances, ", as each is a thread");
  }

  /// Partitions run in order: each reads what the stage reads or what an earlier one wrote.
  /// A package computes; it says nothing about files of the machine that it is brought to.
  void check_options(const std::string& where, const Partition& partition) {
    if (partition.backend == kFunctionBackend) return;
    for (const auto& [key, value] : partition.options) {
      if (!names_a_place(key, value)) continue;
      add(where, ": option '", key,
          "' names a place on the disk, which a package may not; leave it ",
          "out there, and give it where the package is run (",
          example_of_backend_option(partition.backend, key), ")");
    }
  }

  void check_model(const std::string& where, const Partition& partition) {
    if (partition.backend == kFunctionBackend && partition.model.empty()) {
      if (partition.options.contains("function")) return;
      add(where, ": a function without a library: expected its name as the option 'function'");
    } else if (!partition.served) {
      check_path(where + ": model", partition.model);
    }
  }

  /// Each call takes the smallest that holds its frames: they are in order, none for one frame.
  void check_batched(const std::string& where, const Stage& stage, const Partition& partition) {
    if (partition.batched.empty()) return;
    if (partition.backend == kFunctionBackend) {
      add(where, ": batched: expected no models for several frames, as a function has none");
      return;
    }
    int before = 1;
    for (const auto& [frames, model] : partition.batched) {
      const auto entry = concat(where, ", batched for ", counted(frames, "frame"));
      if (frames <= before || frames > stage.batch.frames) {
        add(entry, ": expected ascending from 2 to the stage's batch of ", stage.batch.frames);
      }
      check_path(entry + ": model", model);
      before = std::max(before, frames);
    }
  }

  /// A server has its model, of which the plan knows the name: on other devices there is none.
  void check_served(const std::string& where, const Stage& stage, const Partition& partition) {
    const bool remote = partition.backend == kRemoteBackend;
    if (remote != partition.served.has_value()) {
      add(where, ": backend '", partition.backend, "': expected ",
          remote ? "the one that runs the model on its device's machine, as no server has it"
                 : concat("'", kRemoteBackend, "', as a server has the model"));
    }
    if (!partition.served) {
      if (partition.idempotent) {
        add(where, ": idempotent says something of a server: expected a model 'oip://...'");
      }
      return;
    }
    const auto text = to_string(*partition.served);
    if (!partition.model.empty()) add(where, ": '", text, "': expected no model in the package");
    if (!partition.batched.empty()) {
      add(where, ": '", text, "': expected no models for several frames beside a server's");
    }
    if (stage.partitions.size() > 1) {
      add(where, ": '", text, "': expected a stage of its own, found ", stage.partitions.size(),
          " partitions in it");
    }
    const auto is_there = [&](const device::Device& device) {
      return device.host == partition.served->address;
    };
    if (!std::ranges::any_of(stage.devices, is_there)) {
      add(where, ": '", text, "': expected its server, 'oip://", partition.served->address,
          "', among the stage's devices");
    }
  }

  /// Servers of others run their own models, machines of ours those of the package.
  void check_servers(const std::string& place, const Stage& stage) {
    const bool served = !stage.partitions.empty() && stage.partitions.front().served.has_value();
    for (const auto* devices : {&stage.devices, &stage.standby}) {
      for (const auto& device : *devices) {
        if ((device.kind == device::Device::Kind::kServer) == served) continue;
        add(place, ": device '", device::to_string(device), "': expected ",
            served ? "a server, 'oip://host:port', as it has the model"
                   : "CPUs or a GPU, as the model is the package's own");
      }
    }
  }

  void check_partitions(const std::string& place, const Stage& stage) {
    if (stage.partitions.empty()) add(place, ": expected at least one partition, found none");
    NameSet given(stage.inputs.begin(), stage.inputs.end());
    given.insert(stage.parameters.begin(), stage.parameters.end());
    NameSet written, read;
    for (std::size_t i = 0; i < stage.partitions.size(); ++i) {
      const auto& partition = stage.partitions[i];
      const auto where = concat(place, ", partition ", i);
      if (partition.backend.empty()) add(where, ": no backend named");
      check_options(where, partition);
      check_served(where, stage, partition);
      check_model(where, partition);
      check_batched(where, stage, partition);
      check_once(where, "writes", partition.outputs);
      for (const auto& name : partition.inputs) {
        read.insert(name);
        if (!given.contains(name)) {
          add(where, ": reads '", name,
              "', which neither the stage nor an earlier partition gives");
        }
      }
      for (const auto& name : partition.outputs) {
        check_known(where, name);
        if (!given.insert(name).second) add(where, ": writes '", name, "', which is there already");
        written.insert(name);
      }
    }
    for (const auto& name : stage.outputs) {
      if (!written.contains(name)) add(place, ": no partition writes its output '", name, "'");
    }
    for (const auto* list : {&stage.inputs, &stage.parameters}) {
      for (const auto& name : *list) {
        if (!read.contains(name)) add(place, ": no partition reads its input '", name, "'");
      }
    }
  }

  std::string end_name(int end) const {
    if (end == kPipelineInput) return "the pipeline's input";
    if (end == kPipelineOutput) return "the pipeline's output";
    return "stage '" + plan_.stages[static_cast<std::size_t>(end)].name + "'";
  }

  void check_flow() {
    for (const auto& input : plan_.inputs) producers_.emplace(input.name, kPipelineInput);
    for (int i = 0; i < stage_count(); ++i) {
      for (const auto& name : stage(i).outputs) {
        const auto [at, fresh] = producers_.emplace(name, i);
        if (!fresh && at->second != i) {
          add("tensor '", name, "' is written twice, by ", end_name(at->second), " and by ",
              end_name(i));
        }
      }
    }
    for (int i = 0; i < stage_count(); ++i) {
      at_ = &stage(i);
      for (const auto& name : at_->inputs) check_source(i, name);
    }
    at_ = nullptr;
    for (const auto& output : plan_.outputs) {
      if (!producers_.contains(output.name)) {
        add("output '", output.name, "': no stage writes it");
      }
    }
  }

  void check_source(int reader, const std::string& tensor) {
    if (plan_.find_state(tensor) != nullptr) return;
    const auto producer = producers_.find(tensor);
    if (producer == producers_.end()) {
      add(end_name(reader), ": reads '", tensor, "', which no stage and no pipeline input writes");
    } else if (producer->second >= reader) {
      add(end_name(reader), ": reads '", tensor, "' of ", end_name(producer->second),
          ", which does not come before it: a cycle");
    }
  }

  [[nodiscard]] bool check_ends(const std::string& place, const Edge& edge) {
    const auto before = found_.size();
    if (edge.from != kPipelineInput && (edge.from < 0 || edge.from >= stage_count())) {
      add(place, ": begins at stage number ", edge.from, ", which does not exist");
    }
    if (edge.to.empty()) add(place, ": leads nowhere");
    for (std::size_t k = 0; k < edge.to.size(); ++k) {
      const int to = edge.to[k];
      if (to != kPipelineOutput && (to < 0 || to >= stage_count())) {
        add(place, ": leads to stage number ", to, ", which does not exist");
      } else if (to != kPipelineOutput && to <= edge.from) {
        add(place, ": leads from ", end_name(edge.from), " back to ", end_name(to));
      }
      const bool last = k + 1 == edge.to.size();
      if (!last &&
          (to == kPipelineOutput || (edge.to[k + 1] != kPipelineOutput && edge.to[k + 1] <= to))) {
        add(place, ": its ends are out of order: expected stages ascending, the output last");
      }
    }
    return found_.size() == before;
  }

  void check_edge(std::size_t position) {
    const auto& edge = plan_.edges[position];
    const auto place = concat("edges[", position, "]");
    if (edge.capacity < 0) add(place, ": capacity ", edge.capacity, " is negative");
    if (edge.policy == FullPolicy::kLatest && edge.capacity > 1) {
      add(place, ": policy 'latest' keeps one frame: expected capacity 0 or 1, found ",
          edge.capacity);
    }
    if (edge.tensors.empty()) add(place, ": carries no tensors");
    check_once(place, "carries", edge.tensors);
    if (!check_ends(place, edge)) return;
    for (const auto& tensor : edge.tensors) check_carried(place, edge, tensor);
  }

  void check_carried(const std::string& place, const Edge& edge, const std::string& tensor) {
    check_known(place, tensor);
    const auto producer = producers_.find(tensor);
    if (producer == producers_.end() || producer->second != edge.from) {
      add(place, ": ", end_name(edge.from), " does not write '", tensor, "'");
    }
    for (const int to : edge.to) {
      if (!reads(to, tensor)) add(place, ": ", end_name(to), " does not read '", tensor, "'");
      ++carried_[{to, tensor}];
    }
  }

  [[nodiscard]] bool reads(int reader, const std::string& tensor) const {
    if (reader == kPipelineOutput) {
      return std::ranges::find(plan_.outputs, tensor, &TensorInfo::name) != plan_.outputs.end();
    }
    const auto& inputs = stage(reader).inputs;
    return std::ranges::find(inputs, tensor) != inputs.end();
  }

  /// Every reader gets every tensor over exactly one edge.
  void check_coverage() {
    std::set<std::pair<int, std::string>> needed;
    for (int i = 0; i < stage_count(); ++i) {
      for (const auto& name : stage(i).inputs) {
        if (plan_.find_state(name) == nullptr) needed.insert({i, name});
      }
    }
    for (const auto& output : plan_.outputs) needed.insert({kPipelineOutput, output.name});
    for (const auto& key : needed) {
      const auto count = carried_.contains(key) ? carried_.at(key) : 0;
      if (count == 0) add("no edge carries '", key.second, "' to ", end_name(key.first));
      if (count > 1) add(count, " edges carry '", key.second, "' to ", end_name(key.first));
    }
  }

  void check_path(const std::string& place, const std::string& path) {
    const auto problem = path_problem(path);
    if (!problem.empty()) add(place, " '", path, "' ", problem);
  }

  /// A state's writer counts its frames by itself, and its first reader needs a value.
  void check_states() {
    NameSet ends;
    for (const auto& state : plan_.states) {
      const auto place = concat("state '", state.from, "' -> '", state.to, "'");
      if (!ends.insert(state.to).second) add(place, ": '", state.to, "' ends two state edges");
      if (producers_.contains(state.to)) {
        add(place, ": '", state.to, "' is written by ", end_name(producers_.at(state.to)),
            ": a state comes from the frame before only");
      }
      const auto writer = producers_.find(state.from);
      if (writer == producers_.end() || writer->second == kPipelineInput) {
        add(place, ": no stage writes '", state.from, "'");
      } else if (const auto& writing = stage(writer->second);
                 writing.devices.size() > 1 && plan_.streams.most == 1) {
        add(place, ": stage '", writing.name, "' writes it: expected one replica, found ",
            writing.devices.size(), "; of several streams each would have one of them");
      }
      const bool read = std::ranges::any_of(plan_.stages, [&](const Stage& other) {
        return std::ranges::find(other.inputs, state.to) != other.inputs.end();
      });
      if (!read) add(place, ": no stage reads '", state.to, "'");
      check_state_types(place, state);
    }
  }

  void check_state_types(const std::string& place, const StateEdge& state) {
    const auto* from = plan_.find_tensor(state.from);
    const auto* to = plan_.find_tensor(state.to);
    if (from == nullptr || to == nullptr) {
      add(place, ": '", from == nullptr ? state.from : state.to,
          "' is not among the inputs, outputs or tensors");
      return;
    }
    if (!agree(from->type, to->type)) {
      add(place, ": writes ", from->type, ", reads ", to->type,
          "; expected one type and shape: choose other tensors (", OptionName::kStates, ")");
    }
    if (!state.initial.empty()) {
      check_path(place + ": initial value", state.initial);
    } else if (!to->type.fixed() || bits_of(to->type.dtype) == 0) {
      add(place, ": the first frame reads zeros of ", to->type,
          ": expected a fixed shape of numbers, or its first value (",
          in_words_of_caller(concat("--state ", state.from, "=", state.to, ":FILE.npy"),
                             concat("states={'", state.from, "': ('", state.to, "', 'FILE.npy')}")),
          "; of a cache that grows, with an empty array)");
    }
  }

  void check_duration(const std::string& place, std::optional<std::chrono::microseconds> given) {
    constexpr std::int64_t kLongest = 1'000'000'000'000'000;  // In nanoseconds it still fits.
    if (!given || (given->count() > 0 && given->count() <= kLongest)) return;
    add(place, ": expected from 1 to ", kLongest, " microseconds, found ", given->count());
  }

  void check_settings() {
    for (const auto& path : plan_.custom_ops) check_path("custom-operator library", path);
    for (const auto& [path, hash] : plan_.files) check_path("file", path);
    check_duration("max_age", plan_.max_age);
    check_range("streams: most", 1, std::numeric_limits<int>::max(), plan_.streams.most);
    const auto& p = plan_.prediction;
    for (const double seconds : {p.period_seconds, p.latency_seconds, p.lower_bound_seconds}) {
      if (!std::isfinite(seconds) || seconds < 0) {
        add("prediction: expected seconds that are not negative, found ", seconds);
      }
    }
    for (const auto& stage : plan_.stages) {
      const double seconds = stage.predicted_seconds;
      if (std::isfinite(seconds) && seconds >= 0) continue;
      add("stage '", stage.name,
          "': predicted_seconds: expected seconds that are not negative, found ", seconds);
    }
  }

  [[nodiscard]] int stage_count() const { return static_cast<int>(plan_.stages.size()); }
  [[nodiscard]] const Stage& stage(int i) const {
    return plan_.stages[static_cast<std::size_t>(i)];
  }

  const Plan& plan_;
  const Stage* at_ = nullptr;  // Whose own settings are checked; null: what is no single stage's.
  std::vector<Violation> found_;
  NameSet known_, parameters_;
  std::map<std::string, int> producers_;
  std::map<std::pair<int, std::string>, int> carried_;
};

/// The sentence of a stage's violation, behind the stage's name.
std::string without_stage(const Violation& violation) {
  const std::string_view sentence = violation.sentence;
  const auto name = concat("stage '", violation.stage->name, "'");
  return std::string(sentence.substr(sentence.find_first_not_of(":, ", name.size())));
}

}  // namespace

bool names_a_place(std::string_view key, std::string_view value) {
  if (value == ".." || value.find_first_of("/\\") != value.npos) return true;
  const std::string lower = lower_case(std::string(key));
  constexpr std::array kWords = {"path", "file",      "folder",  "dir_",
                                 "_dir", "directory", "library", "context"};
  return lower == "dir" || std::ranges::any_of(kWords, [&](const char* word) {
           return lower.find(word) != std::string::npos;
         });
}

std::string_view path_problem(std::string_view path) {
  if (path.empty()) return "is empty: expected a path inside the package";
  if (path.find('\0') != path.npos || path.find('\\') != path.npos) {
    return "has a character that paths in a package may not have";
  }
  if (path.front() == '/') return "is absolute: expected a path relative to the package";
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    const auto part = path.substr(begin, end - begin);
    if (part == "..") return "leads outside the package";
    if (part.empty() || part == ".") return "is not in its plain form: has an empty part or '.'";
    begin = end + 1;
  }
  return {};
}

std::vector<Violation> find_violations(const Plan& plan) {
  return Checker(plan).run();
}

std::vector<std::string> violations(const Plan& plan) {
  std::vector<std::string> sentences;
  for (auto& found : find_violations(plan)) sentences.push_back(std::move(found.sentence));
  return sentences;
}

Status validate(const Plan& plan) {
  constexpr std::size_t kShown = 3;
  auto found = find_violations(plan);
  if (found.empty()) return {};
  const auto total = found.size();
  if (total > kShown) found.resize(kShown);
  const auto more = total > kShown ? concat("; and ", total - kShown, " more") : "";
  const Stage* const stage = found.front().stage;
  const auto is_there = [&](const Violation& one) { return one.stage == stage; };
  if (stage == nullptr || !std::ranges::all_of(found, is_there)) {
    return invalid_argument("plan: ", join(found, "; ", std::mem_fn(&Violation::sentence)), more);
  }
  return invalid_argument(join(found, "; ", without_stage), more)
      .within({Where::kStage, stage->name})
      .within("plan");
}

}  // namespace penstock::plan
