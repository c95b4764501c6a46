// Whether what came out of a case is what the contract says.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/words.h"
#include "tests/support/contract_caller.h"
#include "tests/support/contract_model.h"
#include "tests/support/contract_plant.h"

namespace penstock::contract {

class Judge {
 public:
  Judge(const Case& given, const Plant& plant, const Seen& seen)
      : given_(given), plant_(plant), seen_(seen), lossy_(plant.lossy()) {
    const bool hasty = given.max_age_us > 0 && given.max_age_us < 1'000'000;
    stops_ = given.stop_at_error;
    for (const auto* list : {&seen.popped, &seen.called}) {
      for (const Popped& out : *list) {
        const bool fails = out.outcome == pipeline::Outcome::kError;
        if (fails) first_error_ = std::min<std::uint64_t>(first_error_, out.number);
      }
    }
    racy_ = lossy_ || seen.cancelled_before > 0 || stops_ || seen.hung > 0 || hasty ||
            given.has(Fault::kHang) || given.past > 0 || given.cancels;
    for (int s = 0; s < std::ssize(given.stages); ++s) {
      const auto hung = [&](const Popped& out) { return hung_in(s, out); };
      const auto told =
          std::ranges::count_if(seen.popped, hung) + std::ranges::count_if(seen.called, hung);
      const auto hang = std::max<std::ptrdiff_t>(told, plant.hangs(s));
      if (hang > given.max_left_behind) exhausted_.push_back(s);
    }
  }

  std::vector<std::string> run() {
    Model::Began began;
    if (racy_) {
      began = [&](int stage, std::int64_t tag) {
        const auto hung = [&](const Popped& out) { return out.tag == tag && hung_in(stage, out); };
        return plant_.began(stage, tag) && std::ranges::none_of(seen_.popped, hung);
      };
    }
    Model model(given_, began);
    const auto expected = model.run(seen_.events);
    if (model.wrong_saves() > 0) add(concat(model.wrong_saves(), " times wrong states were saved"));
    check_numbers();
    if (found_.empty()) {
      for (const auto* list : {&seen_.popped, &seen_.called}) {
        for (const auto& out : *list) {
          const auto& frame = expected[out.number];
          if (const auto problem = judge(out, frame); !problem.empty()) {
            add(concat("frame ", out.number, " (tag ", out.tag, "): ", problem));
          }
        }
      }
    }
    check_calls();
    check_end(expected);
    return found_;
  }

 private:
  void add(std::string text) {
    if (found_.size() < 8) found_.push_back(std::move(text));
  }

  void check_numbers() {
    std::uint64_t next = 0;
    for (const auto& [number, tag] : seen_.pushed) {
      if (number != next++) add(concat("no push got the number ", next - 1));
    }
    auto due = seen_.pushed;
    check_ways_out(due);
    std::size_t pop = 0;
    for (const auto& [number, tag] : seen_.pushed) {
      if (calls_back(given_, tag) || pop == seen_.popped.size()) continue;
      const auto popped = seen_.popped[pop++].number;
      if (popped != number) add(concat("pop ", pop - 1, " gave frame ", popped));
    }
    check_order_of_calls();
    for (const auto& [number, tag] : due) {  // Callbacks are called in any case.
      if (seen_.ended || calls_back(given_, tag)) add(concat("frame ", number, " never came out"));
    }
  }

  // Each once, popped or given to its callback. `due`: what is left then.
  void check_ways_out(std::map<std::uint64_t, std::int64_t>& due) {
    for (const auto* list : {&seen_.popped, &seen_.called}) {
      for (const auto& out : *list) {
        const auto pushed = due.find(out.number);
        if (pushed == due.end() || pushed->second != out.tag) {
          add(concat("frame ", out.number, " came out with tag ", out.tag, " or twice"));
        } else if (calls_back(given_, out.tag) != (list == &seen_.called)) {
          add(concat("frame ", out.number, " came out the other way"));
        } else {
          due.erase(pushed);
        }
      }
    }
  }

  void check_order_of_calls() {
    std::map<std::uint64_t, std::uint64_t> last_of;
    std::uint64_t last = 0;
    for (const auto& out : seen_.called) {
      auto& before = last_of[stream_of(given_, out.tag)];
      if (out.number < before || (in_order(out.tag) && out.number < last)) {
        add(concat("frame ", out.number, " was called back too late"));
      }
      before = out.number;
      if (in_order(out.tag)) last = out.number;
    }
  }

  std::string judge(const Popped& out, const Expected& frame) {
    if (out.stream != stream_of(given_, out.tag)) return "is of another stream";
    if (seen_.cancelled.contains(out.number)) {
      return out.outcome == pipeline::Outcome::kCancelled ? "" : "is not cancelled";
    }
    switch (out.outcome) {
      case pipeline::Outcome::kOk:
        if (!frame.failures.empty()) return "is ok though " + tell(frame);
        if (is_past(given_, out.tag)) return "is ok though its deadline was past";
        return out.outputs == frame.outputs ? "" : "has wrong values: " + differences(out, frame);
      case pipeline::Outcome::kDropped:
        return may_drop(out, frame) ? "" : "dropped: " + out.error.message() + "; " + tell(frame);
      case pipeline::Outcome::kError:
        return may_fail(out, frame) ? "" : "failed: " + out.error.message() + "; " + tell(frame);
      case pipeline::Outcome::kCancelled:
        if (out.error.code != Code::kCancelled) return "cancelled with another code";
        return out.number < seen_.cancelled_before || (stops_ && out.number > first_error_)
                   ? ""
                   : "cancelled by nobody: " + out.error.message();
    }
    return "has no outcome";
  }

  [[nodiscard]] bool ends_by_hang() const {
    return given_.max_left_behind == 0 && !exhausted_.empty();
  }

  // Such a call ends the plan that it is of, and no other.
  [[nodiscard]] bool is_behind_a_hang_of_its_plan(const Popped& out) const {
    const auto is_next = [&](std::uint64_t number) { return number >= seen_.swapped; };
    return std::ranges::any_of(seen_.pushed, [&](const auto& pushed) {
      const auto number = pushed.first;
      return number < out.number && is_next(number) == is_next(out.number) &&
             contains(out.error.message(), concat("frame ", number, ": the call hangs"));
    });
  }

  static bool hung_in(int stage, const Popped& out) {
    const auto told = concat("stage 's", stage, "': frame ", out.number, ": the call hangs");
    return contains(out.error.message(), told);
  }

  static std::string tell(const Expected& frame) {
    if (frame.failures.empty()) return "expected it to be ok";
    return "expected a failure: " + join(frame.failures, " or ", [](const Failure& f) {
             return concat("fault ", static_cast<int>(f.fault), " of stage s", f.stage);
           });
  }

  // Whose value it is instead.
  std::string differences(const Popped& out, const Expected& frame) const {
    std::string text;
    if (frame.outputs.empty()) return "a stage that it needs was never called for it";
    for (std::size_t o = 0; o < frame.outputs.size(); ++o) {
      if (out.outputs[o] == frame.outputs[o]) continue;
      text += concat("output ", Plant::name(given_.outputs[o]), " holds");
      for (const auto word : out.outputs[o]) text += concat(" ", word);
      text += ", expected";
      for (const auto word : frame.outputs[o]) text += concat(" ", word);
      text += "; ";
    }
    return text;
  }

  bool edge_says(const Popped& out, bool error) const {
    const auto& plan = plant_.plan();
    const auto end = [&](int to) -> std::string {
      if (to == plan::kPipelineInput) return "input";
      return to == plan::kPipelineOutput ? "output" : plan.stages[at(to)].name;
    };
    return std::ranges::any_of(plan.edges, [&](const plan::Edge& edge) {
      if (edge.policy == plan::FullPolicy::kBlock) return false;
      if ((edge.policy == plan::FullPolicy::kError) != error) return false;
      const auto text =
          concat("frame ", out.number, ": edge '", end(edge.from), " -> ", join(edge.to, "+", end),
                 "' was full (", counted(edge.capacity, "frame"), "), policy '",
                 plan::to_string(edge.policy), "'");
      // As many frames must have been there before it.
      return contains(out.error.message(), text) &&
             seen_.pushed.size() > static_cast<std::size_t>(edge.capacity);
    });
  }

  bool may_drop(const Popped& out, const Expected& frame) const {
    if (out.error.code != Code::kAborted) return false;
    if (edge_says(out, false)) return true;
    return std::ranges::any_of(frame.failures, [&](const Failure& f) {
      return f.fault == Fault::kDrop && given_.stages[at(f.stage)].function &&
             blames(out, f, "planted");
    });
  }

  bool may_fail(const Popped& out, const Expected& frame) {
    const auto code = out.error.code;
    if (code == Code::kResourceExhausted && edge_says(out, true)) return true;
    if (code == Code::kDeadlineExceeded) {
      if ((given_.max_age_us > 0 || is_past(given_, out.tag)) &&
          contains(out.error.message(), "deadline_exceeded: "))
        return true;
      // A call may take long by the machine's fault too.
      if (!given_.has(Fault::kHang) || !contains(out.error.message(), "the call hangs"))
        return false;
      if (!contains(out.error.message(), "behind a call that hangs")) return true;
      return ends_by_hang() && is_behind_a_hang_of_its_plan(out);
    }
    if (code == Code::kUnavailable) {
      return given_.max_left_behind > 0 && std::ranges::any_of(exhausted_, [&](int s) {
               return contains(out.error.message(),
                               concat("stage 's", s, "': frame ", out.number, ": unavailable: "));
             });
    }
    return std::ranges::any_of(frame.failures, [&](const Failure& f) { return is_of(out, f); });
  }

  [[nodiscard]] bool blames(const Popped& out, const Failure& f, const std::string& cause) const {
    const auto place = concat("stage 's", f.stage, "': frame ", out.number, ": ");
    return contains(out.error.message(), place) && contains(out.error.message(), cause);
  }

  [[nodiscard]] bool is_of(const Popped& out, const Failure& f) const {
    const auto code = out.error.code;
    const auto& made = given_.stages[at(f.stage)];
    switch (f.fault) {
      case Fault::kNone:
        return code == Code::kInvalidArgument && blames(out, f, "expected as many");
      case Fault::kThrowInt:
        return blames(out, f, "exception of unknown type");
      case Fault::kNoMemory:
        return code == Code::kResourceExhausted && blames(out, f, "out of memory");
      case Fault::kDrop:
        return !made.function && blames(out, f, "planted");
      case Fault::kHang:
        return blames(out, f, "came back");
      case Fault::kWrongShape:
      case Fault::kWrongRank:
      case Fault::kWrongType: {
        const auto tensor = Plant::name(given_.first_written(f.stage));
        return blames(out, f, "'" + tensor + (made.in_two ? "_between'" : "'")) &&
               contains(out.error.message(), "expected i64[");
      }
      default:
        return blames(out, f, "planted");
    }
  }

  // Each frame, or item, once in each stage, and again where a call of several failed; in order
  // where the stage has one replica.
  void check_calls() {
    for (int s = 0; s < std::ssize(given_.stages); ++s) {
      const auto& made = given_.stages[at(s)];
      int last = -1;
      for (const auto& [number, tag] : seen_.pushed) {
        if (number == seen_.swapped) last = -1;  // Without states, both plans run at once.
        if (!plant_.began(s, tag)) continue;
        const bool made_again = made.far && given_.direct;  // Where what it made is lost.
        const int tries = made.together > 1 ? 2 : 1;
        const int most = made_again ? INT_MAX : made.each ? kMostItems * tries : tries;
        if (plant_.calls(s, tag) > most) {
          add(concat("stage s", s, " was called ", plant_.calls(s, tag), " times for frame ",
                     number));
        }
        // Where a call of several failed or was lost, they run again behind those in flight.
        const bool overtakes = made.replicas > 1 || made.far || waits_for_remakes(made) ||
                               (made.together > 1 && (made.lanes > 0 || made.accelerators > 0));
        if (!overtakes && plant_.order(s, tag) < last) {
          add(concat("stage s", s, " saw frame ", number, " behind a later one"));
        }
        last = plant_.order(s, tag);
      }
    }
  }

  // Frames come back once what it reads of them is made again.
  [[nodiscard]] bool waits_for_remakes(const StageCase& made) const {
    return given_.direct && std::ranges::any_of(made.reads, [&](int tensor) {
             const int maker = given_.tensors[at(tensor)].producer;
             return maker >= 0 && given_.stages[at(maker)].far;
           });
  }

  // All frames reached the edge in order, and nobody read it meanwhile.
  void check_settled(const plan::Edge& edge) {
    using plan::FullPolicy;
    const bool keeps_first =
        edge.policy == FullPolicy::kDropNewest || edge.policy == FullPolicy::kError;
    const auto holds = static_cast<std::size_t>(edge.capacity);
    const auto count = seen_.popped.size();
    for (std::size_t i = 0; i < count; ++i) {
      const bool kept = keeps_first ? i < holds : i + holds >= count;
      if (kept == (seen_.popped[i].outcome == pipeline::Outcome::kOk)) continue;
      add(concat("frame ", i, " of ", count, kept ? " is not ok" : " is ok", ", policy ",
                 plan::to_string(edge.policy), ", capacity ", holds));
    }
  }

  // For a frame that all stages run for: of each tensor one at most.
  [[nodiscard]] Copies copies_of_frame(int device) const {
    Copies copies;
    const auto is_there = [&](const StageCase& stage) { return stage.accelerators == device + 1; };
    for (int t = 0; t < std::ssize(given_.tensors); ++t) {
      const int producer = given_.tensors[at(t)].producer;
      const bool written = producer >= 0 && is_there(given_.stages[at(producer)]);
      bool there = false, elsewhere = std::ranges::find(given_.outputs, t) != given_.outputs.end();
      for (const auto& stage : given_.stages) {
        if (std::ranges::find(stage.reads, t) == stage.reads.end()) continue;
        (is_there(stage) ? there : elsewhere) = true;
      }
      copies.in += !written && there ? 1 : 0;
      copies.out += written && elsewhere ? 1 : 0;
    }
    return copies;
  }

  // Which device a replica's frames are on, is not told. \pre  every stage ran for every frame
  void check_copies() {
    const auto on_both = [](const StageCase& s) { return s.accelerators == 3; };
    if (std::ranges::any_of(given_.stages, on_both)) return;
    // Parameters and states are copied too when they are set, saved or restored; and through the
    // host's memory what lies apart, and outputs that are states.
    const bool more = std::ranges::any_of(given_.stages, [&](const StageCase& s) {
      const bool gathers = s.together > 1 && !plant_.copies_within();
      return s.accelerators > 0 && (s.parameter || gathers || !given_.states.empty());
    });
    const auto frames = static_cast<int>(seen_.pushed.size());
    for (int device = 0; device < 2; ++device) {
      const auto found = plant_.copies(device);
      const auto each = copies_of_frame(device);
      if (found.in == frames * each.in && found.out == frames * each.out) continue;
      if (more && found.in >= frames * each.in && found.out >= frames * each.out) continue;
      add(concat("device ", device, ": ", found.in, " copies to it, ", found.out, " from it; ",
                 frames, " frames need ", each.in, " and ", each.out, " each"));
    }
  }

  void check_end(const std::vector<Expected>& expected) {
    if (!seen_.ended) return;
    const auto failed = [](const Expected& frame) { return !frame.failures.empty(); };
    if (const auto* edge = plant_.settling();
        edge != nullptr && std::ranges::none_of(expected, failed)) {
      check_settled(*edge);
    }
    std::map<pipeline::Outcome, std::uint64_t> counts;
    std::uint64_t by_edges = 0;
    for (const auto* list : {&seen_.popped, &seen_.called}) {
      for (const auto& out : *list) {
        ++counts[out.outcome];
        const bool own = out.outcome == pipeline::Outcome::kDropped ||  // Others repeat its error.
                         out.outcome == pipeline::Outcome::kError;
        by_edges += own && contains(out.error.message(), "was full (") ? 1 : 0;
      }
    }
    const auto& stats = seen_.stats;
    if (stats.pushed != seen_.pushed.size() ||
        stats.popped != seen_.popped.size() + seen_.called.size() ||
        stats.ok != counts[pipeline::Outcome::kOk] ||
        stats.errors != counts[pipeline::Outcome::kError] ||
        stats.drops != counts[pipeline::Outcome::kDropped] ||
        stats.cancelled != counts[pipeline::Outcome::kCancelled]) {
      add("the statistics of the pipeline do not add up");
    }
    std::uint64_t drops = 0;
    for (const auto& edge : stats.edges) drops += edge.drops;
    if (drops < by_edges || (!lossy_ && drops > 0)) {
      add(concat("edges count ", drops, " drops, ", by_edges, " frames tell of one"));
    }
    const bool all_ok = counts[pipeline::Outcome::kOk] == seen_.pushed.size();
    for (const auto& stage : stats.stages) {
      if (all_ok && stage.frames != seen_.pushed.size() - seen_.swapped.value_or(0)) {
        add(concat("stage ", stage.name, " counts ", stage.frames, " frames"));
      }
    }
    if (all_ok) check_copies();
    const bool fails = counts[pipeline::Outcome::kError] > 0;
    if (stops_ && seen_.cancelled_before == 0 && !fails &&
        counts[pipeline::Outcome::kCancelled] > seen_.cancelled.size()) {
      add("the pipeline stopped at an error that no frame tells");
    }
    if (seen_.shut && seen_.cancelled_before == 0 && given_.end_at > 1000 && !(stops_ && fails) &&
        !ends_by_hang()) {
      add("a push was refused though the pipeline was open");
    }
    const auto certain = [](const Expected& frame) {
      return !frame.failures.empty() && std::ranges::none_of(frame.failures, [](const Failure& f) {
        return f.fault == Fault::kDrop;
      });
    };
    if (stops_ && !lossy_ && seen_.cancelled_before == 0 && seen_.cancelled.empty() && !fails &&
        std::ranges::any_of(expected, certain)) {
      add("no frame failed");
    }
  }

  const Case& given_;
  const Plant& plant_;
  const Seen& seen_;
  const bool lossy_;
  bool stops_ = false, racy_ = false;
  std::uint64_t first_error_ = UINT64_MAX;  // Its frame's number.
  std::vector<int> exhausted_;  // Stages of which perhaps more calls hang than may be left behind.
  std::vector<std::string> found_;
};

}  // namespace penstock::contract
