// What was measured, kept: a SQLite file shared by processes, and by builds that were killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/peaks.h"

namespace penstock::cost {

enum class FailureKind {
  kCompile,      ///< The engine refused the model.
  kRun,          ///< It compiled, and a run ended with an error.
  kCrash,        ///< A signal ended the process.
  kHang,         ///< Compiling or one run took longer than allowed.
  kOutOfMemory,  ///< It wanted more memory than there was.
  kWrongOutput,  ///< Outside the tolerance around the reference.
};

/// Whether what a part was given, seconds or bytes, was not enough: with more it may do.
constexpr bool wants_more(FailureKind kind) {
  return kind == FailureKind::kHang || kind == FailureKind::kOutOfMemory;
}

/// "compile", "run", "crash", "hang", "out_of_memory", "wrong_output"
std::string_view to_string(FailureKind kind);
std::optional<FailureKind> parse_failure_kind(std::string_view text);

struct Failure {
  FailureKind kind = FailureKind::kCompile;
  std::string message;  ///< One sentence: "killed by SIGSEGV while it compiled".
  bool operator==(const Failure&) const = default;
};

/// What a part takes, or why it cannot be had.
struct Cost {
  double seconds = 0;  ///< Of one run: the median of the rounds.
  double low = 0;  ///< 95 % confidence interval of the median; of a failure that wants_more(), what
                   ///< it was given: seconds, or bytes (0: not known).
  double high = 0;
  std::int64_t runs = 0;
  std::optional<Failure> failure;  ///< Then the other figures mean nothing.
  std::string remark = {};  ///< In what it was measured otherwise than asked; empty: in nothing.
  bool operator==(const Cost&) const = default;
};

/// What a measurement depends on.
struct PartKey {
  std::string model;      ///< graph::canonical_hash(), weights' contents included.
  std::string structure;  ///< graph::Hasher with kTypes: the same but for weights' contents.
  std::string inputs;     ///< Types of the inputs as bound: "f32[1,3,224,224],i64[1]".
  std::string precision;  ///< "f32"
  std::string backend;    ///< Of a chain: joined by '+'.
  std::string engine;     ///< Its version and Penstock's, joined alike.
  std::string device;     ///< device_key()
  int threads = 1;
  std::string condition = "alone";  ///< condition_of()
  std::string options;              ///< "key=value;...", flush_denormals among them; sorted.
  bool operator==(const PartKey&) const = default;
};

/// A comparison with the reference run.
struct CheckKey {
  std::string model, inputs, precision, backend, engine;
  std::string reference;  ///< The reference engine: "onnxruntime 1.31.0".
  std::string device;
  int threads = 1;
  std::string options;
  std::string seeds;      ///< "0,1,2"
  std::string tolerance;  ///< "1e-03|e|+1e-05max,1"
  bool operator==(const CheckKey&) const = default;
};

struct Check {
  double worst_ratio = 0;  ///< Of the tolerance; 1 and below is within.
  std::string output;      ///< The tensor of that value.
  std::string place;       ///< "seed 1 [0,3,17]"
  std::optional<Failure> failure;
  [[nodiscard]] bool ok() const { return !failure; }
  bool operator==(const Check&) const = default;
};

/// A tensor handed from one backend to another on one thread.
struct BoundaryKey {
  std::string source, source_engine, target, target_engine;
  std::string layout = "plain";
  std::int64_t bytes = 0;
  std::string device;
  bool operator==(const BoundaryKey&) const = default;
};

struct Boundary {
  double seconds = 0;      ///< Beyond the sum of the two parts measured by themselves; may be < 0.
  double cut_seconds = 0;  ///< Beyond both in one call of one engine; may be < 0.
  std::int64_t runs = 0;
  std::optional<Failure> failure;
  bool operator==(const Boundary&) const = default;
};

/// Moving bytes from one device of this machine to another.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  bool operator==(const Link&) const = default;
};

/// A plan run end to end.
struct PlanKey {
  std::string plan;     ///< The plan's hash.
  std::string device;   ///< device::Topology::fingerprint, or device_key().
  std::string engines;  ///< "onnxruntime 1.31.0, openvino 2026.4.1"
  bool operator==(const PlanKey&) const = default;
};

struct PlanResult {
  std::vector<double> frames_per_second;  ///< One for each round, in the order of measuring.
  std::string text;                       ///< Whatever its maker wants back.
  bool operator==(const PlanResult&) const = default;
};

/// Rows that `penstock costs` speaks of. What is left out matches all.
struct Filter {
  std::string backend;  ///< Exactly; a chain or a boundary that has it among its own too.
  std::string model;    ///< The beginning of a model's or a plan's hash.
  bool failed = false;  ///< Only failures.
};

struct ImportCount {
  std::int64_t added = 0;
  std::int64_t kept = 0;  ///< Were there already and stay as they were.
};

/// One thread at a time; several processes may have the same file open. A row is one transaction:
/// a process that is killed loses no more than what it was measuring.
class Database {
 public:
  /// $PENSTOCK_COSTS, else penstock/costs.db in $XDG_CACHE_HOME, else in ~/.cache; empty: no home.
  static std::filesystem::path default_path();

  /// Opens, and makes where it is missing, the file and its folder. A file that cannot be written
  /// can be read.
  /// \error kDataLoss           no SQLite database, or a damaged one
  ///        kFailedPrecondition another program's, or of a newer Penstock
  ///        kPermissionDenied   it can neither be made nor read
  ///        kUnavailable        another process keeps it locked
  static Result<Database> open(const std::filesystem::path& file);
  /// Lives as long as the object: where no file can be had.
  static Result<Database> in_memory();

  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  [[nodiscard]] const std::filesystem::path& file() const;
  /// From now on a file that cannot be read or written any more is no error of find() and put():
  /// `warn` is told why, once, and what is put then lives as long as the object. A file that cannot
  /// be read is left alone from then on.
  void go_on_without(std::function<void(const std::string&)> warn);

  /// By the model's hash, else by its structure; a wrong output only by the former.
  Result<std::optional<Cost>> find(const PartKey& key);
  Result<std::optional<Check>> find(const CheckKey& key);
  Result<std::optional<Boundary>> find(const BoundaryKey& key);
  Result<std::optional<PlanResult>> find(const PlanKey& key);
  /// Seconds since 1970.
  Result<std::optional<std::int64_t>> measured_at(const PlanKey& key);
  Result<std::optional<Link>> find_link(const std::string& source, const std::string& target,
                                        const std::string& device);
  /// Of the CPUs of a device_key().
  Result<std::optional<Peaks>> find_peaks(const std::string& device);

  /// Replaces what is there. \error kInvalidArgument  a figure is negative or not finite;
  /// kPermissionDenied, kResourceExhausted, kUnavailable  it cannot be written
  Status put(const PartKey& key, const Cost& cost, const std::string& name = "");
  Status put(const CheckKey& key, const Check& check, const std::string& name = "");
  Status put(const BoundaryKey& key, const Boundary& boundary);
  Status put(const PlanKey& key, const PlanResult& result);
  Status put_link(const std::string& source, const std::string& target, const std::string& device,
                  const Link& link);
  Status put_peaks(const std::string& device, const Peaks& peaks);

  /// The rows that match, as a JSON text that import_text() reads.
  Result<std::string> export_text(const Filter& filter);
  /// All rows or none; rows that are there already stay.
  /// \error kInvalidArgument  no such text: names the place
  Result<ImportCount> import_text(const std::string& text);
  /// \returns how many rows went.
  Result<std::int64_t> forget(const Filter& filter);

 private:
  struct State;
  explicit Database(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::cost
