// Simple: what a user would have tried without a plan, run beside the best one.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cost/profiler.h"
#include "penstock/measure/rounds.h"
#include "penstock/measure/side.h"
#include "penstock/tune/build.h"
#include "penstock/tune/contest.h"
#include "penstock/tune/report.h"
#include "penstock/tune/room.h"
#include "penstock/tune/shortlist.h"
#include "penstock/tune/way.h"

namespace penstock::tune {

/// A way of running the file as it is, in f32.
struct SimpleWay {
  std::string_view name;  ///< "onnxruntime-per-core"
  std::string_view backend;
  bool on_each_device;    ///< As a plan does that on each device; else as one on all CPUs.
  std::string_view hint;  ///< OpenVINO's; empty: none.
};

/// Borrows what it is made with. One thread.
class Simple {
 public:
  struct Setting {
    const graph::Graph& graph;
    const std::filesystem::path& file;  ///< Of the model as it is.
    const Options& options;
    const std::vector<device::Device>& devices;
    const backend::Registry& backends;
    cost::Profiler& profiler;
    cost::Database& database;
    const measure::Ring& ring;
    const plan::Package& package;  ///< Of the whole network: the order of its inputs, its states.
    const Room& room;
    const Budget& budget;
    Shortlist& shortlist;
  };
  explicit Simple(const Setting& setting) : setting_(setting) {}

  /// The reference once in a process of its own, where the database does not know how that ends.
  /// \error kFailedPrecondition  it crashes; and those of the profiler
  Status check_reference();
  /// ONNX Runtime's default in the same way: what fails there is left out of run_beside().
  Status rehearse_first();
  /// The other ways in the same way, those that leave `rest` seconds for what follows, beside the
  /// comparison's own starts.
  Status rehearse_others(double rest);
  /// As far as rehearse() has seen.
  [[nodiscard]] bool runs(std::string_view way) const {
    return !failed_.contains(std::string(way));
  }

  /// Where there is no room for all of them at once: each by itself, one after the other; then
  /// run_beside() runs the plan alone. Nothing else may run meanwhile. \error kCancelled
  Status run_alone(double seconds, int rounds);

  /// In turn with a plan that runs; one that fails is there with its reason. Where that is the
  /// plan, nothing else was measured. \error kCancelled, or of this process.
  Result<Comparison> run_beside(Running& plan, double seconds, int rounds);
  /// The engines of the simple ways go, until the next run_beside().
  void rest() { sides_.reset(); }
  /// Whether they have to run one after the other.
  [[nodiscard]] bool is_one_at_a_time() const;
  /// About what starting them takes, all that run and took over Shortlist::kCheapSeconds to try.
  [[nodiscard]] double start_seconds() const;

 private:
  using Clock = cost::Profiler::Clock;
  Status rehearse(const SimpleWay& way, Clock::time_point deadline);
  Result<std::optional<cost::Cost>> cost_of(const cost::Part& part, Clock::time_point deadline);
  [[nodiscard]] double start_seconds(const SimpleWay& way) const;
  void keep_within(double seconds);
  void leave_out(const SimpleWay& way);
  [[nodiscard]] std::size_t copies_of(const SimpleWay& way) const;
  [[nodiscard]] WayReport run_alone(const SimpleWay& way, const measure::Rounds& rounds) const;
  [[nodiscard]] Status keep_to_cpus() const;
  [[nodiscard]] measure::PlainRequest request(const plan::Package& package,
                                              const std::map<std::string, Error>& left_out) const;

  /// A model with bound inputs lies where the user did not put it.
  [[nodiscard]] std::string in_users_words(std::string text) const;

  Setting setting_;
  std::map<std::string, Error> failed_;                   ///< By name.
  std::map<std::string, std::string, std::less<>> hung_;  ///< By backend, the first way's name.
  std::map<std::string, double> took_;        ///< Seconds of each way's rehearsal, by name.
  std::optional<measure::PlainSides> sides_;  ///< Compiled for the first comparison.
  std::vector<WayReport> alone_;              ///< Of run_alone().
};

inline constexpr double kAhead = 1.02;  ///< So far before the plan is no noise.

/// What was measured in rounds, in a way's own terms.
void note_rounds(measure::Measured& side, bool latency, WayReport& way);

/// Whether the simple way of that name runs by a backend that a plan may have.
bool may_be_chosen(std::string_view name, const std::vector<Way>& ways);

/// The best of those whose backend may be chosen, where it passes the plan by more than noise. None
/// of those that a plan would do alike as one that was answered.
std::optional<SimpleWay> better_than_plan(const Comparison& comparison,
                                          const std::vector<Way>& ways, bool latency,
                                          const std::vector<SimpleWay>& answered = {});

}  // namespace penstock::tune
