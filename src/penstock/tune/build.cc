// The search in order: whole networks, groups, covers, pipelines, run-off, simple ways.
#include "penstock/tune/build.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "penstock/base/quantile.h"
#include "penstock/device/cgroup.h"
#include "penstock/device/grouping.h"
#include "penstock/device/place.h"
#include "penstock/device/topology.h"
#include "penstock/graph/switches.h"
#include "penstock/session/refused_node.h"
#include "penstock/session/session.h"
#include "penstock/tune/budget.h"
#include "penstock/tune/contest.h"
#include "penstock/tune/covers.h"
#include "penstock/tune/describe.h"
#include "penstock/tune/gate.h"
#include "penstock/tune/groups.h"
#include "penstock/tune/limits.h"
#include "penstock/tune/outcome.h"
#include "penstock/tune/parts.h"
#include "penstock/tune/plans.h"
#include "penstock/tune/recall.h"
#include "penstock/tune/room.h"
#include "penstock/tune/sequence.h"
#include "penstock/tune/shortlist.h"
#include "penstock/tune/simple.h"
#include "penstock/tune/steady.h"

namespace penstock::tune {
namespace {

constexpr std::uint64_t kRing = 16;
constexpr std::size_t kPartFrames = 2;  ///< That parts are timed and compared with.
constexpr int kLastWays = 6;            ///< In the last comparison: the plan and the simple ways.
constexpr double kFinalShare = 0.1;     ///< Of the budget, for which they run;
constexpr double kLeastFinal = 2.5;     ///< but so many seconds in all at least,
constexpr double kMostFinal = 6;        ///< and no more than these.
constexpr double kAnswerShare = 0.5;    ///< Of an entry's time: seldom is there another.
constexpr int kAnswerRounds = 5;        ///< In which a simple way before the plan is answered.
constexpr double kSearchSeconds = 2;    ///< Of one search of the planner.
constexpr int kPlansAfterParts = 4;     ///< For which measuring parts leaves time.
constexpr double kLeastSilence = 5;     ///< Seconds of compiling, or of one run, that are no hang,
constexpr double kMostSilence = 60;     ///< by the budget.
constexpr int kCovers = 3;              ///< Mixed covers that are run.
constexpr std::size_t kMostGroupings = 256;  ///< Of each use of the CPUs.
constexpr std::size_t kGroupWays = 2;        ///< Whole networks that groups of CPUs are tried with.
constexpr int kGroupedPlans = 3;             ///< Plans on groups of CPUs that are run.
constexpr double kGroupShare = 0.3;          ///< Of the time that is left, to measure on groups.
constexpr int kMostCorrections = 4;          ///< Plans made of corrected costs.
constexpr double kHopelessForm = 0.9;        ///< Of the clean import's rate, for the file as it is.
constexpr const char* kSureEngine = "onnxruntime";  ///< Which tells what is right.
constexpr double kGateStarts = 3;                   ///< Of the network, when references are made.
constexpr double kPlanTrials =
    3;  ///< Of the network, that running the first plan takes the time of.

/// More than any sound engine takes for the network, once on each CPU: what wants more is
/// stopped before the machine suffers.
std::uint64_t memory_for(const graph::Graph& graph, std::size_t cpus) {
  constexpr std::uint64_t kEngine = 1ULL << 30U;
  constexpr std::uint64_t kCopies = 6;  ///< Of the weights: as read, packed, and while compiling.
  std::uint64_t weights = 0;
  for (const auto& value : graph.values) {
    if (value.constant) weights += value.type.max_bytes().value_or(0);
  }
  return (kEngine + kCopies * weights) * (cpus + 1);
}

class Build {
 public:
  Build(const graph::Graph& graph, const Options& options, const backend::Registry& backends,
        cost::Database& database)
      : graph_(graph),
        options_(options),
        backends_(backends),
        database_(database),
        budget_(options.budget_seconds, options.begin),
        shortlist_(budget_) {}

  Result<Report> run();

 private:
  Status prepare();
  Status choose_devices();
  Status try_simple();
  Status make_gate();
  Status start_profiler(double silence);
  void look_for_room();
  void warn_of_switches() const;
  void tell_if_too_short(double seconds) const;
  Status take_activations(std::size_t count);
  void start_contest(bool refresh);
  Result<bool> measure_again(const std::string& why);
  struct Whole;
  Status try_whole();
  Status screen(std::vector<Whole>& ways);
  using Seconds = Result<std::optional<double>>;
  Seconds try_within_budget(const Way& way, const Cover& cover, bool on_each, bool in_any_case);
  [[nodiscard]] bool has_room_for_entry(const Cover& cover) const;
  Status try_covers();
  Result<const graph::Graph*> graph(bool as_is);
  const graph::Graph* find_other_form();
  [[nodiscard]] Contestant whole(const graph::Graph& graph, const Cover& cover,
                                 bool on_each_device) const;
  Result<std::optional<std::size_t>> enter(Contestant contestant);
  Result<std::optional<std::size_t>> run_beside_best(Contestant contestant);
  Result<std::optional<std::size_t>> enter_whole(const Cover& cover, bool on_each_device);
  Result<std::optional<std::size_t>> enter_as_is(const Whole& like);
  [[nodiscard]] const Entry& best_single() const {
    const auto score = [this](std::size_t i) {
      const auto& entry = contest_->entries()[i];
      return entry.way.failure.empty() ? entry.score : 0;
    };
    return contest_->entries()[*std::ranges::max_element(singles_, {}, score)];
  }
  [[nodiscard]] Cover best_cover() const;
  Status try_groupings();
  Result<std::vector<GroupCosts>> group_costs(const device::Groupings& groupings);
  Result<HandingOver> links_between(const device::Groupings& groupings);
  Status try_pipelines();
  Result<std::optional<std::size_t>> run_stages(const Cover& cover, std::vector<double> seconds,
                                                const cost::Figures& figures, bool replicas);
  Status search();
  Status run_simple(double seconds);
  Status compare_with_simple();
  Status answer(const SimpleWay& simple);
  Result<bool> recall();
  void compare_with_limit(const graph::Graph& graph,
                          const std::vector<partition::ChosenStage>& stages);
  void remember() const;
  Status check_parts();
  [[nodiscard]] Error no_plan() const;
  void let_go();
  Status write();

  [[nodiscard]] double spent() const { return budget_.spent(); }
  [[nodiscard]] double silence_seconds() const {
    return std::clamp(options_.budget_seconds / 6, kLeastSilence, kMostSilence);
  }
  /// For which the last comparison runs, and about what it takes with one more plan that answers
  /// it.
  [[nodiscard]] double final_seconds() const {
    return std::clamp(options_.budget_seconds * kFinalShare, kLeastFinal, kMostFinal);
  }
  [[nodiscard]] double comparison_seconds() const {
    const double starts = std::max(kLastWays * contest_->start_seconds(),
                                   simple_->start_seconds() + contest_->start_seconds());
    return final_seconds() + starts + kAnswerShare * contest_->entry_seconds() + pack_seconds_;
  }
  /// About what it takes to have a first plan, before one is known.
  [[nodiscard]] double first_plan_seconds() const {
    return kPlanTrials * shortlist_.trial_seconds(kSureEngine) + final_seconds() + pack_seconds_;
  }
  /// When so many more plans can still be run before the last comparison.
  [[nodiscard]] double latest_start(int plans) const {
    return options_.budget_seconds - comparison_seconds() - plans * contest_->entry_seconds();
  }
  /// Frames per second by what one takes, on each device or in one call on the CPUs of all.
  [[nodiscard]] double rate(double seconds, bool on_each) const {
    const bool side_by_side = on_each && has_replicas() && options_.goal == Goal::kThroughput;
    return static_cast<double>(side_by_side ? devices_.size() : 1) / seconds;
  }
  /// Whether there is room for the whole network on each device, where it may stand so.
  [[nodiscard]] bool fits_on_each() const {
    return room_->holds(has_replicas() ? devices_.size() : 1);
  }
  /// Whether two plans, each a copy on each device, cannot stand side by side.
  [[nodiscard]] bool is_one_at_a_time() const { return !room_->holds(2 * devices_.size()); }
  /// Of the whole network: what writes a state has one instance.
  [[nodiscard]] bool has_replicas() const { return options_.states.empty() && devices_.size() > 1; }
  [[nodiscard]] bool out_of_time() const { return options_.stopped() || spent() > latest_start(1); }
  void say(const std::string& what) const {
    options_.progress(what, std::min(1.0, spent() / options_.budget_seconds));
  }

  const graph::Graph& graph_;
  ModelFile file_;  ///< As it is, but with its bound inputs constant.
  std::shared_ptr<const graph::WeightStore> weights_;  ///< Of the clean import.
  plan::Package whole_;                ///< The network in one stage, with its states.
  std::optional<graph::Graph> as_is_;  ///< The file in its own form, once it was asked for.
  std::optional<const graph::Graph*> other_form_;  ///< find_other_form()'s, once it was asked for.
  const Options& options_;
  const backend::Registry& backends_;
  cost::Database& database_;
  const Budget budget_;
  Shortlist shortlist_;
  std::vector<device::Device> devices_;
  std::vector<std::string> kinds_;  ///< Of the devices.
  std::vector<double> paces_;       ///< Place::paces
  std::vector<Way> ways_;
  std::optional<Room> room_;
  measure::Ring ring_;
  std::optional<cost::Activations> activations_;  ///< Of the user's frames.
  std::optional<Gate> gate_;
  std::optional<Pipelines> runners_;
  std::optional<Contest> contest_;
  std::unique_ptr<cost::Profiler> profiler_;
  std::optional<Parts> parts_;
  std::optional<Simple> simple_;
  std::set<std::size_t> singles_;  ///< Entries that run the whole network on each device.
  double pack_seconds_ = 0;        ///< Of writing the network in one stage.
  double mandatory_seconds_ = 0;   ///< Importing, and the whole networks.
  cost::PlanKey question_;         ///< Reads all weights: made once.
  /// Notes of this build alone: what is remembered answers a build that did not ask for them too.
  std::vector<std::string> absent_;
  std::vector<std::vector<graph::NodeId>> loops_;  ///< state_loops()
  Report report_;
};

Status Build::prepare() {
  if (graph_.nodes.empty()) {
    return invalid_argument(
        "nothing is left to build: the import leaves no node of '", graph_.import.file.string(),
        "', as its outputs are constants or inputs; 'penstock split' writes it");
  }
  say("importing");
  PENSTOCK_CHECK_OK(choose_devices());
  for (const auto& device : devices_) PENSTOCK_CHECK_OK(device::check_available(device));
  PENSTOCK_CHECK_OK(device::check_disjoint(devices_));
  PENSTOCK_TRY(ways_, usable_ways(options_, backends_, absent_));
  look_for_room();
  PENSTOCK_TRY(weights_, graph::WeightStore::create(graph_));
  const double before = spent();
  partition::SplitOptions whole;
  whole.weights = weights_.get();
  whole.devices = {devices_.front()};
  whole.custom_ops = options_.custom_ops;
  PENSTOCK_TRY(whole_, pack_model(graph_, whole, backends_, options_.states));
  pack_seconds_ = spent() - before;
  for (const auto& state : whole_.plan.states) {
    PENSTOCK_CHECK_OK(plan::initial_value(whole_.plan, whole_.folder, state));
  }
  loops_ = state_loops(graph_, options_.states);
  plan::BoundValues bound;
  for (const auto& input : graph_.bound_inputs) bound.emplace(input.name, input.value);
  PENSTOCK_TRY(
      file_, bind_model(graph_.import.file, bound, backends_, options_.custom_ops, weights_.get()));
  if (options_.frames.empty()) {
    warn_of_switches();
    PENSTOCK_TRY(ring_, frames::random_frames(whole_.plan.inputs, options_.random, kRing));
  } else {
    ring_ = frames::repeated(options_.frames, kRing);
    // Of a sequence nothing has run yet: its states are known for the first frame alone.
    PENSTOCK_CHECK_OK(take_activations(options_.states.empty() ? kPartFrames : 1));
  }
  PENSTOCK_CHECK_OK(start_profiler(silence_seconds()));
  kinds_ = device::kinds_of(profiler_->topology(), devices_);
  PENSTOCK_TRY(parts_,
               Parts::create({graph_, options_, devices_, ways_, backends_, *profiler_, *room_}));
  PENSTOCK_CHECK_OK(try_simple());
  start_contest(options_.refresh);
  return {};
}

/// The engines as a user would have them: first the one that tells what is right, then the others
/// as far as there is time.
Status Build::try_simple() {
  say("trying the simple ways");
  simple_.emplace(Simple::Setting{graph_, file_.file, options_, devices_, backends_, *profiler_,
                                  database_, ring_, whole_, *room_, budget_, shortlist_});
  const double before = spent();
  PENSTOCK_CHECK_OK(simple_->rehearse_reference());
  const double first = spent() - before;
  PENSTOCK_CHECK_OK(make_gate());
  const double between = spent();
  // Where the database knew the trials, this tells what compiling takes.
  shortlist_.tried(kSureEngine, (between - before - first) / kGateStarts);
  say("trying the other simple ways");
  PENSTOCK_CHECK_OK(simple_->rehearse_others(first_plan_seconds()));
  tell_if_too_short(first + spent() - between);
  return {};
}

Status Build::make_gate() {
  say("running the reference");
  if (is_one_at_a_time()) profiler_->rest();
  if (activations_) {
    if (!options_.states.empty()) PENSTOCK_CHECK_OK(take_activations(kPartFrames));
    PENSTOCK_TRY(const auto reference, backends_.find("onnxruntime"));
    auto recorded = activations_->record(graph_, *reference, options_.custom_ops, weights_.get());
    if (!recorded) return std::move(recorded).error().within({Where::kWay, "reference"});
  }
  auto tolerance = Tolerance::of(options_.tolerance.value_or(Tolerance().relative));
  auto gate = Gate::create({file_.file, whole_, ring_, backends_, simple_->runs("onnxruntime"),
                            tolerance, options_.stopped, is_one_at_a_time()});
  if (options_.stopped()) return make_error(Code::kCancelled, "stopped");
  if (!gate && gate.error().find(Where::kWay) == nullptr) {
    return std::move(gate).error().within({Where::kWay, "reference"});
  }
  if (!gate) return std::move(gate).error();
  gate_ = *std::move(gate);
  tolerance.relative *= gate_->judge().factor();
  tolerance.absolute *= gate_->judge().factor();
  parts_->check_within(tolerance);
  return {};
}

/// Those that the user named, or a CPU each.
Status Build::choose_devices() {
  PENSTOCK_TRY(const auto topology, device::read_topology());
  devices_ = options_.devices.empty() ? device::usual_devices(topology) : options_.devices;
  const auto cpus = union_of(devices_).cpus.size();
  const auto allowed = device::allowed_cpus(topology).size();
  if (topology.cpu_quota.value_or(static_cast<double>(allowed)) >= static_cast<double>(allowed)) {
    return {};
  }
  absent_.push_back(concat("this process may use ", allowed, " CPUs, and the time of ",
                           *topology.cpu_quota, " (cgroup quota): the build has used ", cpus,
                           " of them, and rates are within the quota; limits are the CPUs' own"));
  return {};
}

/// By what trying the simple ways took.
void Build::tell_if_too_short(double seconds) const {
  const auto trials = static_cast<double>(profiler_->measured());
  const double least =
      least_seconds({.spent_seconds = spent(),
                     .trial_seconds = trials > 0 ? seconds / trials : 0,
                     .whole_networks = ways_.size() * (devices_.size() > 1 ? 2 : 1),
                     .comparison_seconds = final_seconds()});
  if (least <= options_.budget_seconds) return;
  options_.warn(concat("the budget of ", options_.budget_seconds,
                       " s is short: whole networks and the simple ways alone take about ",
                       std::lround(least), " s; those that take over ", Shortlist::kCheapSeconds,
                       " s each are tried as far as there is time"));
}

/// What is measured one at a time, and what is left out, hangs on the memory that is left now.
void Build::look_for_room() {
  room_.emplace(bytes_of_weights(graph::Subgraph::whole(graph_)), device::available_memory());
  if (!is_one_at_a_time()) return;
  const auto told = concat("memory is short (", room_->describe(),
                           "): plans and simple ways are measured one at a time",
                           fits_on_each() ? "" : ", and no copy of the network for each device");
  options_.warn(told);
  absent_.push_back(told);
}

void Build::warn_of_switches() const {
  for (const auto id : graph::switches_of(graph_)) {
    const auto& name = graph_.value(id).name;
    const bool is_state =
        std::ranges::any_of(options_.states, [&](const auto& state) { return state.to == name; });
    if (is_state) continue;
    options_.warn(concat("input '", name,
                         "' decides which part of the network runs, and random frames give it "
                         "any value: bind it (--constant ",
                         name, "=VALUE) or give your own frames (--input)"));
  }
}

void Build::start_contest(bool refresh) {
  contest_.reset();  // What runs in it was started by the runners.
  runners_.emplace(Pipelines::Setting{[this](bool as_is) { return graph(as_is); },
                                      options_,
                                      backends_,
                                      ring_,
                                      *gate_,
                                      std::chrono::duration<double>(silence_seconds()),
                                      {},
                                      weights_.get()});
  contest_.emplace(Contest::Setting{.runners = *runners_,
                                    .database = database_,
                                    .budget = budget_,
                                    .goal = options_.goal,
                                    .verdict_key = verdict_key(options_, backends_, ring_),
                                    .judged_frames = gate_->frames(),
                                    .say = [this](const std::string& what) { say(what); },
                                    .stopped = options_.stopped,
                                    .refresh = refresh,
                                    .one_at_a_time = is_one_at_a_time()});
}

/// Of the user's first frames.
Status Build::take_activations(std::size_t count) {
  auto digest = frames::digest_of(ring_);
  auto frames = with_states({graph_, file_.file, whole_, backends_}, std::span(ring_).first(count));
  if (!frames) return std::move(frames).error().within({Where::kWay, "reference"});
  if (!options_.states.empty()) digest = frames::digest_of(*frames);
  PENSTOCK_TRY(activations_, cost::Activations::of_inputs(graph_, *frames, std::move(digest)));
  return {};
}

Status Build::start_profiler(double silence) {
  cost::Profiler::Options settings;
  settings.silence_seconds = silence;
  settings.refresh = options_.refresh;
  settings.memory_bytes = memory_for(graph_, union_of(devices_).cpus.size());
  settings.stop = options_.stopped;
  settings.weights = weights_.get();
  if (activations_) settings.activations = &*activations_;
  settings.on_progress = [this](std::size_t, std::size_t, const cost::Part& part) {
    say(concat("measured ", part.models.front().name, " on ", part.models.front().backend));
  };
  PENSTOCK_TRY(profiler_, cost::Profiler::start(backends_, &database_, settings));
  return {};
}

Result<const graph::Graph*> Build::graph(bool as_is) {
  if (!as_is || options_.import.as_is) return &graph_;
  if (!as_is_) {
    auto import = options_.import;
    import.as_is = true;
    PENSTOCK_TRY(as_is_, import_model(graph_.import.file, import, backends_, options_.custom_ops));
  }
  return &*as_is_;
}

/// One backend for the whole network.
struct Build::Whole {
  Cover cover;
  bool on_each = true;  ///< Device; or one call on the CPUs of all.
  double rate = 0;      ///< Frames per second, by what one part alone was measured at.
};

/// Within the time that there is for it, or in any case. None: it fails, or there is no time.
Build::Seconds Build::try_within_budget(const Way& way, const Cover& cover, bool on_each,
                                        bool in_any_case) {
  const double before = spent();
  if (!in_any_case) {
    parts_->measure_until(
        shortlist_.trial_until(way.backend, first_plan_seconds() + simple_->start_seconds()));
  }
  const auto number = static_cast<std::size_t>(std::ranges::find(ways_, way) - ways_.begin());
  auto seconds = on_each ? parts_->whole_seconds(number) : parts_->wide_seconds(number);
  const bool cut_off = parts_->over() && !options_.stopped();
  if (seconds && !*seconds && cut_off && parts_->takes_whole(number)) {
    shortlist_.leave_out(whole(graph_, cover, on_each).name);
  }
  shortlist_.tried(way.backend, spent() - before);
  parts_->measure_in_any_case();
  return seconds;
}

/// All are screened first, so that the fastest are run first. The engine that has run the network
/// as the reference has its turn first: where there is no time for all, it is there.
Status Build::screen(std::vector<Whole>& ways) {
  auto order = ways_;
  std::ranges::stable_partition(order, [](const Way& way) { return way.backend == kSureEngine; });
  for (const auto& way : order) {
    say("trying " + way.name());
    const auto cover = whole_cover(graph_, way);
    PENSTOCK_TRY(const auto seconds, try_within_budget(way, cover, true, ways.empty()));
    if (seconds && fits_on_each()) ways.push_back({cover, true, rate(*seconds, true)});
    if (devices_.size() == 1) continue;
    PENSTOCK_TRY(const auto wide, try_within_budget(way, cover, false, ways.empty()));
    if (wide) ways.push_back({cover, false, rate(*wide, false)});
  }
  std::ranges::stable_sort(ways, std::greater{}, &Whole::rate);
  return {};
}

/// Beside the comparison that follows, for a whole network that is tried already.
bool Build::has_room_for_entry(const Cover& cover) const {
  const double seconds =
      std::max(contest_->entry_seconds(), shortlist_.trial_seconds(cover.front().backend));
  return shortlist_.has_room_for(seconds, comparison_seconds());
}

Status Build::try_whole() {
  std::vector<Whole> ways;
  parts_->measure_in_any_case();
  PENSTOCK_CHECK_OK(screen(ways));
  std::optional<Whole> best;
  for (const auto& way : ways) {
    if (contest_->best() && !has_room_for_entry(way.cover)) {
      shortlist_.leave_out(whole(graph_, way.cover, way.on_each).name);
      continue;
    }
    PENSTOCK_TRY(const auto place, enter_whole(way.cover, way.on_each));
    if (place && contest_->best() == place) best = way;
  }
  if (best) PENSTOCK_CHECK_OK(enter_as_is(*best));
  mandatory_seconds_ = spent();
  return {};
}

/// On each device, or on one where there are states, or one call on the CPUs of all.
Contestant Build::whole(const graph::Graph& graph, const Cover& cover, bool on_each_device) const {
  if (!on_each_device) {
    return {name_of(cover) + " on all CPUs at once", on_all(graph, cover, devices_)};
  }
  // Several covers may have as many parts on the same backends.
  const auto number =
      cover.size() > 1 ? concat(", cover ", contest_->entries().size()) : std::string();
  if (!options_.states.empty()) {
    return {concat(name_of(cover), " on one device", number),
            on_each(graph, cover, {devices_.front()})};
  }
  return {concat(name_of(cover), " on each device", number), on_each(graph, cover, devices_)};
}

/// None: its stages do not run in a process of their own, or the time to try them was up.
Result<std::optional<std::size_t>> Build::enter(Contestant contestant) {
  if (is_one_at_a_time()) contest_->rest();
  PENSTOCK_TRY(const auto runs, parts_->stages_run(contestant.split.stages));
  if (!runs.value_or(false)) return std::optional<std::size_t>();
  return run_beside_best(std::move(contestant));
}

/// In the contest. What the process that measures still holds goes where memory is short.
Result<std::optional<std::size_t>> Build::run_beside_best(Contestant contestant) {
  if (is_one_at_a_time()) profiler_->rest();
  PENSTOCK_TRY(const auto place, contest_->enter(std::move(contestant)));
  return std::optional(place);
}

Result<std::optional<std::size_t>> Build::enter_whole(const Cover& cover, bool on_each_device) {
  PENSTOCK_TRY(const auto place, enter(whole(graph_, cover, on_each_device)));
  if (!place || !on_each_device) return place;
  const auto& entry = contest_->entries()[*place];
  if (entry.way.failure.empty()) {
    singles_.insert(*place);
  } else if (cover.size() == 1 && !entry.lacks_room) {
    const bool differs = entry.way.worst_ratio > 0;
    parts_->refuse_whole(
        way_of(cover.front()),
        {differs ? cost::FailureKind::kWrongOutput : cost::FailureKind::kRun, entry.way.failure});
  }
  return place;
}

/// The file as it is; null: it cannot be imported so, which is noted, or is no other.
const graph::Graph* Build::find_other_form() {
  const auto form = graph(true);
  if (!form) {
    report_.notes.push_back("left out: the file as it is: " + form.error().message());
    return nullptr;
  }
  const auto hash = [](const graph::Graph& of) {
    return graph::canonical_hash(graph::Subgraph::whole(of));
  };
  return hash(**form) == hash(graph_) ? nullptr : *form;
}

/// The same on the file as it is: an engine may know its form better than the clean one. It is
/// first timed in a process of its own, as all that an engine has not compiled before. None: there
/// is no other form, it does not run, or it is hopeless.
Result<std::optional<std::size_t>> Build::enter_as_is(const Whole& like) {
  const std::optional<std::size_t> none;
  if (!has_room_for_entry(like.cover)) {
    shortlist_.leave_out("the file as it is");
    return none;
  }
  if (!other_form_) other_form_ = find_other_form();
  const auto* const form = *other_form_;
  if (form == nullptr) return none;
  const auto way = way_of(like.cover.front());
  say("trying the file as it is");
  const auto device = like.on_each ? devices_.front() : union_of(devices_);
  PENSTOCK_TRY(const auto seconds, parts_->form_seconds(*form, way, device));
  if (!seconds || rate(*seconds, like.on_each) < like.rate * kHopelessForm) return none;
  auto contestant = whole(*form, whole_cover(*form, way), like.on_each);
  contestant.name += ", the file as it is";
  contestant.as_is = true;
  return run_beside_best(std::move(contestant));
}

/// Several backends in one stage, where that is cheaper by the measured parts.
Status Build::try_covers() {
  say("measuring parts");
  parts_->measure_at_most(options_.most_parts);
  PENSTOCK_TRY(const auto covers,
               find_covers(*parts_, options_, kCovers, budget_.at(latest_start(kPlansAfterParts))));
  for (const auto& cover : covers) {
    if (out_of_time()) break;
    PENSTOCK_CHECK_OK(enter_whole(cover, fits_on_each()));
  }
  return {};
}

/// What the fastest whole networks take on each kind of group.
Result<std::vector<GroupCosts>> Build::group_costs(const device::Groupings& groupings) {
  std::vector<const Entry*> fastest;
  for (const auto place : singles_) fastest.push_back(&contest_->entries()[place]);
  std::ranges::stable_sort(fastest, std::greater{}, &Entry::score);
  fastest.resize(std::min(fastest.size(), kGroupWays));
  std::vector<GroupCosts> costs;
  for (const auto* entry : fastest) {
    const auto& cover = entry->contestant.split.stages.front().parts;
    costs.push_back({cover, parts_->node_seconds(cover), {}});
  }
  for (const auto& kind : groupings.kinds) {
    for (auto& cost : costs) {
      PENSTOCK_TRY(const auto seconds, parts_->group_seconds(cost.cover, kind.devices));
      cost.kind_seconds.push_back(seconds.value_or(collage::kInfinite));
    }
  }
  return costs;
}

/// Of each two kinds of groups that may stand side by side; those of which there was no time for
/// are left out.
Result<HandingOver> Build::links_between(const device::Groupings& groupings) {
  const auto& kinds = groupings.kinds;
  HandingOver made;
  made.links.assign(kinds.size(), std::vector<std::optional<cost::Link>>(kinds.size()));
  for (std::size_t a = 0; a < kinds.size(); ++a) {
    const auto& from = kinds[a].devices.front();
    for (std::size_t b = a; b < kinds.size() && kinds[b].use == kinds[a].use; ++b) {
      const auto beside = std::ranges::find_if(kinds[b].devices, [&](const device::Device& to) {
        return static_cast<bool>(device::check_disjoint({from, to}));
      });
      if (beside == kinds[b].devices.end()) continue;
      PENSTOCK_TRY(made.links[a][b], profiler_->link(from, *beside));
      made.links[b][a] = made.links[a][b];
    }
  }
  return made;
}

/// Plans on devices of several CPUs, unlike in width, on some or all CPUs; where the user named no
/// devices, and there are others than one for each CPU and one of all.
Status Build::try_groupings() {
  constexpr std::size_t kUsual = 2;
  if (!options_.devices.empty() || !has_replicas() || options_.goal == Goal::kLatency) return {};
  const auto groupings = device::groupings_of(profiler_->topology(), kMostGroupings);
  if (groupings.groupings.size() <= kUsual || singles_.empty() || out_of_time()) return {};
  say("measuring on groups of CPUs");
  parts_->measure_until(
      budget_.at(spent() + kGroupShare * (latest_start(kGroupedPlans) - spent())));
  PENSTOCK_TRY(const auto costs, group_costs(groupings));
  PENSTOCK_TRY(const auto links, links_between(groupings));
  PENSTOCK_TRY(const auto plans, grouped(graph_, groupings, costs, links,
                                         device::available_memory(), kSearchSeconds));
  parts_->measure_until(budget_.at(latest_start(1)));
  int run = 0;
  for (const auto& plan : plans) {
    if (out_of_time() || run++ == kGroupedPlans) break;
    say(concat("trying ", plan.grouping));
    PENSTOCK_CHECK_OK(
        enter({concat(plan.covers, " in ", plan.split.stages.size(),
                      plan.split.stages.size() == 1 ? " stage" : " stages", " on ", plan.grouping),
               plan.split}));
  }
  return {};
}

Error Build::no_plan() const {
  std::string reasons;
  for (const auto& failure : parts_->failures()) reasons += "; " + failure;
  for (const auto& entry : contest_->entries()) {
    reasons += concat("; ", entry.way.name, ": ", entry.way.failure);
  }
  return make_error(Code::kFailedPrecondition, "no backend runs the network", reasons);
}

/// That ran the best on each device; where none did, as there is no memory for so many copies or
/// the devices' time was up, the best by the measured parts. Empty: nothing is known.
Cover Build::best_cover() const {
  if (!singles_.empty()) return best_single().contestant.split.stages.front().parts;
  return parts_->cheapest_cover();
}

/// Pipelines of the best cover; and of the best of them once more with another backend for the
/// stages that are faster by it.
Status Build::try_pipelines() {
  if (devices_.size() == 1 || graph_.nodes.size() < 2 || options_.goal == Goal::kLatency) return {};
  const Cover cover = best_cover();
  if (cover.empty()) return {};
  parts_->measure_until(budget_.at(latest_start(1)));
  cost::Figures figures;
  const auto link = profiler_->link(devices_[0], devices_[1]);
  if (link && *link) {  // The pipeline's own work is in the figure, the way of the word is not.
    figures.seconds_per_transfer = std::max(figures.seconds_per_transfer, (*link)->latency_seconds);
  }
  PENSTOCK_TRY(paces_, parts_->paces_of(cover, parts_->node_seconds(cover)));
  const auto& entries = contest_->entries();
  std::optional<std::size_t> best;
  bool with_replicas = false;
  for (const bool replicas : {false, true}) {
    PENSTOCK_TRY(const auto place,
                 run_stages(cover, parts_->node_seconds(cover), figures, replicas));
    if (!place || (best && entries[*place].score <= entries[*best].score)) continue;
    best = place;
    with_replicas = replicas;
  }
  if (!best || !contest_->is_near_best(*best) || out_of_time()) return {};
  say("trying other backends for the stages");
  PENSTOCK_TRY(const auto faster, parts_->faster_stages(entries[*best].contestant.split.stages));
  if (!faster) return {};
  // The next plan may cut elsewhere.
  const auto joined = merge_neighbours(*faster);
  const auto done = run_stages(joined, parts_->node_seconds(*faster), figures, with_replicas);
  return done ? Status() : done.error();
}

/// Plans of the cover, each with costs corrected by what the last one's stages really took, until
/// they repeat themselves. \returns the best of them that has several stages; none: none runs.
Result<std::optional<std::size_t>> Build::run_stages(const Cover& cover,
                                                     std::vector<double> seconds,
                                                     const cost::Figures& figures, bool replicas) {
  const auto& entries = contest_->entries();
  const double memory =
      replicas ? memory_share(graph_, devices_.size(), device::available_memory()) : kUnlimited;
  std::set<std::size_t> seen;
  std::optional<std::size_t> best;
  for (int round = 0; round <= kMostCorrections && !out_of_time(); ++round) {
    say("planning stages");
    const Measurements measurements{seconds, figures, loops_, memory};
    const auto planned =
        pipelined({graph_, devices_, paces_}, cover, measurements, replicas, kSearchSeconds);
    if (!planned && planned.error().code == Code::kFailedPrecondition) break;  // Memory.
    if (!planned) return planned.error();
    const auto& split = planned->split;
    say("trying the stages");
    PENSTOCK_TRY(const auto place, enter({concat(backends_in(cover), " in ", split.stages.size(),
                                                 " stages, plan ", entries.size()),
                                          split}));
    if (!place || !entries[*place].way.failure.empty() || !seen.insert(*place).second) break;
    const bool better = !best || entries[*place].score > entries[*best].score;
    if (better && split.stages.size() > 1) best = place;
    correct(seconds, {graph_, devices_, paces_}, split, entries[*place].stage_seconds);
  }
  return best;
}

/// The simple ways and the best plan in turn. A plan that fails leaves its place to the next.
Status Build::run_simple(double seconds) {
  say("comparing with the simple ways");
  if (simple_->is_one_at_a_time()) {
    contest_->rest();
    profiler_->rest();
    PENSTOCK_CHECK_OK(simple_->run_alone(seconds, contest_->rounds()));
  }
  for (;;) {
    PENSTOCK_TRY(auto* const running, contest_->run_best());
    if (running == nullptr) return no_plan();
    PENSTOCK_TRY(report_.now, simple_->run_beside(*running, seconds, contest_->rounds()));
    if (report_.now.plan.failure.empty()) return {};
    contest_->refuse(*contest_->best(), report_.now.plan.failure);
    PENSTOCK_CHECK_OK(check_parts());
  }
}

Status Build::compare_with_simple() {
  const double before = spent();
  PENSTOCK_CHECK_OK(run_simple(final_seconds()));
  if (const auto better = better_than_plan(report_.now, ways_, options_.goal == Goal::kLatency)) {
    const auto best = contest_->best();
    PENSTOCK_CHECK_OK(answer(*better));
    if (contest_->best() != best) {
      PENSTOCK_CHECK_OK(check_parts());
      PENSTOCK_CHECK_OK(run_simple(kLeastFinal));
    }
  }
  report_.comparison = report_.now;
  PENSTOCK_TRY(const auto* const running, contest_->run_best());
  if (running == nullptr) return no_plan();
  PENSTOCK_TRY(report_.trace, steady_trace(*running));
  report_.minimum_seconds = mandatory_seconds_ + spent() - before;
  return {};
}

/// The plans that do what the simple way does run against the best: was one judged wrongly, or is
/// the file as it is faster there?
Status Build::answer(const SimpleWay& simple) {
  parts_->measure_in_any_case();
  const auto way = std::ranges::find(ways_, simple.backend, &Way::backend);
  const auto cover = whole_cover(graph_, *way);
  if (!has_room_for_entry(cover)) {
    shortlist_.leave_out(concat("what plans make of the simple way ", simple.name));
    return {};
  }
  PENSTOCK_TRY(const auto clean, enter_whole(cover, simple.on_each_device));
  PENSTOCK_TRY(const auto as_is, enter_as_is({cover, simple.on_each_device, 0}));
  if (!contest_->best()) return no_plan();
  std::vector<std::size_t> contenders{*contest_->best()};
  for (const auto& place : {clean, as_is}) {
    if (!place || !contest_->is_near_best(*place)) continue;
    if (std::ranges::find(contenders, *place) == contenders.end()) contenders.push_back(*place);
  }
  return contenders.size() < 2 ? Status() : contest_->decide(contenders, kAnswerRounds);
}

/// The parts of the best plan by themselves: the gate knows the whole only.
Status Build::check_parts() {
  if (is_one_at_a_time()) contest_->rest();
  while (contest_->best()) {
    const auto best = *contest_->best();
    const auto& stages = contest_->entries()[best].contestant.split.stages;
    std::string failure;
    for (const auto& stage : stages) {
      if (stages.size() == 1 && stage.parts.size() == 1) break;  // The whole network.
      for (const auto& part : stage.parts) {
        PENSTOCK_TRY(const auto found, parts_->failure_of(part));
        if (failure.empty()) failure = found;
      }
    }
    if (failure.empty()) return {};
    contest_->refuse(best, failure);
  }
  return no_plan();
}

/// Of all that has run and may be asked no more: the package takes its room, on disk and in memory.
void Build::let_go() {
  contest_->rest();
  simple_->rest();
  profiler_->rest();
  profiler_->options().weights = nullptr;
  whole_.files.reset();
  weights_.reset();
}

Status Build::write() {
  const auto& best = contest_->entries()[*contest_->best()];
  PENSTOCK_TRY(const auto* graph, this->graph(best.contestant.as_is));
  const auto split = split_options(best, report_, options_.custom_ops);
  const auto written = split_model(*graph, split, {}, options_.output, backends_, options_.states);
  if (!written) return written.error();
  return {};
}

Status Build::search() {
  PENSTOCK_CHECK_OK(try_whole());
  PENSTOCK_CHECK_OK(try_groupings());
  PENSTOCK_CHECK_OK(try_covers());
  PENSTOCK_CHECK_OK(try_pipelines());
  if (!contest_->best()) return no_plan();
  say("running the best plans once more");
  PENSTOCK_CHECK_OK(contest_->run_off(options_.budget_seconds - comparison_seconds() - spent()));
  say("checking the parts of the best plan");
  PENSTOCK_CHECK_OK(check_parts());
  return compare_with_simple();
}

/// What an earlier search with no less time chose and reported. \returns whether there was one.
Result<bool> Build::recall() {
  question_ = question_of(graph_, options_, devices_, ways_, backends_, ring_);
  if (options_.refresh) return false;
  PENSTOCK_TRY(const auto known, database_.find(question_));
  if (!known) return false;
  auto outcome = outcome_from_json(known->text);
  if (!outcome || outcome->budget_seconds < options_.budget_seconds ||
      outcome->most_parts < options_.most_parts) {
    return false;
  }
  PENSTOCK_TRY(const auto place, contest_->enter(std::move(outcome->contestant)));
  if (!contest_->entries()[place].way.failure.empty()) return false;
  const auto compared = run_simple(final_seconds());
  if (!compared && compared.error().code != Code::kCancelled) {
    simple_->rest();
    return false;
  }
  std::string why;
  if (compared) why = stale(outcome->report.comparison, report_.now, ways_);
  // A moment may deceive.
  if (!why.empty() && run_simple(final_seconds())) {
    why = stale(outcome->report.comparison, report_.now, ways_);
  }
  if (!why.empty()) return measure_again(why);
  PENSTOCK_TRY(const auto measured_at, database_.measured_at(question_));
  outcome->report.now = std::move(report_.now);
  report_ = std::move(outcome->report);
  report_.age_seconds = static_cast<double>(std::time(nullptr) - measured_at.value_or(0));
  report_.interrupted = !compared;
  report_.minimum_seconds = spent();
  return true;
}

/// What was chosen does not hold any more, nor does what led to it. \returns false
Result<bool> Build::measure_again(const std::string& why) {
  say("measuring again: of the plan that was chosen earlier, " + why);
  report_ = {};
  report_.measured_again = why;
  profiler_->options().refresh = true;
  simple_->rest();
  start_contest(true);
  return false;
}

/// With the machine's peaks, which are measured once, in some tenths of a second, whatever has been
/// spent. Without them the report has no limit, and says so.
void Build::compare_with_limit(const graph::Graph& graph,
                               const std::vector<partition::ChosenStage>& stages) {
  parts_->measure_in_any_case();
  Roofs roofs;
  const auto peaks_of = [&](const device::Device& device) -> Result<cost::Peaks> {
    PENSTOCK_TRY(auto peaks, profiler_->peaks(device));
    if (peaks) return *std::move(peaks);
    return make_error(Code::kCancelled, "stopped before its peaks were measured");
  };
  const auto measured = [&]() -> Status {
    for (const auto& stage : stages) {
      PENSTOCK_TRY(auto peaks, peaks_of(stage.devices.front()));
      roofs.stages.push_back(std::move(peaks));
    }
    PENSTOCK_TRY(roofs.machine, peaks_of(union_of(devices_)));
    return {};
  }();
  if (measured) return describe_limits(graph, stages, roofs, report_);
  report_.notes.push_back("what the machine could do at most is not known: " +
                          measured.error().message());
}

void Build::remember() const {
  const Outcome outcome{contest_->entries()[*contest_->best()].contestant, report_,
                        options_.budget_seconds, options_.most_parts};
  // A database that cannot be written must not lose the run.
  (void)database_.put(question_, {{1 / report_.period_seconds}, to_json(outcome)});
}

Result<Report> Build::run() {
  PENSTOCK_CHECK_OK(prepare());
  PENSTOCK_TRY(const bool recalled, recall());
  if (!recalled) {
    if (auto done = search(); !done || options_.stopped()) {
      const bool stopped = options_.stopped() || done.error().code == Code::kCancelled;
      if (!stopped) return std::move(done).error();
      if (!contest_->best()) {
        return make_error(Code::kCancelled, "stopped before any plan was measured");
      }
      report_.interrupted = true;
      report_.notes.push_back("stopped before all was measured: the best plan until then");
      report_.comparison.plan = contest_->entries()[*contest_->best()].way;
    }
    const auto& chosen = contest_->entries()[*contest_->best()].contestant;
    PENSTOCK_TRY(const auto* graph, this->graph(chosen.as_is));
    describe({*graph, options_, devices_, kinds_, *contest_, *parts_, *gate_}, report_);
    if (auto left_out = shortlist_.sentence(); !left_out.empty()) {
      report_.notes.push_back(std::move(left_out));
    }
    compare_with_limit(*graph, chosen.split.stages);
    if (!report_.interrupted) remember();
  }
  std::ranges::copy(absent_, std::back_inserter(report_.notes));
  let_go();
  PENSTOCK_CHECK_OK(write());
  report_.seconds = spent();
  report_.measured_plans = contest_->measured();
  report_.measured_parts = static_cast<int>(profiler_->measured());
  return std::move(report_);
}

}  // namespace

Result<Report> build_model(const graph::Graph& graph, const Options& options,
                           const backend::Registry& backends, cost::Database& database) {
  auto built = std::async(std::launch::async, [&] {
                 return Build(graph, options, backends, database).run();
               }).get();
  if (!built) return name_refused_node(std::move(built).error(), graph);
  return built;
}

}  // namespace penstock::tune
