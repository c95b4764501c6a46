// What a synthetic backend is told to do: the file that the environment variable
// PENSTOCK_SYNTHETIC names, read when the plugin is loaded. README.md shows one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/device/topology.h"
#include "penstock/graph/graph.h"

namespace penstock::synthetic {

enum class Kind {
  kCrash,      ///< SIGSEGV.
  kAbort,      ///< abort().
  kExit,       ///< _exit(3), as a library that ends the process.
  kHang,       ///< Never returns, and uses no CPU.
  kEatMemory,  ///< Touches new memory until there is no more, then aborts.
  kRefuse,     ///< kUnimplemented that names the operator. At compile, of an operator that the
               ///< rules claim, this is a backend that lies.
  // Only at run: the outputs are wrong.
  kWrong,    ///< Adds `by` to every floating-point element.
  kZeros,    ///< Nothing but zeros.
  kShifted,  ///< Each channel has what the one before it is due.
  kStale,    ///< What the call before gave.
  kOther,    ///< What the second call before gave.
  kBlock,    ///< A part in the middle has what the first elements have.
  kLastRow,  ///< The last row of several is not computed.
  kBf16,     ///< Rounded to bf16.
  kSwapped,  ///< The first two outputs of equal type change places.
};

struct Fault {
  Kind kind = Kind::kRefuse;
  std::string on = "*";     ///< An operator, a node's name, or "*".
  std::int64_t nodes = 0;   ///< Only of models of so many; 0: of any number.
  bool at_compile = false;  ///< Otherwise in a run.
  std::int64_t after = 0;   ///< Runs of a context (or compilations) that go well before.
  double by = 1;
  std::size_t above = 0;             ///< Only outputs of more elements are wrong.
  std::uint64_t bytes = UINT64_MAX;  ///< Where kEatMemory stops and goes on as if nothing was.
};

/// What a lower precision gives and takes.
struct Lower {
  double speedup = 1;  ///< Of every run.
  double error = 0;    ///< Added to every floating-point element of the outputs.
};

/// A device with memory of its own in place of CPUs: "cuda:0".
struct Accelerator {
  int devices = 1;
  int contexts = 2;           ///< Executable::recommended_contexts().
  double copy_latency = 0;    ///< Seconds of each copy to or from its memory,
  double copy_bandwidth = 0;  ///< beside its bytes at so many a second; 0: without limit.
  std::string name = "made-up accelerator";
  std::string absent;  ///< Why it is not there; empty: it is.
};

/// Where a model runs, and beside what.
struct Spot {
  int threads = 1;
  int cores = 1;      ///< That the threads run on; the rest share a core with a sibling.
  int kind = 0;       ///< device::Cpu::kind, the least of them.
  double caches = 1;  ///< Of last caches: the part that its threads have of all that run there.
  double nodes = 1;   ///< The same of NUMA nodes, and so of memories.
};

/// \pre  the CPUs are of the topology and among the busy ones
Spot spot_of(const device::Topology& topology, const std::vector<int>& cpus,
             const std::vector<int>& busy);

struct Settings {
  std::string version = "1.0";
  std::string unavailable;
  bool whole_graph = true;
  std::string rules = R"({"version": 1, "rule": {"combine": {"all": true}}})";
  std::map<std::string, double> seconds;  ///< Of one run, by operator, node's name, or "*".
  double fusion = 1;            ///< The i-th node of a model, from 0, costs its seconds * fusion^i.
  double seconds_per_call = 0;  ///< Of each run.
  double seconds_per_byte = 0;  ///< Of what enters and leaves a model, constants left out.
  double noise = 0;             ///< A run takes up to this fraction longer, evenly, at random.
  /// What each thread beyond the first adds: time / (1 + (n-1)s). Below 0, more are slower.
  double speedup = 1;
  double sibling = 1;                   ///< What a thread adds, of another, that shares its core.
  std::map<std::string, double> kinds;  ///< Times the seconds on CPUs of that kind ("0").
  double cache = 0;      ///< Bytes of a last cache: weights beyond it are read in each run
  double bandwidth = 0;  ///< by so many bytes a second of each NUMA node's memory; 0: no limit.
  double compile_seconds = 0;
  bool one_place = false;  ///< All its models in one process have the same CPUs, or are refused.
  std::int64_t room = INT64_MAX;  ///< Nodes of all its models in one process: no memory for more.
  std::vector<Fault> faults;
  std::map<std::string, Lower> precisions;  ///< Below f32: "bf16".
  std::optional<Accelerator> accelerator;   ///< All its models run there, and none on CPUs.
  std::filesystem::path log;  ///< "compile NODES" and "run NODES" are appended; empty: nowhere.

  /// Seconds of one run of `model`, noise left out.
  [[nodiscard]] double seconds_of(const graph::Graph& model, const Spot& spot) const;
  /// The same of nodes that take so long on one thread, and of their weights.
  [[nodiscard]] double seconds_of(double nodes, double weight_bytes, const Spot& spot) const;
  /// Of a node, not discounted: its name goes before its operator, that before "*".
  [[nodiscard]] double seconds_of(const graph::Node& node) const;
};

/// \error kInvalidArgument  no JSON, a field that is not known or out of range: says where;
///        kNotFound  the document says nothing of a backend of that name.
Result<Settings> parse_settings(const std::string& json, const std::string& backend);

}  // namespace penstock::synthetic
