// Looks a part up, waits for its turn, runs a job in the worker, and keeps the cost or the failure.
#include "penstock/cost/profiler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "penstock/backend/request.h"
#include "penstock/base/files.h"
#include "penstock/base/hash.h"
#include "penstock/cost/elsewhere.h"
#include "penstock/cost/job.h"
#include "penstock/cost/part_keys.h"
#include "penstock/cost/turn.h"
#include "penstock/cost/worker.h"
#include "penstock/device/place.h"
#include "penstock/graph/writer.h"

namespace penstock::cost {
namespace {

namespace fs = std::filesystem;
using Clock = Profiler::Clock;

constexpr auto kGrace = std::chrono::milliseconds(300);  // What runs may take beyond the deadline.
constexpr double kMoreMemory = 1.25;  // What is left goes up and down: less is no reason to retry.
constexpr const char* kReference = "onnxruntime";

std::string tolerance_text(const Tolerance& tolerance) {
  return concat(tolerance.relative, "|e|+", tolerance.absolute, "max,", tolerance.steps);
}

std::string text_of(const PartKey& key) {
  return concat(key.model, "|", key.inputs, "|", key.precision, "|", key.backend, "|", key.engine,
                "|", key.device, "|", key.threads, "|", key.condition, "|", key.options);
}

/// Failures of the machine's state, not of the part.
bool says_nothing_of_the_part(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kNotFound;
}

std::vector<std::int64_t> dims_of(const Type& bound) {
  std::vector<std::int64_t> dims;
  for (const auto& dim : bound.dims) dims.push_back(dim.size);
  return dims;
}

Failure failure_of(const JobReport& report) {
  if (report.error.code == Code::kResourceExhausted) {
    return {FailureKind::kOutOfMemory, report.error.message()};
  }
  const auto kind = report.phase == "run" ? FailureKind::kRun : FailureKind::kCompile;
  return {kind, report.error.message()};
}

}  // namespace

struct Profiler::State {
  State(const backend::Registry& registry, Database* kept, Options set)
      : backends(registry), given(kept), options(std::move(set)) {}

  using Nodes = std::pair<const graph::Graph*, std::vector<graph::NodeId>>;

  const backend::Registry& backends;
  Database* given;              // The caller's; may be null.
  std::optional<Database> own;  // Where there is none.
  std::set<std::string> fresh;  // What this profiler has measured, by text_of() its keys.
  Options options;
  device::Topology topology;
  std::shared_ptr<const fs::path> folder;
  std::optional<PartKeys> keys;
  std::map<Nodes, fs::path> files;  // Written, and of use to the part at hand.
  std::map<std::string, fs::path> references;
  std::unique_ptr<Worker> worker;
  std::uint64_t memory_given = 0;  // To the last worker.
  std::int64_t count = 0;
  std::int64_t next_file = 0;

  Database& database() { return given != nullptr ? *given : *own; }
  /// What a part had before it failed so; 0: nothing that there could be more of.
  [[nodiscard]] double given_to(FailureKind kind) const {
    if (!wants_more(kind)) return 0;
    const bool hung = kind == FailureKind::kHang;
    return hung ? options.silence_seconds : static_cast<double>(memory_given);
  }
  /// Whether it could have clearly more now than it had when it failed.
  [[nodiscard]] bool may_do_now(const Cost& failed) const {
    if (!wants_more(failed.failure->kind)) return false;
    if (failed.failure->kind == FailureKind::kHang) return failed.low < options.silence_seconds;
    return failed.low * kMoreMemory < static_cast<double>(memory_limit(options.memory_bytes));
  }
  [[nodiscard]] bool stopped() const { return options.stop && options.stop(); }
  [[nodiscard]] double seconds_left() const {
    if (options.deadline == Clock::time_point::max()) return 1e9;
    return std::chrono::duration<double>(options.deadline - Clock::now()).count();
  }
  /// Whether what runs is to be ended now.
  [[nodiscard]] bool interrupted() const {
    return stopped() || seconds_left() < -std::chrono::duration<double>(kGrace).count();
  }
  /// Of this machine. Another one takes its own, which is the same where it is this one after all.
  [[nodiscard]] Turn take_turn() {
    return Turn::wait(options.elsewhere ? fs::path() : database().file(),
                      [this] { return over(); });
  }
  [[nodiscard]] bool over() const {
    return stopped() || count >= options.most_measurements || seconds_left() < options.min_seconds;
  }

  Status keep(const PartKey& key, const Cost& cost, const Part& part);
  Result<std::optional<Cost>> find(const PartKey& key);
  Result<fs::path> write(const graph::Subgraph& subgraph);
  Result<Job> job_of(const Part& part);
  Result<WorkerOutcome> run(const Job& job);
  Result<std::optional<Cost>> measure(const Part& part, const PartKey& key, bool again = false);
  Result<fs::path> reference(const Part& part, const PartKey& key,
                             const std::vector<std::uint64_t>& seeds);
  Result<Check> compare(const Part& part, const Job& job);
  Result<std::optional<Link>> link(const std::pair<std::string, std::string>& ends,
                                   const std::string& machine, Job job);
};

Result<std::optional<Cost>> Profiler::State::find(const PartKey& key) {
  std::optional<Cost> known;
  if (own || !options.refresh || fresh.contains(text_of(key))) {
    PENSTOCK_TRY(known, database().find(key));
  }
  if (known && known->failure && may_do_now(*known)) known.reset();
  return known;
}

Status Profiler::State::keep(const PartKey& key, const Cost& cost, const Part& part) {
  fresh.insert(text_of(key));
  return database().put(key, cost, name_of(part));
}

Result<fs::path> Profiler::State::write(const graph::Subgraph& subgraph) {
  auto& file = files[{&subgraph.graph(), subgraph.nodes()}];
  if (!file.empty()) return file;
  const fs::path made = *folder / concat("part", next_file++, ".onnx");
  PENSTOCK_TRY([[maybe_unused]] const auto written,
               graph::write_onnx(subgraph, made, {.weights = options.weights}));
  return file = made;
}

/// Of the inputs of all its models that are known.
std::map<std::string, std::vector<fs::path>> values_for(const Part& part,
                                                        const Activations& activations) {
  std::map<std::string, std::vector<fs::path>> values;
  const auto add = [&](const std::string& name) {
    auto files = activations.files_of(name);
    if (!files.empty()) values[name] = std::move(files);
  };
  for (const auto& model : part.models) {
    if (!model.subgraph) continue;
    for (const auto id : model.subgraph->inputs()) add(model.subgraph->graph().value(id).name);
  }
  for (const auto& [name, dims] : part.shapes) add(name);
  return values;
}

Result<Job> Profiler::State::job_of(const Part& part) {
  // Files of earlier parts are of no use any more.
  std::erase_if(files, [&](const auto& entry) {
    const bool used = std::ranges::any_of(part.models, [&](const PartModel& model) {
      return model.subgraph && &model.subgraph->graph() == entry.first.first &&
             model.subgraph->nodes() == entry.first.second;
    });
    std::error_code ignored;
    if (!used) fs::remove(entry.second, ignored);
    if (!used) fs::remove(entry.second.string() + ".data", ignored);
    return !used;
  });
  Job job;
  job.id = count;
  for (const auto& model : part.models) {
    JobModel entry;
    entry.name = model.name;
    entry.backend = model.backend;
    entry.precision = model.precision;
    entry.options = model.options;
    entry.custom_ops = part.custom_ops;
    if (!model.subgraph) {
      std::error_code ignored;
      entry.file = fs::absolute(model.file, ignored);
    } else {
      PENSTOCK_TRY(entry.file, write(*model.subgraph));
      for (const auto id : model.subgraph->inputs()) {
        const auto& value = model.subgraph->graph().value(id);
        const Type type = bound(value.type);
        const auto* known =
            options.activations == nullptr ? nullptr : options.activations->dims_of(value.name);
        if (known != nullptr) {
          job.shapes[value.name] = *known;
        } else if (type.ranked) {
          job.shapes[value.name] = dims_of(type);
        }
      }
    }
    job.models.push_back(std::move(entry));
  }
  for (const auto& [name, dims] : part.shapes) job.shapes[name] = dims;
  if (options.activations != nullptr) job.values = values_for(part, *options.activations);
  for (const auto& [name, file] : part.values) job.values[name] = {file};
  job.cpus = part.device.cpus;
  if (part.device.is_accelerator()) {
    job.device = device::to_string(part.device);
    job.cpus = device::allowed_cpus(topology);
  }
  job.threads = part.threads;
  job.flush_denormals = part.flush_denormals;
  for (const auto& neighbour : part.neighbours) job.neighbours.push_back(neighbour.cpus);
  return job;
}

/// What earlier jobs left in the process may be to blame: then once more in a new one.
bool deserves_another_try(const WorkerOutcome& outcome) {
  if (outcome.kind == WorkerOutcome::Kind::kReport) {
    return outcome.report.error.code == Code::kResourceExhausted;
  }
  return outcome.kind == WorkerOutcome::Kind::kDied && outcome.failure.kind != FailureKind::kHang;
}

Result<WorkerOutcome> Profiler::State::run(const Job& job) {
  const auto interrupted = [this] { return this->interrupted(); };
  if (options.elsewhere) return options.elsewhere->run(job, interrupted);
  const std::chrono::duration<double> silence(options.silence_seconds);
  for (;;) {
    if (!worker) {
      PENSTOCK_TRY(worker, Worker::start(
                               {options.memory_bytes, silence, [this] { options.on_long_run(); }}));
      memory_given = worker->memory_bytes();
    }
    worker->set_silence(silence);
    PENSTOCK_TRY(auto outcome, worker->run(job, interrupted));
    const bool was_first = worker->jobs() == 1;
    const bool again = deserves_another_try(outcome);
    if (again || outcome.kind != WorkerOutcome::Kind::kReport) worker.reset();
    if (!again || was_first) return outcome;
  }
}

Result<std::optional<Cost>> Profiler::State::measure(const Part& part, const PartKey& key,
                                                     bool again) {
  const Turn turn = take_turn();
  if (!turn.taken()) return std::optional<Cost>();
  // One like it may have been measured just now, here or by another process.
  PENSTOCK_TRY(auto known, find(key));
  if (known && !again) return known;
  ++count;
  auto job = job_of(part);
  Cost cost;
  if (!job) {
    // A part that cannot be written as a model cannot be had from any engine.
    if (job.error().code != Code::kFailedPrecondition) return std::move(job).error();
    cost.failure = Failure{FailureKind::kCompile, job.error().message()};
    PENSTOCK_CHECK_OK(keep(key, cost, part));
    return std::optional(cost);
  }
  job->min_seconds = options.min_seconds;
  job->max_seconds = std::clamp(seconds_left(), options.min_seconds,
                                std::max(options.min_seconds, options.seconds_per_part));
  PENSTOCK_TRY(const auto outcome, run(*job));
  if (outcome.kind == WorkerOutcome::Kind::kInterrupted) return std::optional<Cost>();
  const JobReport& report = outcome.report;
  if (outcome.kind == WorkerOutcome::Kind::kDied) {
    cost.failure = outcome.failure;
  } else if (report.event == JobReport::Event::kDone) {
    cost = {report.seconds, report.low, report.high, report.runs, {}};
    if (const auto wanted = part.neighbours.size(); std::cmp_less(report.neighbours, wanted)) {
      cost.remark = concat("timed beside ", report.neighbours, " of ", wanted,
                           " neighbours: its engine refuses more in one process");
    }
  } else {
    cost.failure = failure_of(report);
    if (report.event == JobReport::Event::kRefused || says_nothing_of_the_part(report.error)) {
      return std::optional(cost);
    }
  }
  if (cost.failure) cost.low = given_to(cost.failure->kind);
  PENSTOCK_CHECK_OK(keep(key, cost, part));
  return std::optional(cost);
}

Result<fs::path> Profiler::State::reference(const Part& part, const PartKey& key,
                                            const std::vector<std::uint64_t>& seeds) {
  const auto number = [](std::uint64_t seed) { return std::to_string(seed); };
  const std::string name =
      sha256_of(concat(key.model, wiring(part), key.inputs, join(seeds, ",", number)));
  auto& file = references[name];
  if (!file.empty()) return file;
  PENSTOCK_TRY(auto job, job_of(part));
  for (auto& model : job.models) {
    model.backend = kReference;
    model.precision = backend::Precision::kF32;
    model.optimize = false;
    model.options.clear();
  }
  job.device.clear();  // It runs on the CPUs of the device's host thread.
  job.neighbours.clear();
  job.threads = 1;
  job.flush_denormals = false;
  job.seeds = seeds;
  job.write_outputs = *folder / (name.substr(0, 32) + ".npz");
  ++count;
  PENSTOCK_TRY(const auto outcome, run(job));
  const auto failed = [&](const std::string& why) {
    return make_error(Code::kFailedPrecondition, name_of(part),
                      ": no reference to compare with: ", why);
  };
  if (outcome.kind == WorkerOutcome::Kind::kInterrupted) {
    return make_error(Code::kCancelled, name_of(part), ": the comparison was interrupted");
  }
  if (outcome.kind == WorkerOutcome::Kind::kDied) return failed(outcome.failure.message);
  if (outcome.report.event != JobReport::Event::kDone)
    return failed(outcome.report.error.message());
  return file = job.write_outputs;
}

Result<Check> Profiler::State::compare(const Part& part, const Job& job) {
  ++count;
  PENSTOCK_TRY(const auto outcome, run(job));
  if (outcome.kind == WorkerOutcome::Kind::kInterrupted) {
    return make_error(Code::kCancelled, name_of(part), ": the comparison was interrupted");
  }
  Check check;
  if (outcome.kind == WorkerOutcome::Kind::kDied) {
    check.failure = outcome.failure;
    return check;
  }
  const auto& report = outcome.report;
  if (report.event == JobReport::Event::kRefused ||
      (report.event == JobReport::Event::kFailed && says_nothing_of_the_part(report.error))) {
    return report.error;
  }
  if (report.event != JobReport::Event::kDone || !report.check) {
    check.failure = failure_of(report);
    return check;
  }
  check.worst_ratio = report.check->worst_ratio;
  check.output = report.check->output;
  check.place = report.check->place;
  if (report.check->ok) return check;
  const std::string what = report.check->problem.empty()
                               ? concat(check.worst_ratio, " times the tolerance")
                               : report.check->problem;
  check.failure = Failure{FailureKind::kWrongOutput,
                          concat("output '", check.output, "' differs: ", what, ", ", check.place)};
  return check;
}

Profiler::Profiler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Profiler::~Profiler() = default;

Result<std::unique_ptr<Profiler>> Profiler::start(const backend::Registry& backends,
                                                  Database* database, Options options) {
  auto state = std::make_unique<State>(backends, database, std::move(options));
  if (database == nullptr) {
    PENSTOCK_TRY(state->own, Database::in_memory());
  } else {
    database->go_on_without(state->options.warn);
  }
  const auto* elsewhere = state->options.elsewhere.get();
  if (elsewhere != nullptr) {
    state->topology = elsewhere->topology();
  } else {
    PENSTOCK_TRY(state->topology, device::read_topology());
    PENSTOCK_CHECK_OK(device::check_here(state->topology));
  }
  state->keys.emplace(backends, state->topology, elsewhere);
  PENSTOCK_TRY(state->folder, make_temporary_folder());
  return std::unique_ptr<Profiler>(new Profiler(std::move(state)));
}

Result<std::vector<std::optional<Cost>>> Profiler::measure(std::span<const Part> parts) {
  std::vector<std::optional<Cost>> costs;
  std::vector<PartKey> keys;
  for (const auto& part : parts) {
    PENSTOCK_TRY(auto key, key_of(part));
    PENSTOCK_TRY(auto cost, state_->find(key));
    keys.push_back(std::move(key));
    costs.push_back(std::move(cost));
  }
  auto known = std::ranges::count_if(costs, [](const auto& cost) { return cost.has_value(); });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (costs[i]) continue;
    if (state_->over()) {
      PENSTOCK_TRY(costs[i], state_->find(keys[i]));  // One like it may be known by now.
    } else {
      PENSTOCK_TRY(costs[i], state_->measure(parts[i], keys[i]));
    }
    known += costs[i] ? 1 : 0;
    if (state_->options.on_progress) {
      state_->options.on_progress(static_cast<std::size_t>(known), parts.size(), parts[i]);
    }
  }
  return costs;
}

Result<std::optional<Cost>> Profiler::measure_again(const Part& part) {
  PENSTOCK_TRY(const auto key, key_of(part));
  return state_->measure(part, key, true);
}

Result<Check> Profiler::check(const Part& part, const std::vector<std::uint64_t>& seeds,
                              const Tolerance& tolerance) {
  PENSTOCK_TRY(const auto key, key_of(part));
  CheckKey check_key{key.model,
                     key.inputs,
                     key.precision,
                     key.backend,
                     key.engine,
                     {},
                     key.device,
                     key.threads,
                     key.options,
                     {},
                     tolerance_text(tolerance)};
  check_key.reference = concat(kReference, " ", state_->keys->engine_version(kReference));
  check_key.seeds = join(seeds, ",", [](std::uint64_t seed) { return std::to_string(seed); });
  PENSTOCK_TRY(auto known, state_->database().find(check_key));
  if (known) return *known;
  const Turn turn = state_->take_turn();
  if (state_->over() || !turn.taken()) {
    return make_error(Code::kCancelled, name_of(part), ": no time left to compare its outputs");
  }
  PENSTOCK_TRY(known, state_->database().find(check_key));
  if (known) return *known;  // Another process has compared it meanwhile.
  PENSTOCK_TRY(const auto file, state_->reference(part, key, seeds));
  PENSTOCK_TRY(auto job, state_->job_of(part));
  job.neighbours.clear();
  job.seeds = seeds;
  job.reference = file;
  job.tolerance = tolerance;
  PENSTOCK_TRY(const auto check, state_->compare(part, job));
  const bool limited = check.failure && wants_more(check.failure->kind);
  // Not given enough: the next run compares again.
  if (!limited) PENSTOCK_CHECK_OK(state_->database().put(check_key, check, name_of(part)));
  return check;
}

/// As the database has it, else by the job.
Result<std::optional<Link>> Profiler::State::link(const std::pair<std::string, std::string>& ends,
                                                  const std::string& machine, Job job) {
  std::optional<Link> link;
  if (!options.refresh) {
    PENSTOCK_TRY(link, database().find_link(ends.first, ends.second, machine));
  }
  if (link || over()) return link;
  const Turn turn = take_turn();
  if (!turn.taken()) return link;
  job.id = ++count;
  PENSTOCK_TRY(const auto outcome, run(job));
  if (outcome.kind == WorkerOutcome::Kind::kInterrupted) return link;
  if (outcome.kind == WorkerOutcome::Kind::kDied) return internal_error(outcome.failure.message);
  if (outcome.report.event != JobReport::Event::kDone) return outcome.report.error;
  link = Link{outcome.report.seconds, outcome.report.bytes_per_second};
  PENSTOCK_CHECK_OK(database().put_link(ends.first, ends.second, machine, *link));
  return link;
}

Result<std::optional<Link>> Profiler::link(const device::Device& from, const device::Device& to) {
  for (const auto& device : {from, to}) PENSTOCK_CHECK_OK(check_device(device));
  Job job;
  job.cpus = from.cpus;
  job.link_to = to.cpus;
  return state_->link({device::to_string(from), device::to_string(to)},
                      link_key(state_->topology, from, to), std::move(job));
}

Result<std::optional<Link>> Profiler::copies(const std::string& backend,
                                             const device::Device& device, bool to_host) {
  PENSTOCK_TRY(const auto found, state_->backends.find(backend));
  Job job;
  job.cpus = device::allowed_cpus(state_->topology);
  job.device = device::to_string(device);
  job.memory_of = backend;
  job.to_host = to_host;
  const auto machine = concat(accelerator_key(state_->topology, device, found->device_name(device)),
                              " by ", backend, " ", engine_version(backend));
  std::pair<std::string, std::string> ends{"host", job.device};
  if (to_host) std::swap(ends.first, ends.second);
  return state_->link(ends, machine, std::move(job));
}

Result<std::optional<Peaks>> Profiler::peaks(const device::Device& device) {
  if (device.is_accelerator()) {
    return make_error(Code::kUnimplemented, "device '", device::to_string(device),
                      "': what it could do at most is not measured, only that of CPUs");
  }
  PENSTOCK_CHECK_OK(check_device(device));
  const std::string key = device_key(state_->topology, device);
  std::optional<Peaks> peaks;
  if (!state_->options.refresh || state_->fresh.contains(key)) {
    PENSTOCK_TRY(peaks, state_->database().find_peaks(key));
  }
  if (peaks || state_->over()) return peaks;
  const Turn turn = state_->take_turn();
  if (!turn.taken()) return peaks;
  Job job;
  job.cpus = device.cpus;
  job.peaks = true;
  PENSTOCK_TRY(const auto outcome, state_->run(job));
  if (outcome.kind == WorkerOutcome::Kind::kInterrupted) return peaks;
  if (outcome.kind == WorkerOutcome::Kind::kDied) return internal_error(outcome.failure.message);
  if (outcome.report.event != JobReport::Event::kDone) return outcome.report.error;
  peaks = outcome.report.peaks;
  if (!peaks) return peaks;
  PENSTOCK_CHECK_OK(state_->database().put_peaks(key, *peaks));
  state_->fresh.insert(key);
  return peaks;
}

Result<std::optional<Cost>> Profiler::find(const Part& part) {
  PENSTOCK_TRY(const auto key, key_of(part));
  return state_->find(key);
}

Result<PartKey> Profiler::key_of(const Part& part) {
  if (state_->options.elsewhere && part.device.is_accelerator()) {
    return make_error(Code::kUnimplemented, "device '", device::to_string(part.device),
                      "': only CPUs are measured on other machines");
  }
  PENSTOCK_TRY(auto key, state_->keys->key_of(part));
  const auto* activations = state_->options.activations;
  if (activations != nullptr && !activations->digest().empty())
    key.inputs += concat(" of frames ", activations->digest());
  return key;
}

std::string Profiler::engine_version(const std::string& backend) {
  return state_->keys->engine_version(backend);
}

void Profiler::rest() {
  auto& state = *state_;
  state.worker.reset();
  std::error_code ignored;
  for (const auto& [nodes, file] : std::exchange(state.files, {})) {
    for (const auto* end : {"", ".data"}) fs::remove(file.string() + end, ignored);
  }
  fs::remove(*state.folder / graph::WeightStore::kFileName, ignored);
}

void Profiler::forget(const graph::Graph& graph) {
  state_->keys->forget(graph);
  std::erase_if(state_->files, [&](const auto& entry) { return entry.first.first == &graph; });
}

bool Profiler::over() const {
  return state_->over();
}

std::int64_t Profiler::measured() const {
  return state_->count;
}

const device::Topology& Profiler::topology() const {
  return state_->topology;
}

Profiler::Options& Profiler::options() {
  return state_->options;
}

Database& Profiler::database() {
  return state_->database();
}

}  // namespace penstock::cost
