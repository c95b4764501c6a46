// Cuts the network into pieces, times candidates by the profiler, and estimates larger ones.
#include "penstock/tune/parts.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <utility>

#include "penstock/backend/request.h"
#include "penstock/base/words.h"
#include "penstock/device/place.h"
#include "penstock/partition/denormals.h"
#include "penstock/tune/told.h"

namespace penstock::tune {
namespace {

constexpr std::size_t kUnits = 10;     ///< Pieces of a network: as many units * ways are measured.
constexpr double kFasterStage = 0.98;  ///< Of a stage's time: less is no noise.
constexpr int kMostHangs = 2;          ///< Of a backend; then no more of its parts are tried.
constexpr std::size_t kMostNodes = 16'384;  ///< In parts: what rules yield of more takes gigabytes.

/// Of the inputs that a part is checked with.
std::vector<std::uint64_t> check_seeds() {
  return {0, 1};
}

/// What the file says, by backend; nothing where there is no file.
Result<std::map<std::string, collage::Rule>> rules_of_user(const std::filesystem::path& file,
                                                           const backend::Registry& registry) {
  std::map<std::string, collage::Rule> rules;
  if (file.empty()) return rules;
  const auto whose = concat("rules '", file.string(), "'");
  std::ifstream in(file);
  if (!in) return not_found(whose, ": no such file");
  std::ostringstream text;
  text << in.rdbuf();
  PENSTOCK_TRY(rules, collage::parse_rules(text.str(), whose));
  for (const auto& [name, rule] : rules) {
    if (auto found = registry.find(name); !found) return std::move(found).error().within(whose);
  }
  return rules;
}

}  // namespace

std::vector<device::Device> neighbours_of(const device::Topology& topology,
                                          const device::Device& device,
                                          const std::vector<device::Device>& devices) {
  constexpr std::size_t kMost = 7;
  if (device.is_accelerator()) return {};
  std::vector<device::Device> others;
  std::ranges::copy_if(devices, std::back_inserter(others), [&](const device::Device& other) {
    return std::ranges::find_first_of(other.cpus, device.cpus) == other.cpus.end();
  });
  return device::nearest(topology, device, others, kMost);
}

double Trial::seconds() const {
  if (!cost) return std::numeric_limits<double>::quiet_NaN();
  return cost->failure ? collage::kInfinite : cost->seconds;
}

Result<Parts> Parts::create(const Setting& setting) {
  Parts parts;
  parts.graph_ = &setting.graph;
  parts.options_ = &setting.options;
  parts.devices_ = setting.devices;
  const bool cpus = setting.devices.front().is_local_cpu();
  if (cpus) parts.kinds_ = device::kinds_of(setting.profiler.topology(), setting.devices);
  parts.kinds_.resize(setting.devices.size());
  parts.ways_ = setting.ways;
  parts.profiler_ = &setting.profiler;
  parts.room_ = &setting.room;
  parts.analytic_ = tune::analytic_seconds(
      setting.graph, std::max<std::size_t>(parts.devices_.front().cpus.size(), 1));
  PENSTOCK_CHECK_OK(parts.read_rules(setting.backends));
  PENSTOCK_CHECK_OK(parts.cut(parts.analytic_));
  return parts;
}

Status Parts::read_rules(const backend::Registry& registry) {
  PENSTOCK_TRY(const auto given, rules_of_user(options_->rules, registry));
  if (has_too_many_nodes()) {
    tell_once(concat("parts for several backends: the network has ", graph_->nodes.size(),
                     " nodes, more than ", kMostNodes, "; it is run whole, or in stages"));
  }
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    const auto& name = ways_[way].backend;
    PENSTOCK_TRY(const auto backend, registry.find(name));
    if (const auto own = given.find(name); own != given.end()) {
      rules_.push_back(own->second);
      ruled_.insert(name);
    } else {
      PENSTOCK_TRY(rules_.emplace_back(),
                   collage::parse_rule(backend->rules(), "rules of backend '" + name + "'"));
    }
    if (has_too_many_nodes() || (way > 0 && ways_[way - 1].backend == name)) continue;
    auto nodes = collage::supported_nodes(*graph_, rules_.back());
    if (nodes.count() < graph_->nodes.size()) supported_.push_back(std::move(nodes));
  }
  return {};
}

/// What the way may take, as candidates of the units. Of a network of too many nodes that is the
/// whole, where the rules are the backend's own: whether they claim it, its compiler tells.
Result<std::vector<collage::Candidate>> Parts::candidates_of(std::size_t way) const {
  const auto name = ways_[way].name();
  if (!has_too_many_nodes()) return collage::candidates(*graph_, units_, name, rules_[way]);
  std::vector<collage::Candidate> whole;
  if (ruled_.contains(ways_[way].backend)) return whole;
  collage::Candidate all{name, all_nodes(*graph_), collage::NodeSet(1), "the whole network", false};
  all.units.add(0);
  whole.push_back(std::move(all));
  return whole;
}

Status Parts::cut(const std::vector<double>& node_weights) {
  if (has_too_many_nodes()) {
    units_ = {{all_nodes(*graph_)}, std::vector<int>(graph_->nodes.size(), 0)};
  } else {
    units_ = collage::make_units(*graph_, node_weights, supported_, {.max_units = kUnits});
  }
  problem_ = collage::cover_problem(*graph_, units_);
  auto known = std::exchange(trials_, {});
  std::erase_if(known, [](const Trial& trial) { return !trial.cost; });
  known.insert(known.end(), earlier_.begin(), earlier_.end());
  single_.clear();
  whole_.clear();
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    PENSTOCK_TRY(auto found, candidates_of(way));
    for (auto& candidate : found) {
      const auto place = trials_.size();
      const auto count = candidate.units.count();
      if (count == 1) single_[{way, candidate.units.first()}] = place;
      if (count == units_.size()) whole_[way] = place;
      Trial trial{std::move(candidate), way, std::nullopt, false};
      const auto same = std::ranges::find_if(known, [&](const Trial& other) {
        return other.way == trial.way && other.candidate.nodes == trial.candidate.nodes;
      });
      if (same != known.end()) {
        trial.cost = same->cost;
        trial.checked = same->checked;
        known.erase(same);
      }
      trials_.push_back(std::move(trial));
    }
  }
  earlier_ = std::move(known);
  return {};
}

Result<cost::Part> Parts::part_of(const std::vector<graph::NodeId>& nodes, const Way& way) const {
  const bool whole = nodes.size() == graph_->nodes.size();
  auto subgraph = graph::Subgraph::create(*graph_, nodes);
  cost::PartModel model;
  model.name = whole ? "the whole network" : collage::label_of(*graph_, nodes);
  model.subgraph = whole || !subgraph ? graph::Subgraph::whole(*graph_) : *std::move(subgraph);
  return part_of(std::move(model), way);
}

/// A model with its name and nodes.
Result<cost::Part> Parts::part_of(cost::PartModel model, const Way& way) const {
  cost::Part part;
  backend::CompileRequest asked;
  asked.options = way.options;
  PENSTOCK_TRY(asked, backend::with_precision(std::move(asked)));
  model.backend = way.backend;
  model.precision = asked.precision;
  model.options = std::move(asked.options);
  part.flush_denormals = partition::has_denormal_constants(*model.subgraph);
  part.models.push_back(std::move(model));
  part.custom_ops = options_->custom_ops;
  place(part, devices_.front(), devices_);
  return part;
}

/// There, while the same runs on the devices beside it, as far as there is room.
void Parts::place(cost::Part& part, const device::Device& device,
                  const std::vector<device::Device>& beside) const {
  part.device = device;
  part.threads = std::max(1, static_cast<int>(device.cpus.size()));
  part.neighbours = neighbours_of(profiler_->topology(), device, beside);
  double bytes = 0;
  for (const auto& model : part.models) {
    if (model.subgraph) bytes += bytes_of_weights(*model.subgraph);
  }
  const auto most = room_->copies_of(bytes) - 1;
  if (part.neighbours.size() > most) part.neighbours.resize(most);
}

bool Parts::has_too_many_nodes() const {
  return graph_->nodes.size() > kMostNodes;
}

bool Parts::allowed(const partition::ChosenPart& part) const {
  if (!ruled_.contains(part.backend)) return true;
  if (has_too_many_nodes()) return false;
  return collage::yields(*graph_, rule_of(way_of(part)), part.nodes);
}

const collage::Rule& Parts::rule_of(const Way& way) const {
  return rules_[static_cast<std::size_t>(std::ranges::find(ways_, way) - ways_.begin())];
}

void Parts::measure_at_most(std::int64_t count) {
  begun_ = profiler_->measured();
  most_ = count;
}

void Parts::measure_in_any_case() {
  profiler_->options().deadline = Clock::time_point::max();
  profiler_->options().most_measurements = INT64_MAX;
}

void Parts::measure_until(Clock::time_point deadline, double share) {
  auto& options = profiler_->options();
  options.deadline = deadline;
  const auto count = static_cast<double>(most_) * share;
  options.most_measurements = most_ == INT64_MAX ? INT64_MAX : begun_ + std::llround(count);
}

void Parts::fail(std::size_t trial, const cost::Failure& failure) {
  auto& failed = trials_[trial];
  cost::Cost cost;
  cost.failure = failure;
  failed.cost = cost;
  if (failure.kind == cost::FailureKind::kHang) ++hangs_[ways_[failed.way].backend];
  failures_.push_back(concat(ways_[failed.way].name(), " on ", failed.candidate.label, ": ",
                             told(failure, profiler_->options().silence_seconds)));
}

/// Leaves out what is known, and backends that have hung too often to be worth the time.
Status Parts::measure(const std::vector<std::size_t>& wanted) {
  std::vector<std::size_t> trials;
  std::vector<cost::Part> parts;
  for (const auto trial : wanted) {
    const auto& way = ways_[trials_[trial].way];
    if (trials_[trial].cost || hangs_[way.backend] >= kMostHangs) continue;
    trials.push_back(trial);
    PENSTOCK_TRY(parts.emplace_back(), part_of(trials_[trial].candidate.nodes, way));
  }
  PENSTOCK_TRY(const auto costs, profiler_->measure(parts));
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (!costs[i]) continue;
    trials_[trials[i]].cost = costs[i];
    if (costs[i]->failure) fail(trials[i], *costs[i]->failure);
  }
  return {};
}

Status Parts::measure(std::size_t trial) {
  return measure(std::vector{trial});
}

Status Parts::check(std::size_t trial) {
  auto& checked = trials_[trial];
  if (checked.checked || !checked.cost || checked.cost->failure) return {};
  PENSTOCK_TRY(const auto part, part_of(checked.candidate.nodes, ways_[checked.way]));
  const auto result = profiler_->check(part, check_seeds(), tolerance_);
  if (!result) {
    // Without a reference for the part alone, the whole plan's comparison decides.
    if (result.error().code == Code::kFailedPrecondition) {
      checked.checked = true;
      return {};
    }
    return result.error();
  }
  checked.checked = true;
  if (result->failure) fail(trial, *result->failure);
  return {};
}

Result<std::optional<double>> Parts::whole_seconds(std::size_t way) {
  const auto found = whole_.find(way);
  if (found == whole_.end()) return std::optional<double>();  // Its rules do not claim all.
  PENSTOCK_CHECK_OK(measure(found->second));
  const double seconds = trials_[found->second].seconds();
  return std::isfinite(seconds) ? std::optional(seconds) : std::nullopt;
}

Result<std::optional<double>> Parts::form_seconds(const graph::Graph& form, const Way& way,
                                                  const device::Device& device) {
  const bool ruled = ruled_.contains(way.backend);
  if (ruled && (has_too_many_nodes() || !collage::yields(form, rule_of(way), all_nodes(form)))) {
    return std::optional<double>();
  }
  cost::PartModel model;
  model.name = "the file as it is";
  model.subgraph = graph::Subgraph::whole(form);
  PENSTOCK_TRY(auto part, part_of(std::move(model), way));
  place(part, device, devices_);
  PENSTOCK_TRY(const auto costs, profiler_->measure(std::span(&part, 1)));
  const auto& cost = costs.front();
  if (!cost) return std::optional<double>();
  if (cost->failure) {
    tell_once(concat(way.name(), " on the file as it is: ",
                     told(*cost->failure, profiler_->options().silence_seconds)));
    return std::optional<double>();
  }
  return std::optional(cost->seconds);
}

void Parts::refuse_whole(const Way& way, cost::Failure reason) {
  const auto number = static_cast<std::size_t>(std::ranges::find(ways_, way) - ways_.begin());
  const auto found = whole_.find(number);
  if (found == whole_.end()) return;
  auto& cost = trials_[found->second].cost.emplace();
  cost.failure = std::move(reason);
}

Result<std::optional<double>> Parts::wide_seconds(std::size_t way) {
  const auto found = whole_.find(way);
  if (found == whole_.end()) return std::optional<double>();
  const auto& narrow = trials_[found->second].cost;
  const bool hangs = narrow && narrow->failure && narrow->failure->kind == cost::FailureKind::kHang;
  if (hangs) return std::optional<double>();  // As it would once more.
  PENSTOCK_TRY(const auto cost,
               measure_chain(whole_cover(*graph_, ways_[way]), union_of(devices_)));
  return cost && !cost->failure ? std::optional(cost->seconds) : std::nullopt;
}

Result<std::optional<double>> Parts::group_seconds(const Cover& cover,
                                                   const std::vector<device::Device>& alike) {
  PENSTOCK_TRY(const auto cost, measure_chain(cover, alike.front(), alike));
  return cost && !cost->failure ? std::optional(cost->seconds) : std::nullopt;
}

const Trial* Parts::find(const Way& way, const std::vector<graph::NodeId>& nodes) const {
  for (const auto* trials : {&trials_, &earlier_}) {
    for (const auto& trial : *trials) {
      if (trial.cost && trial.candidate.nodes == nodes && ways_[trial.way] == way) return &trial;
    }
  }
  return nullptr;
}

double Parts::seconds_of(const Way& way, const std::vector<graph::NodeId>& nodes) const {
  const auto* trial = find(way, nodes);
  return trial == nullptr ? collage::kInfinite : trial->seconds();
}

std::optional<double> Parts::piece_seconds(std::size_t way, std::size_t piece) const {
  const auto found = single_.find({way, piece});
  if (found == single_.end()) return std::nullopt;
  const double seconds = trials_[found->second].seconds();
  return std::isfinite(seconds) ? std::optional(seconds) : std::nullopt;
}

/// What its pieces take, less what one call for all saves, in proportion to what it saved for the
/// whole network.
double Parts::estimate(const Trial& trial) const {
  double sum = 0, all = 0;
  const auto count = trial.candidate.units.count();
  for (const auto piece : trial.candidate.units.members()) {
    const auto seconds = piece_seconds(trial.way, piece);
    if (!seconds) return collage::kInfinite;
    sum += *seconds;
  }
  const auto whole = whole_.find(trial.way);
  if (whole == whole_.end() || units_.size() < 2) return sum;
  const double measured = trials_[whole->second].seconds();
  if (!std::isfinite(measured)) return sum;
  for (std::size_t piece = 0; piece < units_.size(); ++piece) {
    const auto seconds = piece_seconds(trial.way, piece);
    if (!seconds) return sum;
    all += *seconds;
  }
  const double saved = 1 - measured / all;
  return sum *
         (1 - saved * static_cast<double>(count - 1) / static_cast<double>(units_.size() - 1));
}

Status Parts::measure_boundaries() {
  if (boundaries_) return {};
  std::vector<std::string> names;
  names.reserve(ways_.size());
  for (const auto& way : ways_) names.push_back(way.backend);
  const auto again = std::ranges::unique(names);
  names.erase(again.begin(), again.end());
  PENSTOCK_TRY(boundaries_, cost::Boundaries::measure(
                                *profiler_, names, devices_.front(),
                                neighbours_of(profiler_->topology(), devices_.front(), devices_)));
  return {};
}

collage::CoverProblem Parts::problem() const {
  auto problem = problem_;
  for (const auto& trial : trials_) {
    double cost = trial.seconds();
    if (!trial.cost && std::isinf(estimate(trial))) {
      cost = collage::kInfinite;
    } else if (!trial.cost && trial.candidate.host) {
      cost = 0;
    }
    problem.candidates.push_back({trial.candidate.units, {static_cast<int>(trial.way), 0}, cost});
  }
  if (!boundaries_) return problem;
  problem.transition = [this](collage::Place from, collage::Place to, double bytes) {
    if (from.backend < 0 || to.backend < 0) return 0.0;
    // The engine's call is in each part's time already; less than nothing it cannot cost.
    return std::max(0.0, boundaries_->boundary_seconds(
                             ways_[static_cast<std::size_t>(from.backend)].backend,
                             ways_[static_cast<std::size_t>(to.backend)].backend, bytes));
  };
  return problem;
}

Cover Parts::cover_of(const collage::Cover& cover) const {
  Cover made;
  for (const int candidate : cover.candidates) {
    const auto& trial = trials_[static_cast<std::size_t>(candidate)];
    const auto& way = ways_[trial.way];
    made.push_back({way.backend, way.options, trial.candidate.nodes});
  }
  return made;
}

Status Parts::measure_pieces() {
  for (std::size_t piece = 0; piece < units_.size(); ++piece) {
    std::vector<std::size_t> trials;
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      const auto found = single_.find({way, piece});
      if (found != single_.end()) trials.push_back(found->second);
    }
    PENSTOCK_CHECK_OK(measure(trials));
  }
  return {};
}

/// Plans may have a stage in common.
void Parts::tell_once(std::string failure) {
  if (std::ranges::find(failures_, failure) == failures_.end()) {
    failures_.push_back(std::move(failure));
  }
}

Result<std::optional<cost::Cost>> Parts::measure_chain(const Cover& cover,
                                                       const device::Device& device) {
  PENSTOCK_TRY(auto cost, measure_chain(cover, device, devices_));
  const auto& first = cover.front();
  const bool as_others = device.cpus.size() == devices_.front().cpus.size();
  if (cost && cover.size() == 1 && as_others && find(way_of(first), first.nodes) == nullptr) {
    auto& trial = earlier_.emplace_back();
    trial.candidate.nodes = first.nodes;
    trial.way = static_cast<std::size_t>(std::ranges::find(ways_, way_of(first)) - ways_.begin());
    trial.cost = cost;
  }
  return cost;
}

Result<std::optional<cost::Cost>> Parts::measure_chain(const Cover& cover,
                                                       const device::Device& device,
                                                       const std::vector<device::Device>& beside) {
  std::optional<cost::Part> chain;
  for (const auto& chosen : cover) {
    PENSTOCK_TRY(auto part, part_of(chosen.nodes, way_of(chosen)));
    if (!chain) {
      chain = std::move(part);
      continue;
    }
    chain->models.push_back(std::move(part.models.front()));
    chain->flush_denormals = chain->flush_denormals || part.flush_denormals;
  }
  place(*chain, device, beside);
  PENSTOCK_TRY(const auto costs, profiler_->measure(std::span(&*chain, 1)));
  const auto& cost = costs.front();
  const bool as_others = device.cpus.size() == devices_.front().cpus.size();
  if (cost && cost->failure) {
    const auto where = device.is_accelerator() ? concat(" on ", device::to_string(device))
                                               : concat(" with ", chain->threads, " threads");
    tell_once(concat(backends_in(cover), " on ", cost::name_of(*chain), as_others ? "" : where,
                     ": ", told(*cost->failure, profiler_->options().silence_seconds)));
  }
  return cost;
}

Result<std::optional<double>> Parts::chain_seconds(const Cover& cover) {
  PENSTOCK_TRY(const auto cost, measure_chain(cover, devices_.front()));
  if (!cost) return std::optional<double>();
  if (cost->failure) return std::optional(collage::kInfinite);
  least_chain_ = least_chain_ > 0 ? std::min(least_chain_, cost->seconds) : cost->seconds;
  return std::optional(cost->seconds);
}

/// Devices of one text take the same time.
std::string Parts::kind_of(const device::Device& device) const {
  const auto found = std::ranges::find(devices_, device);
  if (found != devices_.end()) return kinds_[static_cast<std::size_t>(found - devices_.begin())];
  if (device.is_accelerator()) return device::to_string(device);
  return device::place_of(profiler_->topology(), device);
}

Result<std::vector<double>> Parts::paces_of(const Cover& cover,
                                            const std::vector<double>& node_seconds) {
  const Place as_the_first{*graph_, devices_};
  const auto expected = [&](const device::Device& device) {
    return as_the_first.seconds_on(device, all_nodes(*graph_), node_seconds);
  };
  std::vector<double> paces(devices_.size(), 1);
  std::map<std::string, double> known{{kinds_.front(), 1}};
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const auto [pace, fresh] = known.emplace(kinds_[i], 1);
    if (fresh) {
      PENSTOCK_TRY(const auto first, measure_chain(cover, devices_.front()));
      PENSTOCK_TRY(const auto there, measure_chain(cover, devices_[i]));
      if (first && !first->failure && there && !there->failure && first->seconds > 0) {
        pace->second =
            there->seconds / first->seconds * expected(devices_.front()) / expected(devices_[i]);
      }
    }
    paces[i] = pace->second;
  }
  return paces;
}

Result<std::optional<bool>> Parts::stages_run(const std::vector<partition::ChosenStage>& stages) {
  for (const auto& stage : stages) {
    for (const auto& part : stage.parts) {
      if (allowed(part)) continue;
      tell_once(concat(way_of(part).name(), " on ", collage::label_of(*graph_, part.nodes),
                       ": the rules given do not yield it"));
      return std::optional(false);
    }
    std::set<std::string> kinds;
    for (const auto& device : stage.devices) {
      if (!kinds.insert(kind_of(device)).second) continue;
      PENSTOCK_TRY(const auto cost, measure_chain(stage.parts, device));
      if (!cost) return std::optional<bool>();
      if (cost->failure) return std::optional(false);
    }
  }
  return std::optional(true);
}

/// Nothing: none is faster, or the time was up.
Result<std::optional<Cover>> Parts::faster_stage(const partition::ChosenStage& stage) {
  const auto& device = stage.devices.front();
  PENSTOCK_TRY(const auto own, measure_chain(stage.parts, device));
  if (!own || own->failure) return std::optional<Cover>();
  std::optional<Cover> fastest;
  double least = own->seconds * kFasterStage;
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    const Cover cover{{ways_[way].backend, ways_[way].options, stage.nodes}};
    if (cover == stage.parts) continue;
    const bool ruled = ruled_.contains(ways_[way].backend);
    if (has_too_many_nodes() ? ruled : !collage::yields(*graph_, rules_[way], stage.nodes)) {
      continue;
    }
    PENSTOCK_TRY(const auto cost, measure_chain(cover, device));
    if (!cost || cost->failure || cost->seconds >= least) continue;
    fastest = cover;
    least = cost->seconds;
  }
  return fastest;
}

Result<std::optional<Cover>> Parts::faster_stages(
    const std::vector<partition::ChosenStage>& stages) {
  Cover cover;
  bool faster = false;
  for (const auto& stage : stages) {
    PENSTOCK_TRY(auto parts, faster_stage(stage));
    faster = faster || parts;
    std::ranges::copy(parts.value_or(stage.parts), std::back_inserter(cover));
  }
  return faster ? std::optional(std::move(cover)) : std::nullopt;
}

std::vector<double> Parts::node_seconds(const Cover& cover) const {
  auto seconds = analytic_;
  const auto scale = [&](const std::vector<graph::NodeId>& nodes, double measured) {
    double sum = 0;
    for (const auto node : nodes) sum += seconds[graph::index(node)];
    if (sum <= 0) return;
    for (const auto node : nodes) seconds[graph::index(node)] *= measured / sum;
  };
  for (const auto& part : cover) {
    const auto way =
        static_cast<std::size_t>(std::ranges::find(ways_, way_of(part)) - ways_.begin());
    for (std::size_t piece = 0; piece < units_.size(); ++piece) {
      const auto& nodes = units_.nodes[piece];
      if (!std::ranges::includes(part.nodes, nodes)) continue;
      if (const auto measured = piece_seconds(way, piece)) scale(nodes, *measured);
    }
    const double measured = seconds_of(way_of(part), part.nodes);
    if (std::isfinite(measured)) scale(part.nodes, measured);
  }
  return seconds;
}

std::vector<double> Parts::claimed_seconds(std::size_t way) const {
  std::vector<double> seconds(graph_->nodes.size(), collage::kInfinite);
  const auto share = [&](const std::vector<graph::NodeId>& nodes, double measured,
                         std::vector<double> weights) {
    double sum = 0;
    for (const auto node : nodes) sum += weights[graph::index(node)];
    if (sum <= 0 || !std::isfinite(sum)) return;
    for (const auto node : nodes) {
      seconds[graph::index(node)] = measured * weights[graph::index(node)] / sum;
    }
  };
  for (std::size_t piece = 0; piece < units_.size(); ++piece) {
    if (const auto measured = piece_seconds(way, piece)) {
      share(units_.nodes[piece], *measured, analytic_);
    }
  }
  // One call costs less than those of its pieces: what the largest region took goes last.
  std::vector<const Trial*> larger;
  for (const auto& trial : trials_) {
    if (trial.way == way && std::isfinite(trial.seconds())) larger.push_back(&trial);
  }
  std::ranges::stable_sort(larger, {},
                           [](const Trial* trial) { return trial->candidate.nodes.size(); });
  for (const auto* trial : larger) {
    double known = 0;
    for (const auto node : trial->candidate.nodes) known += seconds[graph::index(node)];
    share(trial->candidate.nodes, trial->seconds(), std::isfinite(known) ? seconds : analytic_);
  }
  return seconds;
}

Status Parts::measure_largest(std::size_t way) {
  std::optional<std::size_t> largest;
  double most = 0;
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    const auto& candidate = trials_[i].candidate;
    if (trials_[i].way != way || candidate.units.count() == units_.size()) continue;
    double work = 0;
    for (const auto node : candidate.nodes) work += analytic_[graph::index(node)];
    if (work <= most) continue;
    most = work;
    largest = i;
  }
  return largest ? measure(*largest) : Status();
}

namespace {

/// Of nodes as one.
TrialReport report_of(const Way& way, const cost::Cost& cost) {
  const auto failure = cost.failure ? cost.failure->message : std::string();
  return {way.name(), cost.seconds, cost.low, cost.high, 1, failure};
}

}  // namespace

TrialReport Parts::trial_of(std::size_t way, const std::vector<graph::NodeId>& nodes) const {
  if (const auto* trial = find(ways_[way], nodes)) return report_of(ways_[way], *trial->cost);
  TrialReport report;
  report.backend = ways_[way].name();
  report.pieces = 0;
  std::size_t covered = 0;
  for (std::size_t piece = 0; piece < units_.size(); ++piece) {
    if (!std::ranges::includes(nodes, units_.nodes[piece])) continue;
    const auto found = single_.find({way, piece});
    const auto* trial = found == single_.end() ? nullptr : &trials_[found->second];
    if (trial == nullptr || !trial->cost) continue;
    if (trial->cost->failure) {
      report.failure = concat(trial->candidate.label, ": ", trial->cost->failure->message);
      return report;
    }
    covered += units_.nodes[piece].size();
    report.seconds += trial->cost->seconds;
    report.low += trial->cost->low;
    report.high += trial->cost->high;
    ++report.pieces;
  }
  if (covered < nodes.size()) report.failure = "not tried on all of it";
  return report;
}

TrialReport Parts::trial_on(std::size_t way, const std::vector<graph::NodeId>& nodes,
                            const std::vector<device::Device>& devices) const {
  const auto* narrow = find(ways_[way], nodes);
  const auto refused = narrow == nullptr ? std::nullopt : narrow->cost->failure;
  // What is computed does not hang on the number of CPUs.
  if (refused && refused->kind == cost::FailureKind::kWrongOutput) {
    return report_of(ways_[way], *narrow->cost);
  }
  if (auto part = part_of(nodes, ways_[way])) {
    place(*part, devices.front(), devices);
    const auto known = profiler_->find(*part);
    if (known && *known) return report_of(ways_[way], **known);
  }
  TrialReport report;
  report.backend = ways_[way].name();
  report.pieces = 0;
  report.failure = concat("not tried on ", counted(devices.front().cpus.size(), "CPU"), " at once");
  return report;
}

std::vector<TrialReport> Parts::trials_of(const std::vector<graph::NodeId>& nodes,
                                          const std::vector<device::Device>& devices) const {
  const auto& device = devices.front();
  const bool as_the_first =
      device.is_accelerator() || device.cpus.size() == devices_.front().cpus.size();
  std::vector<TrialReport> reports;
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    reports.push_back(as_the_first ? trial_of(way, nodes) : trial_on(way, nodes, devices));
  }
  return reports;
}

/// Of measured parts alone.
Result<collage::Covers> Parts::known_covers() const {
  auto known = problem();
  for (auto& candidate : known.candidates) {
    if (std::isnan(candidate.cost)) candidate.cost = collage::kInfinite;
  }
  return collage::find_covers(known, {});
}

Cover Parts::cheapest_cover() const {
  const auto covers = known_covers();
  return covers && !covers->best.empty() ? cover_of(covers->best.front()) : Cover();
}

double Parts::least_cover() const {
  const auto covers = known_covers();
  double least = covers ? covers->lower_bound : 0;
  if (least_chain_ > 0) least = std::min(least, least_chain_);
  return least;
}

Result<std::string> Parts::failure_of(const partition::ChosenPart& part,
                                      const device::Device& device) {
  const auto way = way_of(part);
  // What is known was measured on CPUs.
  const auto* known = device.is_accelerator() ? nullptr : find(way, part.nodes);
  const auto sentence = [&](const cost::Failure& failure) {
    return concat(way.name(), " on ", collage::label_of(*graph_, part.nodes), ": ",
                  cost::to_string(failure.kind), ": ", failure.message);
  };
  if (known != nullptr && known->checked) {
    return known->cost->failure ? sentence(*known->cost->failure) : std::string();
  }
  PENSTOCK_TRY(auto alone, part_of(part.nodes, way));
  if (device.is_accelerator()) place(alone, device, {});
  measure_in_any_case();
  const auto result = profiler_->check(alone, check_seeds(), tolerance_);
  if (!result && result.error().code == Code::kFailedPrecondition) return std::string();
  if (!result) return result.error();
  if (!result->failure) return std::string();
  return sentence(*result->failure);
}

}  // namespace penstock::tune
