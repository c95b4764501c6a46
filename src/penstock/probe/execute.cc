// Compiles, compares outputs with a reference, starts neighbours on other CPUs, times the chain.
#include "penstock/probe/execute.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "penstock/device/affinity.h"
#include "penstock/device/topology.h"
#include "penstock/probe/chain.h"
#include "penstock/probe/link.h"
#include "penstock/probe/peaks.h"
#include "penstock/probe/timing.h"
#include "penstock/tensor/npz.h"

namespace penstock::probe {
namespace {

using cost::Job;
using cost::JobReport;
using Alive = std::function<void(const std::string& phase)>;

/// Of the last level, what one CPU has to itself; of a machine that does not tell, what is common.
std::uint64_t cache_share() {
  constexpr std::uint64_t kUnknown = 4ULL << 20U;
  const auto topology = device::read_topology();
  if (!topology || topology->caches.empty()) return kUnknown;
  const auto last = std::ranges::max_element(topology->caches, {}, &device::Cache::level);
  return last->size_bytes / std::max<std::size_t>(last->cpus.size(), 1);
}

Status settle(const Job& job, const std::vector<int>& cpus) {
  PENSTOCK_CHECK_OK(device::pin_this_thread(cpus));
  device::set_flush_denormals(job.flush_denormals);
  return {};
}

/// Compiles and binds on this thread, then runs until told to stop.
class Neighbour {
 public:
  Neighbour(const backend::Registry& backends, const Job& job, const std::vector<int>& cpus,
            std::uint64_t cache_bytes)
      : thread_([this, &backends, &job, &cpus, cache_bytes] {
          try {
            status_ = work(backends, job, cpus, cache_bytes);
          } catch (const std::bad_alloc&) {
            status_ = out_of_memory();
          }
          state_ = State::kEnded;
          state_.notify_all();
        }) {}
  ~Neighbour() { [[maybe_unused]] const auto ended = stop(); }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  /// Blocks until it runs. \error  why it does not
  Status wait_until_running() {
    state_.wait(State::kStarting);
    return state_ == State::kEnded ? stop() : Status();
  }

  Status stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  enum class State { kStarting, kRunning, kEnded };

  Status work(const backend::Registry& backends, const Job& job, const std::vector<int>& cpus,
              std::uint64_t cache_bytes) {
    // Backends tell the threads of their engine by the name of the thread that they are made on.
    device::name_this_thread(concat("neighbour ", cpus.front()));
    PENSTOCK_CHECK_OK(settle(job, cpus));
    PENSTOCK_TRY(const auto chain, Chain::compile(backends, job, cpus));
    PENSTOCK_CHECK_OK(settle(job, cpus));
    PENSTOCK_CHECK_OK(chain->bind(cache_bytes));
    state_ = State::kRunning;
    state_.notify_all();
    while (!stopping_) PENSTOCK_CHECK_OK(chain->run());
    return {};
  }

  std::atomic<State> state_ = State::kStarting;
  std::atomic<bool> stopping_ = false;
  Status status_;
  std::thread thread_;  // Last: it uses all of the above.
};

JobReport failed(const Job& job, const std::string& phase, Error error) {
  JobReport report;
  report.id = job.id;
  report.event = JobReport::Event::kFailed;
  report.phase = phase;
  report.error = std::move(error);
  return report;
}

JobReport refused(const Job& job, Error error) {
  JobReport report = failed(job, "", std::move(error));
  report.event = JobReport::Event::kRefused;
  return report;
}

/// All outputs for all seeds, by "<seed>/<tensor>".
Result<NamedTensors> run_seeds(Chain& chain, const Job& job, const Alive& alive) {
  NamedTensors all;
  for (const auto seed : job.seeds) {
    PENSTOCK_CHECK_OK(chain.use_seed(seed));
    PENSTOCK_CHECK_OK(chain.run());
    PENSTOCK_TRY(auto outputs, chain.outputs());
    for (auto& [name, value] : outputs) {
      if (value.kind() != Tensor::Kind::kDense && value.kind() != Tensor::Kind::kStrings) continue;
      all.emplace_back(concat(seed, "/", name), std::move(value));
    }
    alive("ran");
  }
  return all;
}

/// The worst of all values; what cannot be compared at all is worse than any.
cost::JobCheck compare_all(const NamedTensors& actual, const NamedTensors& expected,
                           const Tolerance& tolerance) {
  cost::JobCheck worst;
  for (const auto& [name, value] : expected) {
    const auto slash = name.find('/');
    const auto note = [&](double ratio, const std::string& where, const std::string& problem) {
      if (!worst.output.empty() && problem.empty() && ratio <= worst.worst_ratio) return;
      worst.worst_ratio = problem.empty() ? ratio : std::numeric_limits<double>::infinity();
      worst.output = name.substr(slash + 1);
      worst.place = concat("seed ", name.substr(0, slash), where.empty() ? "" : " ", where);
      worst.problem = problem;
    };
    const auto found = std::ranges::find(actual, name, [](const auto& pair) { return pair.first; });
    if (found == actual.end()) {
      note(0, "", "the output is missing");
      worst.ok = false;
      continue;
    }
    const auto comparison = compare(found->second, value, tolerance);
    worst.ok = worst.ok && comparison.ok();
    note(comparison.worst_ratio, comparison.where, comparison.problem);
    if (!worst.problem.empty()) return worst;
  }
  return worst;
}

Result<std::optional<cost::JobCheck>> check(Chain& chain, const Job& job, const Alive& alive) {
  PENSTOCK_TRY(const auto outputs, run_seeds(chain, job, alive));
  if (!job.write_outputs.empty()) PENSTOCK_CHECK_OK(write_npz(outputs, job.write_outputs));
  if (job.reference.empty()) return std::optional<cost::JobCheck>();
  std::map<std::string, DType> types;
  for (const auto& [name, value] : outputs) types[name] = value.dtype();
  PENSTOCK_TRY(const auto expected, read_npz(job.reference, types));
  return std::optional(compare_all(outputs, expected, job.tolerance));
}

Result<Timing> time_chain(Chain& chain, const Job& job, std::uint64_t cache_bytes,
                          const Alive& alive) {
  PENSTOCK_CHECK_OK(chain.bind(cache_bytes));
  alive("ran");
  PENSTOCK_CHECK_OK(chain.run_all_lanes());  // While lanes are idle a turn of them takes no time.
  PENSTOCK_TRY(auto timing, time_runs([&] { return chain.run_all_lanes(); }, job.min_seconds,
                                      job.max_seconds, [&] { alive("ran"); }));
  const auto lanes = static_cast<double>(chain.lanes());
  timing.seconds /= lanes;
  timing.low /= lanes;
  timing.high /= lanes;
  return timing;
}

/// Whether the part goes without the neighbour that cannot start, which is no fault of its own: its
/// engine stands once in a process only, or there is no memory for another. A plan that wants both
/// is refused when it is started.
bool is_done_without(const Error& error) {
  return error.code == Code::kFailedPrecondition || error.code == Code::kResourceExhausted;
}

/// Starts the neighbours one after the other: memory peaks once.
Status start_neighbours(const Job& job, const backend::Registry& backends,
                        std::uint64_t cache_bytes, const Alive& alive,
                        std::vector<std::unique_ptr<Neighbour>>& neighbours) {
  for (const auto& cpus : job.neighbours) {
    auto neighbour = std::make_unique<Neighbour>(backends, job, cpus, cache_bytes);
    auto started = neighbour->wait_until_running();
    if (!started && !is_done_without(started.error())) return started;
    if (started) neighbours.push_back(std::move(neighbour));
    alive("compiled");
  }
  return {};
}

/// Where the host's thread may run that serves the device.
Result<LinkTiming> time_memory(const Job& job, const backend::Registry& backends) {
  PENSTOCK_TRY(const auto backend, backends.find(job.memory_of));
  PENSTOCK_TRY(const auto device, device::parse_device(job.device));
  const auto memory = backend->memory(device);
  if (!memory) return invalid_argument("device '", job.device, "' has no memory of its own");
  PENSTOCK_CHECK_OK(device::pin_this_thread(job.cpus));
  return time_copies(*memory, job.to_host);
}

JobReport execute_link(const Job& job, const backend::Registry& backends) {
  const auto timing =
      job.memory_of.empty() ? time_link(job.cpus, job.link_to) : time_memory(job, backends);
  if (!timing) return refused(job, timing.error());
  JobReport report;
  report.id = job.id;
  report.event = JobReport::Event::kDone;
  report.seconds = timing->latency_seconds;
  report.bytes_per_second = timing->bytes_per_second;
  return report;
}

JobReport execute_peaks(const Job& job, const Alive& alive) {
  auto peaks = time_peaks(job.cpus, [&] { alive("ran"); });
  if (!peaks) return refused(job, std::move(peaks).error());
  JobReport report;
  report.id = job.id;
  report.event = JobReport::Event::kDone;
  report.peaks = *std::move(peaks);
  return report;
}

}  // namespace

JobReport execute(const Job& job, const backend::Registry& backends, const Alive& alive) {
  if (!job.link_to.empty() || !job.memory_of.empty()) return execute_link(job, backends);
  if (job.peaks) return execute_peaks(job, alive);
  for (const auto& model : job.models) {
    const auto backend = backends.find(model.backend);
    if (!backend) return refused(job, backend.error());
  }
  if (auto settled = settle(job, job.cpus); !settled) return refused(job, settled.error());
  auto chain = Chain::compile(backends, job, job.cpus);
  if (!chain) return failed(job, "compile", std::move(chain).error());
  // A compiler may leave its own mode and mask behind.
  if (auto settled = settle(job, job.cpus); !settled) return refused(job, settled.error());
  alive("compiled");

  JobReport report;
  report.id = job.id;
  report.event = JobReport::Event::kDone;
  if (!job.seeds.empty()) {
    auto checked = check(**chain, job, alive);
    if (!checked) return failed(job, "run", std::move(checked).error());
    report.check = *std::move(checked);
  }
  if (job.max_seconds <= 0) return report;
  static const std::uint64_t kCacheBytes = cache_share();  // Reading the machine takes a while.
  std::vector<std::unique_ptr<Neighbour>> neighbours;
  if (auto started = start_neighbours(job, backends, kCacheBytes, alive, neighbours); !started) {
    return failed(job, "run", std::move(started).error().within("a neighbour"));
  }
  const auto timing = time_chain(**chain, job, kCacheBytes, alive);
  for (auto& neighbour : neighbours) {
    if (auto stopped = neighbour->stop(); !stopped) {
      return failed(job, "run", std::move(stopped).error().within("a neighbour"));
    }
  }
  if (!timing) return failed(job, "run", timing.error());
  report.seconds = timing->seconds;
  report.low = timing->low;
  report.high = timing->high;
  report.runs = timing->runs;
  report.neighbours = static_cast<std::int64_t>(neighbours.size());
  return report;
}

}  // namespace penstock::probe
