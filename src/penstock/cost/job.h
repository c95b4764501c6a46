// What the planning process asks of penstock-measure, and what it hears: one line of JSON each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"
#include "penstock/cost/peaks.h"
#include "penstock/tensor/compare.h"

namespace penstock::cost {

/// One model of a chain.
struct JobModel {
  std::string name;  ///< For messages.
  std::filesystem::path file;
  std::string backend;
  backend::Precision precision = backend::Precision::kF32;
  bool optimize = true;
  std::map<std::string, std::string> options;
  std::vector<std::filesystem::path> custom_ops;
};

/// Models run one after the other on one thread: tensors pass from each to those behind it by name.
struct Job {
  std::int64_t id = 0;
  std::vector<JobModel> models;
  std::vector<int> cpus;  ///< Where it runs; of a device with memory of its own: its host thread.
  /// "cuda:0", which computes in place of the CPUs; empty: they do. One model, no neighbours; timed
  /// with as many frames in progress as make the most of it.
  std::string device;
  /// Not empty: no models; time copies between the host's memory and the one that the backend of
  /// this name has for `device`.
  std::string memory_of;
  bool to_host = false;  ///< From the device's memory; else to it.
  /// Not empty: no models; time words and bytes from `cpus` to these.
  std::vector<int> link_to;
  /// No models; time the most that `cpus` do.
  bool peaks = false;
  int threads = 1;
  bool flush_denormals = false;
  /// Further instances, each on CPUs of its own, that run without pause meanwhile.
  std::vector<std::vector<int>> neighbours;
  /// Open dimensions of the chain's inputs; what is not named takes its bound, else 1.
  std::map<std::string, std::vector<std::int64_t>> shapes;

  /// Files (.npy) of inputs' values, one for each seed from 0 on, which repeat; others are random.
  std::map<std::string, std::vector<std::filesystem::path>> values;

  /// Time it: rounds until the median is known to 2 %, at least and at most this long. 0: do not.
  double min_seconds = 0;
  double max_seconds = 0;

  /// Run these inputs, and write all outputs of all models, or compare with those that another job
  /// wrote (.npz, names "<seed>/<tensor>").
  std::vector<std::uint64_t> seeds;
  std::filesystem::path write_outputs;
  std::filesystem::path reference;
  Tolerance tolerance;
};

/// The worst value of all compared.
struct JobCheck {
  double worst_ratio = 0;  ///< Of the tolerance.
  bool ok = true;
  std::string output, place;
  std::string problem;  ///< "expected f32[1,2], found f32[1,3]"
};

struct JobReport {
  enum class Event {
    kReady,    ///< The process is up, backends are loaded.
    kAlive,    ///< It goes on: `phase` says with what.
    kDone,     ///< The figures below hold.
    kFailed,   ///< The job failed, the process lives.
    kRefused,  ///< It could not be tried: no such backend, no such CPU. Says nothing of the part.
  };
  std::int64_t id = 0;
  Event event = Event::kAlive;
  std::string phase;  ///< "loaded", "compiled", "ran"; of kFailed: "compile" or "run".
  double seconds = 0, low = 0, high = 0;
  std::int64_t runs = 0;
  std::int64_t neighbours = 0;  ///< That ran meanwhile.
  double bytes_per_second = 0;  ///< Of a link; its latency is `seconds`.
  std::optional<JobCheck> check;
  std::optional<Peaks> peaks;
  Error error;  ///< kFailed, kRefused
};

/// One line without its end.
std::string to_line(const Job& job);
std::string to_line(const JobReport& report);
/// \error kInvalidArgument
Result<Job> parse_job(const std::string& line);
Result<JobReport> parse_report(const std::string& line);

}  // namespace penstock::cost
