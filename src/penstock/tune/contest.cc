// Measures a plan and the best so far in alternating rounds, and keeps scores in the database.
#include "penstock/tune/contest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>

#include <nlohmann/json.hpp>

#include "penstock/base/hash.h"
#include "penstock/base/quantile.h"
#include "penstock/cost/part_keys.h"
#include "penstock/cost/turn.h"
#include "penstock/device/place.h"
#include "penstock/device/topology.h"
#include "penstock/plan/plan_json.h"

namespace penstock::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRounds = 5;      ///< Pairs of turns, each beside the best so far;
constexpr int kSlowRounds = 3;  ///< where a turn has no more frames than it must.
constexpr std::size_t kFewestRounds = 2;
constexpr double kRoundSeconds = 0.1;    ///< Of one turn, at least.
constexpr double kEntryShare = 0.08;     ///< Of the budget, that all turns of a plan may take.
constexpr double kRoundFrames = 12;      ///< And so many frames.
constexpr double kSlowFrame = 1.0 / 60;  ///< Seconds, above which rounds are fewer.
constexpr double kMostMargin = 0.02;     ///< Of the spread by which the best must be beaten.
constexpr double kQueueSeconds = 0.02;   ///< What the frames in flight take together, about.
constexpr double kMostRatio = 1e9;       ///< Of the tolerance; also of what cannot be compared.
constexpr std::size_t kMostNear = 3;     ///< No more than these run once more,
constexpr int kMostChallenges = 8;       ///< Rounds of plans that challenge the best.
constexpr int kMostRunOffs = 48;         ///< nor so often, where they cannot be told apart.

/// Whether what was to start cannot stand beside what runs in this process already: its engine
/// stands once in a process only, or there is no memory for both.
template <typename T>
bool lacks_room(const Result<T>& started) {
  return !started && (started.error().code == Code::kFailedPrecondition ||
                      started.error().code == Code::kResourceExhausted);
}

std::string engines_of(const plan::Plan& plan) {
  std::string text;
  for (const auto& [name, version] : plan.origin.engines) {
    text += concat(text.empty() ? "" : ", ", name, " ", version);
  }
  return text;
}

std::string to_json(const Entry& entry) {
  return Json{{"score", entry.score},
              {"beside", entry.beside},
              {"ratio", entry.ratio},
              {"seconds", entry.seconds},
              {"frames_per_second", entry.way.frames_per_second},
              {"latency_seconds", entry.way.latency_seconds},
              {"spread", entry.way.spread},
              {"worst_ratio", entry.way.worst_ratio},
              {"failure", entry.way.failure},
              {"stage_seconds", entry.stage_seconds},
              {"doubts", entry.doubts},
              {"unseen", entry.unseen}}
      .dump();
}

/// Leaves the entry as it was where the text is another version's.
bool read_json(const std::string& text, Entry& entry) {
  try {
    const auto json = Json::parse(text);
    Entry read = entry;
    json.at("score").get_to(read.score);
    json.at("beside").get_to(read.beside);
    json.at("ratio").get_to(read.ratio);
    read.seconds = json.value("seconds", 0.0);
    json.at("frames_per_second").get_to(read.way.frames_per_second);
    json.at("latency_seconds").get_to(read.way.latency_seconds);
    json.at("spread").get_to(read.way.spread);
    json.at("worst_ratio").get_to(read.way.worst_ratio);
    json.at("failure").get_to(read.way.failure);
    json.at("stage_seconds").get_to(read.stage_seconds);
    json.at("doubts").get_to(read.doubts);
    json.at("unseen").get_to(read.unseen);
    entry = std::move(read);
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

std::string what_of(const plan::Plan& plan) {
  std::string text;
  for (const auto& stage : plan.stages) {
    std::string parts;
    for (const auto& partition : stage.partitions) {
      parts += (parts.empty() ? "" : "+") + partition.backend;
    }
    std::string devices;
    for (const auto& device : stage.devices) {
      devices += (devices.empty() ? "" : ",") + device::to_string(device);
    }
    text += concat(text.empty() ? "" : " | ", parts, " on ", devices);
    if (stage.batch.frames > 1) text += concat(", up to ", stage.batch.frames, " frames in a call");
  }
  return text;
}

}  // namespace

std::string hash_of(plan::Plan plan) {
  plan.prediction = {};
  for (auto& stage : plan.stages) stage.predicted_seconds = 0;
  plan.origin = {};
  return sha256_of(plan::to_json(plan));
}

std::optional<double> score_among(const std::vector<Entry>& entries, const Entry& known) {
  const auto runs = [](const Entry& entry) { return entry.way.failure.empty(); };
  if (!runs(known) || known.beside == kAlone) return known.score;
  if (std::ranges::none_of(entries, runs)) return known.score;
  const auto other = std::ranges::find_if(
      entries, [&](const Entry& entry) { return runs(entry) && entry.way.hash == known.beside; });
  if (other == entries.end()) return std::nullopt;
  return known.ratio * other->score;
}

std::vector<std::size_t> order_of_turns(std::size_t count, int round) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (round % 2 != 0) std::ranges::reverse(order);
  return order;
}

Contest::Contest(Setting setting) : setting_(std::move(setting)) {
  const auto topology = device::read_topology();
  if (!topology) return;
  machine_ = cost::device_key(*topology, {.host = {}, .cpus = device::allowed_cpus(*topology)});
}

Result<Running> Contest::start(plan::Package package) const {
  PENSTOCK_TRY(auto runner, setting_.runners.start(package));
  return Running{std::move(package), std::move(runner), nullptr};
}

cost::PlanKey Contest::key_of(const Entry& entry) const {
  const auto* goal = setting_.goal == Goal::kLatency ? "latency:" : "";
  return {concat(goal, entry.way.hash, " ", setting_.verdict_key), machine_, entry.engines};
}

Result<bool> Contest::take_known(Entry& entry) const {
  if (setting_.refresh) return false;
  PENSTOCK_TRY(const auto row, setting_.database.find(key_of(entry)));
  auto known = entry;
  if (!row || !read_json(row->text, known)) return false;
  const auto score = score_among(entries_, known);
  if (!score) return false;
  entry = std::move(known);
  if (entry.score == *score) return true;
  entry.score = entry.way.frames_per_second = *score;
  if (setting_.goal == Goal::kLatency) entry.way.latency_seconds = 1 / *score;
  return true;
}

void Contest::keep(const Entry& entry) {
  // What failed without a verdict may have failed because of what ran beside it.
  if (!entry.way.failure.empty() && entry.way.worst_ratio <= 0) return;
  // A later build may have the time to see more.
  if (entry.cut_short) return;
  // A row that the database does not take must not lose the run.
  (void)setting_.database.put(key_of(entry), {{entry.way.frames_per_second}, to_json(entry)});
}

Result<std::size_t> Contest::enter(Contestant contestant) {
  Entry entry;
  entry.way.name = contestant.name;
  entry.contestant = std::move(contestant);
  auto package = setting_.runners.pack(entry.contestant);
  if (!package) {
    entry.way.failure = package.error().message();
  } else {
    entry.way.hash = hash_of(package->plan);
    entry.way.what = what_of(package->plan);
    entry.complexity = complexity_of(package->plan);
    const auto same = std::ranges::find(entries_, entry.way.hash,
                                        [](const Entry& other) { return other.way.hash; });
    if (same != entries_.end()) return static_cast<std::size_t>(same - entries_.begin());
    entry.engines = engines_of(package->plan);
    PENSTOCK_TRY(const bool known, take_known(entry));
    if (!known) {
      setting_.say("measuring '" + entry.way.name + "'");
      const double begin = setting_.budget.spent();
      PENSTOCK_CHECK_OK(measure(entry, *std::move(package)));
      entry.seconds = setting_.budget.spent() - begin;
      keep(entry);
    }
    entry_seconds_ = std::max(entry_seconds_, entry.seconds);
  }
  entries_.push_back(std::move(entry));
  const auto place = entries_.size() - 1;
  const auto& added = entries_.back();
  if (!beats_best(added)) return place;
  best_ = place;
  // race() has kept it running, unless the database knew it.
  if (running_best_ && hash_of(running_best_->package.plan) != added.way.hash)
    running_best_.reset();
  return place;
}

bool Contest::beats_best(const Entry& entry) const {
  if (!entry.way.failure.empty()) return false;
  if (!best_) return true;
  const double margin = std::clamp(entry.way.spread, kLeastMargin, kMostMargin);
  return entry.score > entries_[*best_].score * (1 + margin);
}

void Contest::add_side(Running& running, double frame_seconds) const {
  std::size_t computed = 0;  // Frames, at once.
  for (const auto& stage : running.package.plan.stages) {
    computed += stage.devices.size() * static_cast<std::size_t>(stage.batch.frames);
  }
  const bool slow = rounds_for(frame_seconds) == kSlowRounds;  // Then a deep queue costs time.
  const auto least = static_cast<double>((slow ? 2 : 4) * computed);
  const auto wanted = setting_.goal == Goal::kLatency
                          ? 1
                          : static_cast<int>(std::clamp(kQueueSeconds / frame_seconds, least,
                                                        std::max(least, 64.0)));
  running.side = running.runner->side(wanted);
}

measure::Round Contest::round_for(double frame_seconds) const {
  const double most =
      std::max(kRoundSeconds, setting_.budget.seconds() * kEntryShare / (2 * kRounds));
  const double seconds = std::clamp(kRoundFrames * frame_seconds, kRoundSeconds, most);
  const auto to_ns = [](double value) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(value));
  };
  return {to_ns(seconds * 0.3), to_ns(seconds), setting_.stopped};
}

int Contest::rounds_for(double frame_seconds) {
  return frame_seconds > kSlowFrame ? kSlowRounds : kRounds;
}

Status Contest::measure(Entry& entry, plan::Package package) {
  ++measured_;
  if (setting_.one_at_a_time) rest();
  auto running = start(package);
  if (lacks_room(running) && running_best_) {
    running_best_.reset();
    running = start(std::move(package));
  }
  if (!running) {
    entry.lacks_room = lacks_room(running);
    entry.way.failure = running.error().message();
    return {};
  }
  const double begin = setting_.budget.spent();
  const auto judged = running->runner->judge();
  if (!judged) {
    entry.way.failure = judged.error().message();
    return {};
  }
  if (judged->interrupted) return make_error(Code::kCancelled, "stopped");
  entry.unseen = judged->warnings;
  entry.cut_short = judged->cut_short;
  const auto& verdict = judged->verdict;
  for (const auto& output : verdict.outputs) {
    const double ratio = std::min(output.worst_ratio, kMostRatio);
    entry.way.worst_ratio = std::max(entry.way.worst_ratio, ratio);
  }
  entry.doubts = verdict.doubts();
  if (verdict.finding() == measure::Finding::kWrong) {
    entry.way.failure = "wrong output: " + verdict.reason(measure::Finding::kWrong);
    return {};
  }
  // The gate's frames went through one by one: their time says how many to keep in flight.
  const double frame_seconds =
      (setting_.budget.spent() - begin) / static_cast<double>(judged->frames);
  add_side(*running, frame_seconds);
  return race(entry, *running, frame_seconds);
}

double Contest::score_of(measure::Sample& sample) const {
  if (setting_.goal != Goal::kLatency) return sample.frames_per_second;
  return 1e9 / quantile(sample.latencies_ns, 0.5);
}

Status Contest::race(Entry& entry, Running& running, double frame_seconds) {
  const auto turn = cost::Turn::wait(setting_.database.file(), setting_.stopped);
  const auto round = round_for(frame_seconds);
  Running* leader = nullptr;
  if (!setting_.one_at_a_time) {
    if (auto started = run_best(true)) {
      leader = *started;
    } else if (!lacks_room(started)) {  // Else each runs alone.
      return std::move(started).error();
    }
  }
  std::vector<double> scores, ratios;
  for (int i = 0; i < rounds_for(frame_seconds); ++i) {
    double leader_score = 0, own_score = 0;
    for (const auto whose : order_of_turns(2, i)) {
      const bool is_leader = whose == 0;
      if (is_leader && leader == nullptr) continue;
      auto sample = (is_leader ? *leader : running).side->measure(round);
      if (sample) {
        (is_leader ? leader_score : own_score) = score_of(*sample);
        continue;
      }
      if (sample.error().code == Code::kCancelled) return std::move(sample).error();
      if (!is_leader) {
        entry.way.failure = sample.error().message();
        return {};
      }
      refuse(*best_, sample.error().message());  // And go on alone.
      leader = nullptr;
      own_score = 0;
      break;
    }
    if (own_score == 0) {
      scores.clear();
      ratios.clear();
      i = -1;
      continue;
    }
    scores.push_back(own_score);
    if (leader_score > 0) ratios.push_back(own_score / leader_score);
    if (setting_.stopped()) return make_error(Code::kCancelled, "stopped");
    // One round may be slow because the machine was.
    if (ratios.size() == kFewestRounds && std::ranges::max(ratios) < kNear) break;
  }
  if (!ratios.empty()) {
    entry.beside = entries_[*best_].way.hash;
    entry.ratio = median(ratios);
  } else if (best_) {
    entry.beside = kAlone;
  }
  // Beside the best so far, the machine's mood falls on both alike.
  entry.score = ratios.empty() ? median(scores) : median(ratios) * entries_[*best_].score;
  entry.way.spread = spread(ratios.empty() ? scores : ratios);
  entry.way.frames_per_second = entry.score;
  if (setting_.goal == Goal::kLatency) entry.way.latency_seconds = 1 / entry.score;
  entry.stage_seconds = running.runner->stage_seconds();
  if (beats_best(entry) && !setting_.one_at_a_time) running_best_ = std::move(running);
  return {};
}

bool Contest::is_near_best(std::size_t entry) const {
  return entries_[entry].way.failure.empty() &&
         entries_[entry].score > kNear * entries_[*best_].score;
}

/// The best one first.
std::vector<std::size_t> Contest::near_best() const {
  std::vector<std::size_t> near;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (i != *best_ && is_near_best(i)) near.push_back(i);
  }
  std::ranges::sort(near, std::greater{}, [&](std::size_t i) { return entries_[i].score; });
  near.insert(near.begin(), *best_);
  if (near.size() <= kMostNear) return near;
  const auto simplest =
      std::ranges::min_element(near, {}, [&](std::size_t i) { return entries_[i].complexity; });
  const bool is_in = simplest - near.begin() < static_cast<std::ptrdiff_t>(kMostNear);
  if (!is_in) near[kMostNear - 1] = *simplest;
  near.resize(kMostNear);
  return near;
}

std::vector<Complexity> Contest::complexities_of(const std::vector<std::size_t>& entries) const {
  std::vector<Complexity> all;
  for (const auto i : entries) all.push_back(entries_[i].complexity);
  return all;
}

void Contest::refuse(std::size_t entry, const std::string& failure) {
  entries_[entry].way.failure = failure;
  doubt_.clear();  // Of plans that may be out now.
  if (best_ != entry) return;
  best_.reset();
  running_best_.reset();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].way.failure.empty()) continue;
    if (!best_ || entries_[i].score > entries_[*best_].score) best_ = i;
  }
}

Status Contest::run_off(double seconds) {
  const auto near = near_best();
  if (near.size() < 2) return {};
  return decide(near, std::min(kMostRunOffs, rounds_within(seconds, near.size())));
}

/// Of so many plans in turn, which have to be compiled first.
int Contest::rounds_within(double seconds, std::size_t count) const {
  const auto round = round_for(1 / entries_[*best_].score);
  const double turn = std::chrono::duration<double>(round.warm_up + round.measured).count();
  return static_cast<int>(seconds / static_cast<double>(count) / turn - start_seconds() / turn);
}

Status Contest::challenge(const std::vector<std::size_t>& rivals, double seconds) {
  if (!best_) return {};
  std::vector<std::size_t> contenders{*best_};
  for (const auto i : rivals) {
    const bool is_in = std::ranges::find(contenders, i) != contenders.end();
    if (!is_in && entries_[i].way.failure.empty()) contenders.push_back(i);
  }
  if (contenders.size() < 2 || setting_.one_at_a_time) return {};
  for (const auto i : contenders) {
    setting_.say("measuring '" + entries_[i].way.name + "' once more");
  }
  const int rounds = rounds_within(seconds, contenders.size());
  return decide(contenders, std::clamp(rounds, kSlowRounds, kMostChallenges));
}

Status Contest::decide(std::vector<std::size_t> contenders, int rounds) {
  if (rounds < kSlowRounds || setting_.one_at_a_time) return {};
  PENSTOCK_TRY(const auto ratios, compare(contenders, rounds));
  if (!ratios) {
    std::vector<std::size_t> rest;
    std::ranges::copy_if(contenders, std::back_inserter(rest), [this](std::size_t i) {
      return entries_[i].way.failure.empty() && i != *best_;
    });
    if (rest.empty()) return {};
    rest.insert(rest.begin(), *best_);
    return decide(rest, rounds);
  }
  renew(contenders, *ratios);
  const auto chosen = choose(*ratios, complexities_of(contenders));
  tell_doubt(contenders, *ratios, chosen);
  if (chosen == 0) return {};
  best_ = contenders[chosen];
  running_best_.reset();
  return {};
}

/// By their rounds in turn with the first, for later contests too.
void Contest::renew(const std::vector<std::size_t>& of,
                    const std::vector<std::vector<double>>& ratios) {
  const double score = entries_[of.front()].score;
  for (std::size_t i = 0; i < of.size(); ++i) {
    auto& entry = entries_[of[i]];
    entry.score = entry.way.frames_per_second = median(ratios[i]) * score;
    if (setting_.goal == Goal::kLatency) entry.way.latency_seconds = 1 / entry.score;
  }
  for (const auto i : of) {
    auto& entry = entries_[i];
    const auto other =
        std::ranges::find(entries_, entry.beside, [](const Entry& any) { return any.way.hash; });
    if (other != entries_.end() && other->way.failure.empty()) {
      entry.ratio = entry.score / other->score;
    }
    keep(entry);
  }
}

/// What stays open of a decision, once the rounds or the time are used up.
void Contest::tell_doubt(const std::vector<std::size_t>& contenders,
                         const std::vector<std::vector<double>>& ratios, std::size_t chosen) {
  doubt_.clear();
  const auto doubt = doubt_of(ratios, chosen);
  if (!doubt) return;
  const auto percent = [](double ratio) { return std::lround(ratio * 100); };
  const auto& taken = entries_[contenders[chosen]];
  const auto& other = entries_[contenders[doubt->other]];
  const bool simpler = taken.complexity < other.complexity;
  doubt_ = concat("too close to tell: '", other.way.name, "' does ", percent(doubt->low), " to ",
                  percent(doubt->high), " % of what '", taken.way.name, "' does, by ",
                  ratios.front().size(), " rounds in turn",
                  simpler ? "; the simpler of the two is taken" : "");
}

Result<std::optional<std::vector<std::vector<double>>>> Contest::compare(
    std::vector<std::size_t>& entries, int rounds) {
  using Ratios = std::optional<std::vector<std::vector<double>>>;
  const auto fail = [&](std::size_t i, Error error) -> Result<Ratios> {
    if (error.code == Code::kCancelled) return error;
    refuse(entries[i], error.message());
    return Ratios();
  };
  PENSTOCK_TRY(const auto* const best, run_best(false));
  if (best == nullptr || *best_ != entries.front()) return Ratios();
  std::vector<Running> others;
  for (std::size_t i = 1; i < entries.size();) {
    PENSTOCK_TRY(auto package, setting_.runners.pack(entries_[entries[i]].contestant));
    auto running = start(std::move(package));
    if (lacks_room(running)) {
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (!running) return fail(i, std::move(running).error());
    // With frames enough even where it was judged too slow.
    add_side(*running, 1 / std::max(entries_[entries[i]].score, entries_[*best_].score));
    others.push_back(*std::move(running));
    ++i;
  }
  if (others.empty()) return Ratios(std::vector(1, std::vector{1.0}));
  const auto turn = cost::Turn::wait(setting_.database.file(), setting_.stopped);
  const auto round = round_for(1 / entries_[*best_].score);
  std::vector<std::vector<double>> ratios(entries.size());
  const auto complexities = complexities_of(entries);
  for (int number = 0; number < rounds; ++number) {
    std::vector<double> scores(entries.size());
    for (const auto i : order_of_turns(entries.size(), number)) {
      auto& side = i == 0 ? *running_best_->side : *others[i - 1].side;
      auto sample = side.measure(round);
      if (!sample) return fail(i, std::move(sample).error());
      if (setting_.stopped()) return make_error(Code::kCancelled, "stopped");
      scores[i] = score_of(*sample);
    }
    for (std::size_t i = 0; i < scores.size(); ++i) ratios[i].push_back(scores[i] / scores[0]);
    if (number + 1 >= kSlowRounds && !doubt_of(ratios, choose(ratios, complexities))) break;
  }
  return Ratios(std::move(ratios));
}

Result<Running*> Contest::run_best(bool beside_others) {
  while (best_ && !running_best_) {
    PENSTOCK_TRY(auto package, setting_.runners.pack(entries_[*best_].contestant));
    auto running = start(std::move(package));
    if (running) {
      running_best_ = *std::move(running);
      add_side(*running_best_, 1 / entries_[*best_].score);
    } else if ((lacks_room(running) && beside_others) || running.error().code == Code::kCancelled) {
      return std::move(running).error();
    } else {
      entries_[*best_].lacks_room = lacks_room(running);
      refuse(*best_, running.error().message());
    }
  }
  return running_best_ ? &*running_best_ : nullptr;
}

}  // namespace penstock::tune
