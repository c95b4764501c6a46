// Reads the statistics each second, asks Choice for a better plan, and starts it within a budget.
#include "penstock/follow/tuner.h"

#include <algorithm>
#include <exception>
#include <new>
#include <set>
#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/base/quantile.h"
#include "penstock/base/thread.h"
#include "penstock/device/affinity.h"
#include "penstock/follow/merge.h"
#include "penstock/follow/replan.h"
#include "penstock/follow/variants.h"
#include "penstock/pipeline/fits.h"

namespace penstock::follow {
namespace {

constexpr std::chrono::seconds kLookInterval{1};
constexpr std::size_t kLearningLooks = 3;
constexpr double kFull = 0.8;           ///< Load of the busiest stage of a pipeline that is full.
constexpr double kCreditSeconds = 600;  ///< Ahead of which starting plans may spend their share.

std::set<int> cpus_of(const plan::Plan& plan) {
  std::set<int> cpus;
  for (const auto& stage : plan.stages) {
    for (const auto& device : stage.devices) cpus.insert(device.cpus.begin(), device.cpus.end());
  }
  return cpus;
}

/// By instance: seconds of a frame between the two; 0: there was none.
std::vector<double> seconds_of(const pipeline::StageStats& now,
                               const pipeline::StageStats& before) {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < std::min(now.instances.size(), before.instances.size()); ++i) {
    const auto &late = now.instances[i], &early = before.instances[i];
    const auto frames = static_cast<double>(late.frames - early.frames);
    seconds.push_back(frames > 0 ? (late.infer_ns - early.infer_ns) / frames / 1e9 : 0);
  }
  return seconds;
}

/// Of the same plan, in that order.
Look look_between(const pipeline::Stats& before, const pipeline::Stats& now, double seconds) {
  Look look;
  look.frames_per_second = static_cast<double>(now.ok - before.ok) / seconds;
  for (std::size_t i = 0; i < now.stages.size(); ++i) {
    const auto &late = now.stages[i], &early = before.stages[i];
    look.seconds.push_back(seconds_of(late, early));
    const double load = (late.busy_ns - early.busy_ns) / 1e9 / seconds / late.replicas;
    look.full = look.full || load > kFull;
  }
  return look;
}

bool foretells(const plan::Plan& plan) {
  return std::ranges::all_of(plan.stages, [](const auto& s) { return s.predicted_seconds > 0; });
}

std::vector<double> foretold(const plan::Plan& plan) {
  std::vector<double> seconds;
  for (const auto& stage : plan.stages) seconds.push_back(stage.predicted_seconds);
  return seconds;
}

/// "0+1|2 x 1": which stages of the plan that ran first are one, and how many CPUs a device has.
std::string family_of(const std::vector<std::vector<std::size_t>>& from, const plan::Plan& plan) {
  const auto stages = join(from, "|", [](const std::vector<std::size_t>& of) {
    return join(of, "+", [](std::size_t stage) { return std::to_string(stage); });
  });
  return concat(stages, " x ", plan.stages.front().devices.front().cpus.size());
}

struct Watched {
  std::mutex mutex;
  std::set<const pipeline::Pipeline*> pipelines;
};

/// By any tuner of the process.
Watched& watched() {
  static auto* const all = new Watched;  // A tuner may end after the program's statics.
  return *all;
}

/// For the tuner alone, until the last reference goes; null: another one has it.
std::shared_ptr<const void> claim(const pipeline::Pipeline* pipeline) {
  {
    const std::scoped_lock lock(watched().mutex);
    if (!watched().pipelines.insert(pipeline).second) return nullptr;
  }
  return {pipeline, [](const pipeline::Pipeline* of) {
            const std::scoped_lock lock(watched().mutex);
            watched().pipelines.erase(of);
          }};
}

}  // namespace

Result<std::unique_ptr<Tuner>> Tuner::start(std::shared_ptr<pipeline::Pipeline> pipeline,
                                            plan::Package package, Setting setting) {
  if (!(setting.share >= kLeastShare && setting.share <= kMostShare)) {
    return invalid_argument("share: expected ", kLeastShare, " to ", kMostShare,
                            " of the machine's time, found ", setting.share);
  }
  for (const auto& other : setting.others) {
    if (const auto fits = pipeline::check_fits(*pipeline->shared_plan(), other.plan); !fits) {
      return Error(fits.error()).within(concat("package '", other.folder.string(), "'"));
    }
    if (foretells(other.plan)) continue;
    return invalid_argument(
        "package '", other.folder.string(),
        "': its plan does not tell what its stages take (predicted_seconds); "
        "'penstock build' writes packages that do, where a call takes one frame");
  }
  auto claimed = claim(pipeline.get());
  if (claimed == nullptr) {
    return make_error(Code::kFailedPrecondition,
                      "the pipeline has a tuner already: expected one at a time; end that first (",
                      in_words_of_caller("stop()", "close()"), ")");
  }
  std::unique_ptr<Tuner> tuner(
      new Tuner(std::move(pipeline), std::move(package), std::move(setting)));
  tuner->claim_ = std::move(claimed);
  PENSTOCK_CHECK_OK(tuner->probe_.start());
  PENSTOCK_CHECK_OK(start_thread(tuner->thread_, [tuner = tuner.get()] { tuner->run(); }));
  return tuner;
}

Tuner::Tuner(std::shared_ptr<pipeline::Pipeline> pipeline, plan::Package package, Setting setting)
    : setting_(std::move(setting)),
      pipeline_(std::move(pipeline)),
      put_(pipeline_->shared_plan()),
      probe_(setting_.share) {
  // What runs may have been told of policies and deadlines that the package does not have.
  for (auto& variant : variants_of(*put_)) {
    plans_.push_back(
        {std::move(variant.name), std::move(variant.plan), 0, std::move(variant.from)});
  }
  packages_.push_back(std::move(package));
  for (auto& other : setting_.others) {
    plans_.push_back({other.folder.string(), other.plan, packages_.size(), {}});
    packages_.push_back(std::move(other));
  }
  report_.running = plans_.front().name;
  if (foretells(*put_)) choose(foretold(*put_));
}

Tuner::~Tuner() {
  stop();
}

void Tuner::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  woken_.notify_all();
  if (thread_.joinable()) thread_.join();
  probe_.stop();
}

Report Tuner::report() const {
  const std::scoped_lock lock(mutex_);
  return report_;
}

double Tuner::now() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

void Tuner::run() {
  device::name_this_thread("tuner");
  try {
    watch();
  } catch (const std::bad_alloc&) {
    end("no memory is left to watch the pipeline with");
  } catch (const std::exception& error) {
    end(error.what());
  }
  release();
}

/// Where memory is refused for the text too, the report says '?'.
void Tuner::end(const char* why) noexcept {
  const std::scoped_lock lock(mutex_);
  try {
    report_.ended = why;
  } catch (const std::bad_alloc&) {
    report_.ended.assign(1, '?');
  }
}

void Tuner::watch() {
  auto next = Clock::now();
  while (true) {
    next += kLookInterval;
    {
      std::unique_lock lock(mutex_);
      if (woken_.wait_until(lock, next, [this] { return stopping_; })) break;
    }
    if (const auto why = reason_to_end(); !why.empty()) {
      end(why.c_str());
      break;
    }
    look();
    next = std::max(next, Clock::now() - kLookInterval);  // After a swap, no looks are made up for.
  }
}

/// The pipeline, and what may keep it.
void Tuner::release() {
  probe_.watch({});
  put_.reset();
  setting_.replace = nullptr;
  setting_.swapped = nullptr;
  claim_.reset();
  pipeline_.reset();
}

std::string Tuner::reason_to_end() const {
  if (const auto closed = pipeline_->closed_by()) return closed->message();
  if (pipeline_->shared_plan() != put_) return "another plan was put in the place of what ran";
  return {};
}

void Tuner::look() {
  Snapshot seen{now(), pipeline_->stats()};
  const auto before = std::exchange(before_, seen);
  if (!before || before->stats.stages.size() != seen.stats.stages.size()) return;
  auto look = look_between(before->stats, seen.stats, seen.at - before->at);
  look.at = seen.at;
  look.idle = probe_.idle();
  if (!choice_) {
    learn(look);
    return;
  }
  const auto move = choice_->see(look);
  if (move && can_afford()) {
    swap(*move);
  } else if (!move) {
    plan_anew();
  }
}

/// The plan does not foretell what its stages take: the first looks at the full pipeline do.
void Tuner::learn(const Look& look) {
  const auto has_frames = [](const std::vector<double>& instances) {
    return std::ranges::any_of(instances, [](double seconds) { return seconds > 0; });
  };
  if (!look.full || !std::ranges::all_of(look.seconds, has_frames)) return;
  learning_.push_back(look);
  if (learning_.size() < kLearningLooks) return;
  std::vector<double> stages;
  for (std::size_t s = 0; s < look.seconds.size(); ++s) {
    std::vector<double> least;  // Of the instances, in each look.
    for (const auto& one : learning_) {
      auto& seconds = least.emplace_back(0);
      for (const double instance : one.seconds[s]) {
        if (instance > 0 && (seconds == 0 || instance < seconds)) seconds = instance;
      }
    }
    stages.push_back(median(least));
  }
  choose(std::move(stages));
}

Candidate Tuner::candidate_of(const Plan& made) const {
  Candidate candidate{made.name, {}};
  if (!made.from.empty()) candidate.family = family_of(made.from, made.plan);
  for (std::size_t i = 0; i < made.plan.stages.size(); ++i) {
    auto& stage = candidate.stages.emplace_back();
    const auto& devices = made.plan.stages[i].devices;
    if (made.from.empty()) {
      stage.seconds = made.plan.stages[i].predicted_seconds;
    } else {
      for (const auto from : made.from[i]) {
        stage.seconds += seconds_[from] * slower(plans_[0].plan.stages[from].devices, devices);
      }
    }
    for (const auto& device : devices) stage.places.push_back(device.cpus);
  }
  return candidate;
}

/// `seconds`: of the stages of the plan that ran first.
void Tuner::choose(std::vector<double> seconds) {
  seconds_ = std::move(seconds);
  std::vector<Candidate> candidates;
  for (const auto& made : plans_) candidates.push_back(candidate_of(made));
  choice_.emplace(std::move(candidates), 0);
  replanner_ = std::make_unique<Replanner>(plans_.front().plan, seconds_);
  first_planned_ = plans_.size();
  watch_idle();
  tell_candidates();
}

/// For the paces of the moment, where they have changed.
void Tuner::plan_anew() {
  const auto paces = choice_->paces();
  for (auto& variant : replanner_->see(paces)) {
    const auto is_same = [&](const Plan& known) {
      return known.plan.stages == variant.plan.stages;
    };
    if (std::ranges::none_of(plans_, is_same)) put(std::move(variant));
  }
}

/// In the place of the oldest of them that nothing needs, where there are many.
void Tuner::put(Variant variant) {
  constexpr std::size_t kMostPlanned = 16;
  auto place = first_planned_ + planned_ % kMostPlanned;
  while (place < plans_.size() && !choice_->is_free(place)) {
    place = first_planned_ + ++planned_ % kMostPlanned;
  }
  ++planned_;
  if (place == plans_.size()) plans_.emplace_back();
  plans_[place] = {std::move(variant.name), std::move(variant.plan), 0, std::move(variant.from)};
  choice_->put(place, candidate_of(plans_[place]));
  tell_candidates();
}

void Tuner::tell_candidates() {
  const std::scoped_lock lock(mutex_);
  report_.candidates.clear();
  for (const auto& made : plans_) report_.candidates.push_back(made.name);
}

/// Where a candidate would run and what runs does not.
void Tuner::watch_idle() {
  std::set<int> cpus;
  for (const auto& made : plans_) cpus.merge(cpus_of(made.plan));
  for (const int cpu : cpus_of(plans_[choice_->running()].plan)) cpus.erase(cpu);
  probe_.watch({cpus.begin(), cpus.end()});
}

bool Tuner::can_afford() const {
  const std::scoped_lock lock(mutex_);
  const double cpus = static_cast<double>(cpus_of(*put_).size());
  return report_.start_seconds + longest_start_.value_or(0) <=
         setting_.share * std::max(1.0, cpus) * (now() + kCreditSeconds);
}

void Tuner::swap(const Move& move) {
  const auto& from = plans_[choice_->running()];
  const auto& to = plans_[move.to];
  const double begin = now();
  const Status replaced = setting_.replace(to.plan, packages_[to.package].folder);
  const double took = now() - begin;
  if (!replaced && replaced.error().code == Code::kCancelled) return;  // The pipeline has ended.
  longest_start_ = std::max(longest_start_.value_or(0), took);
  if (replaced) {
    choice_->moved(move, now());
    put_ = pipeline_->shared_plan();
    before_.reset();
    watch_idle();
  } else {
    choice_->refuse(move.to, now());
  }
  {
    const std::scoped_lock lock(mutex_);
    report_.start_seconds += took;
    if (replaced) report_.running = to.name;
  }
  note({begin, from.name, to.name, move.gain, move.back,
        replaced ? std::string() : replaced.error().message()});
}

void Tuner::note(Swap swap) {
  setting_.swapped(swap);
  constexpr std::size_t kKept = 1000;
  const std::scoped_lock lock(mutex_);
  if (report_.swaps.size() == kKept) report_.swaps.erase(report_.swaps.begin());
  report_.swaps.push_back(std::move(swap));
}

}  // namespace penstock::follow
