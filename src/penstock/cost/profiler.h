// What parts cost, by measurement.
// What is known comes from the database; the rest is measured in a process of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cost/activations.h"
#include "penstock/cost/database.h"
#include "penstock/cost/part.h"
#include "penstock/cost/peaks.h"
#include "penstock/device/device.h"
#include "penstock/device/topology.h"
#include "penstock/graph/subgraph.h"
#include "penstock/graph/weight_store.h"
#include "penstock/tensor/compare.h"

namespace penstock::cost {

class Elsewhere;

/// How long one run may last before a person is told.
inline constexpr std::chrono::seconds kLongRun(10);

/// Looks up, measures what is missing, and keeps it. One thread at a time: others would disturb
/// what is timed, and so would another process, which it does not know of.
class Profiler {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    Clock::time_point deadline = Clock::time_point::max();  ///< Nothing is begun after it.
    std::int64_t most_measurements = INT64_MAX;
    /// What was measured before this profiler was started counts for nothing, but for comparisons
    /// with the reference.
    bool refresh = false;
    double min_seconds = 0.03;  ///< Of timing one part; its compiling comes on top.
    double seconds_per_part = 0.5;
    double silence_seconds = 60;  ///< Compiling or one run for longer is a hang.
    /// Of the measuring process, and no more than nine tenths of what the machine has left when it
    /// starts; 0: those.
    std::uint64_t memory_bytes = 0;
    /// Of the graph that parts are of: their inputs hold these values and have these shapes, as far
    /// as they are kept. Null: random ones.
    const Activations* activations = nullptr;
    /// Of the graph that parts are of: their files have links of it. Null: each its own weights.
    const graph::WeightStore* weights = nullptr;
    /// After each part: how many are known, of how many, and the part.
    std::function<void(std::size_t, std::size_t, const Part&)> on_progress;
    std::function<bool()> stop;                 ///< Asked ten times a second; true ends what runs.
    std::function<void()> on_long_run = [] {};  ///< Of a part, a run has lasted for kLongRun.
    std::function<void(const std::string&)> warn;  ///< Given to Database::go_on_without().
    /// Another machine whose costs are asked for, and that measures them; null: this one. Devices
    /// of parts are named as there.
    std::shared_ptr<Elsewhere> elsewhere;
  };

  /// Borrows all; `database` null: what is measured lives as long as the profiler.
  static Result<std::unique_ptr<Profiler>> start(const backend::Registry& backends,
                                                 Database* database, Options options);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// One for each part, in their order. Empty: neither known nor measured before the deadline, the
  /// count or `stop` ended it. Parts on the same subgraph should stand together: its file is
  /// written once then. A failure that tells of this machine's state and not of the part (no such
  /// engine, no such CPU) is returned and not kept.
  /// \error kInvalidArgument  a part has no model, or a device that is not of this machine
  ///        kUnimplemented    a device that is no CPUs, asked of another machine
  ///        kNotFound, kUnavailable  penstock-measure cannot be found or started
  Result<std::vector<std::optional<Cost>>> measure(std::span<const Part> parts);

  /// Once more, whatever is known: the machine may have had a bad moment.
  Result<std::optional<Cost>> measure_again(const Part& part);

  /// Compares all outputs of all models of the part with those of onnxruntime without optimisation,
  /// over the same random inputs. What the part costs stays known: a larger tolerance may allow it.
  /// \error kCancelled           the deadline or `stop` came first
  ///        kFailedPrecondition  there is no reference: it failed, the message tells why
  Result<Check> check(const Part& part, const std::vector<std::uint64_t>& seeds,
                      const Tolerance& tolerance = {});

  /// From one device of this machine to another. Empty as measure()'s.
  /// \error kInvalidArgument  not two devices of this machine's CPUs
  Result<std::optional<Link>> link(const device::Device& from, const device::Device& to);

  /// Between the host's memory and the one that the backend has for a device that is no CPUs: of
  /// copies to it, or from it. Empty as measure()'s.
  /// \error kInvalidArgument  the device has no memory of its own there; as Memory::copy()
  Result<std::optional<Link>> copies(const std::string& backend, const device::Device& device,
                                     bool to_host);

  /// The most that all CPUs of the device do at once. Empty as measure()'s, and where another
  /// machine is asked whose Penstock cannot tell.
  /// \error kInvalidArgument  no device of this machine's CPUs; kUnimplemented: an accelerator
  Result<std::optional<Peaks>> peaks(const device::Device& device);

  /// Without measuring.
  Result<std::optional<Cost>> find(const Part& part);
  Result<PartKey> key_of(const Part& part);
  /// As keys have it: "onnxruntime" -> "1.31.0, penstock 0.1.0"; empty where it is not there.
  std::string engine_version(const std::string& backend);
  /// Ends the process that measures, until the next part, and removes the files of parts.
  void rest();
  /// The graph is about to go.
  void forget(const graph::Graph& graph);

  /// Whether no more is measured: the time or the count is spent, or `stop` said so.
  [[nodiscard]] bool over() const;
  [[nodiscard]] std::int64_t measured() const;  ///< Jobs that were run, checks among them.
  [[nodiscard]] const device::Topology& topology() const;
  [[nodiscard]] Options& options();  ///< May be changed between calls.
  [[nodiscard]] Database& database();

 private:
  struct State;
  explicit Profiler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::cost
