// Finds the K cheapest covers: a beam search for a first one, then best-first search by bounds.
#include "penstock/collage/cover.h"

#include <algorithm>
#include <chrono>
#include <queue>
#include <set>
#include <utility>

#include "penstock/collage/cover_tree.h"

namespace penstock::collage {
namespace {

constexpr std::size_t kBeam = 16;            // Partial covers kept of each size by the first look.
constexpr double kRounding = 1 + 1e-9;       // Sums of the same costs in another order.
constexpr std::size_t kStepsPerClock = 256;  // Between two looks at it.

/// The K best covers so far, all different.
class Best {
 public:
  explicit Best(int covers) : most_(static_cast<std::size_t>(std::max(covers, 1))) {}

  void offer(Cover cover) {
    auto key = cover.candidates;
    std::ranges::sort(key);
    covers_.insert({cover.cost, key.size(), std::move(key), std::move(cover.candidates)});
    if (covers_.size() > most_) covers_.erase(std::prev(covers_.end()));
  }
  /// A cover that costs more is not wanted.
  [[nodiscard]] double limit() const {
    return covers_.size() < most_ ? kInfinite : covers_.rbegin()->cost * kRounding;
  }
  [[nodiscard]] std::vector<Cover> list() const {
    std::vector<Cover> list;
    list.reserve(covers_.size());
    for (const auto& entry : covers_) list.push_back({entry.order, entry.cost});
    return list;
  }

 private:
  struct Entry {
    double cost;
    std::size_t parts;
    std::vector<int> key;  // Sorted: what tells covers apart.
    std::vector<int> order;
    bool operator<(const Entry& other) const {
      return std::tie(cost, parts, key) < std::tie(other.cost, other.parts, other.key);
    }
  };

  std::size_t most_;
  std::set<Entry> covers_;
};

class Search {
 public:
  Search(const CoverProblem& problem, const CoverModel& model, const CoverOptions& options)
      : problem_(&problem), model_(&model), options_(&options), best_(options.covers) {}

  Result<Covers> run();

 private:
  using Clock = std::chrono::steady_clock;

  void offer(std::vector<int> candidates) {
    auto cover = model_->evaluate(std::move(candidates));
    if (cover) best_.offer(*std::move(cover));
  }
  [[nodiscard]] std::vector<bool> allowed_with(int backend) const;
  void look_ahead(const std::vector<bool>& allowed);
  std::vector<int> expanded(CoverTree& tree, int id, const std::vector<bool>* allowed);
  /// \returns the least bound of what was not looked at; infinite where nothing is left.
  double look_everywhere();
  [[nodiscard]] bool over() const {
    if (options_->interrupted && options_->interrupted()) return true;
    return std::chrono::duration<double>(Clock::now() - begin_).count() > options_->seconds;
  }

  const CoverProblem* problem_;
  const CoverModel* model_;
  const CoverOptions* options_;
  Clock::time_point begin_ = Clock::now();
  Best best_;
  NodeSet reached_ = NodeSet(model_->nodes());
};

/// The parts of a backend (-1: of any), and others only where it takes no node.
std::vector<bool> Search::allowed_with(int backend) const {
  std::vector<bool> allowed;
  NodeSet taken(model_->nodes());
  for (const auto& part : model_->parts()) {
    const auto& candidate = problem_->candidates[static_cast<std::size_t>(part.candidate)];
    allowed.push_back(backend < 0 || candidate.place.backend == backend);
    if (allowed.back()) taken |= part.nodes;
  }
  for (std::size_t p = 0; p < allowed.size(); ++p) {
    allowed[p] = allowed[p] || !model_->parts()[p].nodes.intersects(taken);
  }
  return allowed;
}

/// A beam from few to many covered nodes, for a first good cover by the allowed parts.
void Search::look_ahead(const std::vector<bool>& allowed) {
  CoverTree tree(*model_, 1);
  std::vector<std::vector<int>> levels(model_->nodes() + 1);
  levels.front().push_back(0);
  for (auto& level : levels) {
    std::ranges::sort(level, {}, [&](int id) {
      return std::tuple(tree.step(id).bound, tree.step(id).cost.parts, id);
    });
    if (level.size() > kBeam) level.resize(kBeam);
    for (const int id : level) {
      if (over()) return;
      for (const int next : expanded(tree, id, &allowed)) {
        levels[tree.state_of(next).covered.count()].push_back(next);
      }
    }
  }
}

/// What comes after a partial cover; a whole one is offered.
std::vector<int> Search::expanded(CoverTree& tree, int id, const std::vector<bool>* allowed) {
  std::vector<int> found;
  if (tree.stale(id)) return found;
  const auto covered = tree.state_of(id).covered;
  if (covered.first_hole() > reached_.first_hole()) reached_ = covered;
  if (model_->done(tree.state_of(id))) {
    offer(tree.candidates_of(id));
    return found;
  }
  for (const int part : model_->next(tree.state_of(id))) {
    if (allowed != nullptr && !(*allowed)[static_cast<std::size_t>(part)]) continue;
    const int next = tree.extend(id, part);
    if (next >= 0) found.push_back(next);
  }
  return found;
}

double Search::look_everywhere() {
  CoverTree tree(*model_, options_->covers);
  // Least bound first; of equal ones the fewer parts, then what was found first.
  const auto later = [&](int a, int b) {
    const auto& x = tree.step(a);
    const auto& y = tree.step(b);
    return std::tie(x.bound, x.cost.parts, a) > std::tie(y.bound, y.cost.parts, b);
  };
  std::priority_queue<int, std::vector<int>, decltype(later)> open(later);
  open.push(0);
  for (std::size_t looks = 0; !open.empty(); ++looks) {
    const int id = open.top();
    if (tree.step(id).bound > best_.limit()) return kInfinite;
    if (tree.size() > options_->max_states || (looks % kStepsPerClock == 0 && over())) {
      return tree.step(id).bound;
    }
    open.pop();
    for (const int next : expanded(tree, id, nullptr)) {
      if (tree.step(next).bound <= best_.limit()) open.push(next);
    }
  }
  return kInfinite;
}

Result<Covers> Search::run() {
  for (const auto& known : options_->known) {
    PENSTOCK_TRY(auto cover, model_->evaluate(known));
    best_.offer(std::move(cover));
  }
  std::set<int> backends{-1};
  for (const auto& part : model_->parts()) {
    const auto& candidate = problem_->candidates[static_cast<std::size_t>(part.candidate)];
    backends.insert(candidate.place.backend);
    if (candidate.nodes.count() == model_->nodes()) offer({part.candidate});
  }
  for (const int backend : backends) look_ahead(allowed_with(backend));
  const double rest = look_everywhere();
  Covers covers;
  covers.best = best_.list();
  covers.complete = rest == kInfinite;
  if (covers.best.empty()) {
    if (covers.complete) return model_->why_none(reached_);
    return make_error(Code::kDeadlineExceeded,
                      "the search ended before it found any cover: give it more time or states, or "
                      "fewer candidates");
  }
  covers.lower_bound = std::min(rest, covers.best.front().cost);
  return covers;
}

}  // namespace

Result<Cover> evaluate_cover(const CoverProblem& problem, std::vector<int> candidates) {
  PENSTOCK_TRY(const auto model, CoverModel::create(problem));
  return model.evaluate(std::move(candidates));
}

Result<Covers> find_covers(const CoverProblem& problem, const CoverOptions& options) {
  PENSTOCK_TRY(const auto model, CoverModel::create(problem));
  return Search(problem, model, options).run();
}

}  // namespace penstock::collage
