// Times the network and runs of its nodes on one host of each kind; spreads the times over nodes.
#include "penstock/hosts/costs.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <span>

#include "penstock/base/thread.h"
#include "penstock/base/version.h"
#include "penstock/cost/elsewhere.h"
#include "penstock/cost/profiler.h"
#include "penstock/hosts/plan.h"

namespace penstock::hosts {
namespace {

constexpr std::size_t kRuns = 12;     // Of nodes that are timed by themselves.
constexpr double kLeastSeconds = 15;  // For the whole network, without which there is no plan.
constexpr double kMostSecondsPerPart = 1;

/// While it lives, a mutex that its maker holds is free.
class LetGo {
 public:
  explicit LetGo(std::mutex& mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~LetGo() { mutex_.lock(); }
  LetGo(const LetGo&) = delete;
  LetGo& operator=(const LetGo&) = delete;

 private:
  std::mutex& mutex_;
};

/// A host's penstock-measure in place of this machine's.
class OnHost final : public cost::Elsewhere {
 public:
  /// `share`: what its quota leaves it. Costs of a machine that is held back are its own. `turn`:
  /// held by who calls run(), which lets it go while the host is at work.
  OnHost(Worker& worker, double share, std::mutex& turn)
      : worker_(worker), topology_(worker.description().topology), turn_(turn) {
    if (share < 1) topology_.fingerprint += concat("/share ", share);
  }

  [[nodiscard]] const device::Topology& topology() const override { return topology_; }

  [[nodiscard]] std::string engine_version(const std::string& backend) const override {
    const auto& said = worker_.description();
    const auto found = std::ranges::find(said.backends, backend, &WorkerBackend::name);
    if (found == said.backends.end() || found->engine_version.empty()) return "";
    return concat(found->engine_version, ", penstock ", said.penstock);
  }

  Result<cost::WorkerOutcome> run(const cost::Job& job,
                                  const std::function<bool()>& interrupted) override {
    std::vector<JobFile> files;
    const auto line = cost::to_line(packed(job, files));
    const auto run = [&] {
      const LetGo others_go_on(turn_);
      return worker_.run(line, files, [&] {
        const std::scoped_lock lock(turn_);
        return interrupted();
      });
    };
    auto end = run();
    cost::WorkerOutcome outcome;
    if (!end) {
      if (end.error().code != Code::kCancelled) return std::move(end).error();
      outcome.kind = cost::WorkerOutcome::Kind::kInterrupted;
      return outcome;
    }
    if (end->report.empty()) {
      outcome.kind = cost::WorkerOutcome::Kind::kDied;
      outcome.failure = {cost::parse_failure_kind(end->died).value_or(cost::FailureKind::kCrash),
                         end->why};
      return outcome;
    }
    PENSTOCK_TRY(outcome.report, cost::parse_report(end->report));
    return outcome;
  }

 private:
  /// The job with its files under paths of its own.
  static cost::Job packed(cost::Job job, std::vector<JobFile>& files) {
    const auto add = [&](std::filesystem::path& file, const std::string& path) {
      files.push_back({path, file});
      file = path;
    };
    for (std::size_t i = 0; i < job.models.size(); ++i) {
      auto& model = job.models[i];
      auto data = model.file;
      data += ".data";  // As the writer of models calls it.
      const auto path = concat("models/", i, "/", model.file.filename().string());
      add(model.file, path);
      std::error_code ignored;
      if (std::filesystem::exists(data, ignored)) add(data, path + ".data");
      for (std::size_t j = 0; j < model.custom_ops.size(); ++j) {
        add(model.custom_ops[j], concat("custom_ops/", i, ".", j, ".so"));
      }
    }
    std::size_t count = 0;
    for (auto& [name, values] : job.values) {
      for (auto& file : values) add(file, concat("values/", count++, ".npy"));
    }
    return job;
  }

  Worker& worker_;
  device::Topology topology_;
  std::mutex& turn_;
};

/// Runs of nodes in topological order, of about equal work: each is convex.
std::vector<std::vector<graph::NodeId>> runs_of(const graph::Graph& graph,
                                                const std::vector<double>& work) {
  const double all = std::accumulate(work.begin(), work.end(), 0.0);
  const std::size_t count = std::min(kRuns, graph.nodes.size());
  std::vector<std::vector<graph::NodeId>> runs(1);
  double done = 0;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const double wanted = all * static_cast<double>(runs.size()) / static_cast<double>(count);
    if (!runs.back().empty() && done + work[i] / 2 > wanted) runs.emplace_back();
    runs.back().push_back(static_cast<graph::NodeId>(i));
    done += work[i];
  }
  return runs;
}

/// Of any thread, with `turn` held.
class Measuring {
 public:
  /// `least_seconds`: for the whole network.
  Measuring(const graph::Graph& graph, const backend::Registry& backends, cost::Database* database,
            const MeasureOptions& options, double least_seconds, std::mutex& turn)
      : graph_(graph),
        backends_(backends),
        database_(database),
        options_(options),
        least_seconds_(least_seconds),
        turn_(turn) {}

  /// What nodes take on the device, were its CPUs' time all its own; empty where it fails, which
  /// ends what other threads measure.
  cost::NodeCosts on(const Host& host, Worker& worker, const device::Device& device, double share) {
    auto costs = measured(host, worker, device, share);
    if (costs) return *std::move(costs);
    if (first_error_) first_error_ = std::move(costs).error();
    return {};
  }
  [[nodiscard]] const Status& first_error() const { return first_error_; }

 private:
  using Clock = cost::Profiler::Clock;
  static Clock::duration in_seconds(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  Result<cost::NodeCosts> measured(const Host& host, Worker& worker, const device::Device& device,
                                   double share) {
    cost::NodeCosts costs;
    costs.measured_cpus = static_cast<int>(device.cpus.size());
    std::vector<double> work;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      work.push_back(cost::node_seconds(graph_, static_cast<graph::NodeId>(i), costs.figures,
                                        costs.measured_cpus));
    }
    const auto runs = runs_of(graph_, work);
    const auto begin = Clock::now();
    const double seconds = options_.seconds;
    const double per_part = std::min(kMostSecondsPerPart, seconds / (kRuns + 4));
    const auto time = [&](double within, std::span<const cost::Part> parts) {
      return time_parts(worker, share, per_part, begin + in_seconds(within), parts);
    };
    const auto network = part_of(graph::Subgraph::whole(graph_), "the network", device);
    PENSTOCK_TRY(const auto timed, time(std::max(seconds, least_seconds_), {&network, 1}));
    const auto& whole = timed.front();
    if (!whole || whole->failure) {
      return make_error(Code::kFailedPrecondition, "what the network takes there is not known: ",
                        whole ? whole->failure->message : "there was no time to measure it")
          .within({Where::kPeer, host.name});
    }
    PENSTOCK_TRY(const auto parts, parts_of(runs, device));
    PENSTOCK_TRY(const auto measured, time(seconds, parts));
    spread(runs, work, measured);
    const double sum = std::accumulate(work.begin(), work.end(), 0.0);
    for (auto& each : work) each *= share * whole->seconds / sum;
    costs.node_seconds = std::move(work);
    return costs;
  }

  /// Beside `parts`; empty: `deadline` came before.
  Result<std::vector<std::optional<cost::Cost>>> time_parts(Worker& worker, double share,
                                                            double seconds_per_part,
                                                            Clock::time_point deadline,
                                                            std::span<const cost::Part> parts) {
    cost::Profiler::Options profiling;
    profiling.deadline = deadline;
    profiling.seconds_per_part = seconds_per_part;
    profiling.refresh = options_.refresh;
    profiling.stop = [this] { return !first_error_ || (options_.stop && options_.stop()); };
    profiling.warn = options_.warn;
    profiling.elsewhere = std::make_shared<OnHost>(worker, share, turn_);
    PENSTOCK_TRY(const auto profiler,
                 cost::Profiler::start(backends_, database_, std::move(profiling)));
    return profiler->measure(parts);
  }

  Result<std::vector<cost::Part>> parts_of(const std::vector<std::vector<graph::NodeId>>& runs,
                                           const device::Device& device) const {
    std::vector<cost::Part> parts;
    for (const auto& run : runs) {
      PENSTOCK_TRY(auto subgraph, graph::Subgraph::create(graph_, run));
      parts.push_back(part_of(
          std::move(subgraph),
          concat("nodes ", graph::index(run.front()), "-", graph::index(run.back())), device));
    }
    return parts;
  }

  cost::Part part_of(graph::Subgraph subgraph, std::string name,
                     const device::Device& device) const {
    cost::PartModel model;
    model.name = std::move(name);
    model.subgraph = std::move(subgraph);
    model.backend = options_.backend;
    model.options = options_.backend_options;
    cost::Part part;
    part.models.push_back(std::move(model));
    part.custom_ops = options_.custom_ops;
    part.device = device;
    part.device.host.clear();
    part.threads = static_cast<int>(device.cpus.size());
    return part;
  }

  /// Each run's nodes share what it took as their work does; runs that have no cost keep the mean.
  static void spread(const std::vector<std::vector<graph::NodeId>>& runs, std::vector<double>& work,
                     const std::vector<std::optional<cost::Cost>>& measured) {
    double known_work = 0, known_seconds = 0;
    std::vector<double> of_run;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      double sum = 0;
      for (const auto node : runs[i]) sum += work[graph::index(node)];
      of_run.push_back(sum);
      const auto& cost = measured[i];
      if (cost && !cost->failure) known_work += sum, known_seconds += cost->seconds;
    }
    if (known_work == 0) return;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto& cost = measured[i];
      const bool known = cost && !cost->failure && of_run[i] > 0;
      const double factor = known ? cost->seconds / of_run[i] : known_seconds / known_work;
      for (const auto node : runs[i]) work[graph::index(node)] *= factor;
    }
  }

  const graph::Graph& graph_;
  const backend::Registry& backends_;
  cost::Database* database_;
  const MeasureOptions& options_;
  const double least_seconds_;
  std::mutex& turn_;
  Status first_error_;
};

struct Chosen {
  std::size_t host = 0;
  device::Device device;
  double share = 0;
};

}  // namespace

Result<std::map<std::string, cost::NodeCosts>> measure_costs(const graph::Graph& graph,
                                                             const Hosts& hosts, Survey& survey,
                                                             const backend::Registry& backends,
                                                             cost::Database* database,
                                                             const MeasureOptions& options) {
  std::map<std::string, Chosen> kinds;
  for (std::size_t i = 0; i < hosts.hosts.size(); ++i) {
    const auto& host = hosts.hosts[i];
    if (!survey.hosts[i].worker || host.kind.empty()) continue;
    PENSTOCK_TRY(const auto devices, devices_of(host));
    const double share = share_of(host, devices, devices.front());
    auto& best = kinds[host.kind];
    if (share > best.share) best = {i, devices.front(), share};
  }
  std::mutex turn;
  // Workers of one machine may wait for one another.
  const double least_seconds = kLeastSeconds * static_cast<double>(kinds.size());
  Measuring measuring(graph, backends, database, options, least_seconds, turn);
  std::map<std::string, std::future<cost::NodeCosts>> measured;
  for (const auto& [kind, chosen] : kinds) {
    PENSTOCK_TRY(measured[kind], start_async([&] {
                   const std::scoped_lock lock(turn);
                   return measuring.on(hosts.hosts[chosen.host], *survey.hosts[chosen.host].worker,
                                       chosen.device, chosen.share);
                 }));
  }
  std::map<std::string, cost::NodeCosts> costs;
  for (auto& [kind, of_kind] : measured) costs[kind] = of_kind.get();
  PENSTOCK_CHECK_OK(measuring.first_error());
  return costs;
}

}  // namespace penstock::hosts
