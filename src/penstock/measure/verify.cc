// Pushes frames until the pipeline is full, then pops each and runs the reference on it.
#include "penstock/measure/verify.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/base/words.h"
#include "penstock/measure/bursts.h"
#include "penstock/measure/slow_runs.h"

namespace penstock::measure {
namespace {

constexpr std::size_t kMostProblems = 5;

/// What is in flight, and what came of it.
class Run {
 public:
  explicit Run(const Verification& setting)
      : setting_(setting), trial_(setting.judge), bursts_(setting.bursts) {}

  Status run() {
    PENSTOCK_CHECK_OK(push_all(setting_.frames, setting_.stopped));
    for (std::size_t i = 0; i < setting_.repeats && may_see_more(setting_.pipeline); ++i) {
      report_.cut_short = ends_repeats();
      if (report_.cut_short) break;
      PENSTOCK_CHECK_OK(repeat_bursts());
    }
    report_.interrupted = setting_.stopped();
    const bool may_ask_again = setting_.judge.is_measured() &&
                               setting_.pipeline.plan().states.empty() && !setting_.stopped();
    if (may_ask_again && trial_.needs_second_look()) setting_.look_again(trial_);
    return {};
  }

  VerifyReport report() {
    report_.verdict = trial_.verdict();
    const bool none = report_.frames > 0 && report_.unjudged == report_.frames;
    for (auto& output : report_.verdict.outputs) {
      if (!none) break;
      output.finding = Finding::kInconclusive;
      output.reason = "no frame was compared";
    }
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool ends_repeats() const { return setting_.stopped() || setting_.out_of_time(); }

  /// So many more, until nothing is in flight.
  Status push_all(std::uint64_t frames, const std::function<bool()>& ends) {
    for (const auto end = number_ + frames; number_ < end && !ends(); ++number_) {
      PENSTOCK_TRY(auto inputs, setting_.frame(number_));
      PENSTOCK_CHECK_OK(end_burst());
      PENSTOCK_CHECK_OK(begin_sequence(number_));
      const auto stream = number_ % setting_.streams;
      PENSTOCK_CHECK_OK(push(inputs, stream));
      waiting_.push_back({std::move(inputs), stream});
    }
    while (!waiting_.empty()) PENSTOCK_CHECK_OK(judge_next());
    return {};
  }

  /// A stage may take the first frames of a burst alone, so that what is left for a call is less
  /// than the burst by one or a few.
  Status repeat_bursts() {
    for (auto& frames : bursts_) ++frames;
    burst_ = 0;
    return push_all(std::accumulate(bursts_.begin(), bursts_.end(), std::uint64_t{0}),
                    [this] { return ends_repeats(); });
  }

  /// A burst that is whole comes out before the next one begins, so that calls are as large as it.
  Status end_burst() {
    if (burst_ == bursts_.size() || waiting_.size() < bursts_[burst_]) return {};
    ++burst_;
    while (!waiting_.empty()) PENSTOCK_CHECK_OK(judge_next());
    return {};
  }

  /// Where one is over, once nothing is in flight.
  Status begin_sequence(std::uint64_t number) {
    const auto length = setting_.sequence * setting_.streams;
    if (length == 0 || number == 0 || number % length != 0) return {};
    while (!waiting_.empty()) PENSTOCK_CHECK_OK(judge_next());
    PENSTOCK_CHECK_OK(setting_.reference.begin_sequence());
    return setting_.pipeline.reset_states();
  }

  Status push(const frames::Frame& inputs, std::uint64_t stream) {
    for (;;) {
      const auto pushed = setting_.pipeline.try_push(inputs, {.stream = stream});
      if (pushed) return {};
      if (pushed.error().code != Code::kDeadlineExceeded) return pushed.error();
      PENSTOCK_CHECK_OK(judge_next());
    }
  }

  Result<std::optional<pipeline::Output>> pop() {
    auto& pipeline = setting_.pipeline;
    if (!setting_.on_long_run) return pipeline.pop();
    const auto is_late = [](const auto& popped) {
      return !popped && popped.error().code == Code::kDeadlineExceeded;
    };
    auto popped = pipeline.pop(setting_.long_run);
    if (!is_late(popped)) return popped;
    setting_.on_long_run();
    popped = pipeline.pop(kLongestRun - setting_.long_run);
    if (is_late(popped)) return endless_run(kLongestRun);
    return popped;
  }

  Status judge_next() {
    PENSTOCK_TRY(const auto popped, pop());
    if (!popped) return internal_error("verify: the pipeline ended with frames in flight");
    if (setting_.ends_at_failure && !popped->ok()) return popped->error();
    const auto [inputs, stream] = std::move(waiting_.front());
    waiting_.pop_front();
    setting_.reference.choose_stream(stream);
    const auto expected = setting_.reference.run(inputs);
    if (expected && popped->ok()) {
      std::vector<const Tensor*> actual;
      for (std::size_t i = 0; i < expected->size(); ++i) actual.push_back(&(*popped)[i]);
      trial_.add(report_.frames, inputs, actual, *expected);
    } else if (popped->outcome() == pipeline::Outcome::kDropped && !expected &&
               expected.error().code == popped->error().code) {
      ++report_.dropped;
    } else {
      note_failure(*popped, expected);
    }
    setting_.progress(++report_.frames);
    return {};
  }

  void note_failure(const pipeline::Output& popped, const Result<std::vector<Tensor>>& expected) {
    if (!expected && setting_.random) return note_unjudged(popped, expected.error());
    if (++report_.failed > kMostProblems) return;
    if (popped.ok()) {
      report_.failures.push_back(concat(
          "frame ", report_.frames,
          ": the reference fails where the pipeline does not: ", expected.error().message()));
      return;
    }
    auto text = popped.error().message();
    if (!expected && popped.outcome() == pipeline::Outcome::kError) {
      text += concat("; the reference fails too: the frame's values of ",
                     with_names("input", setting_.inputs),
                     " or the model are at fault; check the frames (", OptionName::kFrames, ")");
    }
    report_.failures.push_back(std::move(text));
  }

  /// Nobody knows what comes of values that the network does not take.
  void note_unjudged(const pipeline::Output& popped, const Error& error) {
    if (++report_.unjudged > 1) return;
    report_.why_unjudged =
        popped.ok() ? concat("frame ", report_.frames, ": the reference fails: ", error.message())
                    : concat(popped.error().message(), "; the reference fails too");
    const auto advice = frames::advice_on_random(
        popped.ok() ? error : popped.error(), setting_.inputs,
        concat("give frames that come out (", OptionName::kFrames, ")"), setting_.bound);
    report_.why_unjudged += advice;
  }

  /// A frame in flight.
  struct Waiting {
    frames::Frame inputs;
    std::uint64_t stream;
  };

  const Verification& setting_;
  Trial trial_;
  VerifyReport report_;
  std::deque<Waiting> waiting_;
  std::uint64_t number_ = 0;  ///< Of the next frame.
  std::vector<std::size_t> bursts_;
  std::size_t burst_ = 0;  ///< How many are over.
};

}  // namespace

Finding VerifyReport::finding() const {
  if (failed > 0) return Finding::kWrong;
  return unjudged > 0 || compared_none() ? std::max(Finding::kInconclusive, verdict.finding())
                                         : verdict.finding();
}

std::vector<std::string> VerifyReport::problems() const {
  auto all = failures;
  for (const auto& output : verdict.outputs) {
    if (output.finding != Finding::kWrong) continue;
    all.insert(all.end(), output.problems.begin(), output.problems.end());
  }
  if (all.size() > kMostProblems) all.resize(kMostProblems);
  return all;
}

std::uint64_t VerifyReport::problem_count() const {
  auto count = failed;
  for (const auto& output : verdict.outputs) {
    if (output.finding == Finding::kWrong) count += output.frames_differing;
  }
  return count;
}

Result<VerifyReport> verify(const Verification& verification) {
  Run run(verification);
  PENSTOCK_CHECK_OK(run.run());
  return run.report();
}

}  // namespace penstock::measure
