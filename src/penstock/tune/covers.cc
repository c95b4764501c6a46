// Searches covers of measured pieces, makes pieces finer, and times the best covers as chains.
#include "penstock/tune/covers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "penstock/collage/measured_cover.h"

namespace penstock::tune {
namespace {

constexpr double kHope = 0.97;           ///< Larger parts may take so much less than is estimated.
constexpr int kFinerRounds = 4;          ///< Of making the pieces finer where mixing may gain,
constexpr double kWorthwhile = 0.99;     ///< as long as the best cover is so much cheaper.
constexpr double kBetterChain = 0.995;   ///< So much less is worth another plan.
constexpr double kHopelessChain = 1.05;  ///< Of the fastest whole network's time: not worth a plan.
constexpr double kForParts = 0.8;  ///< Of the time and count: the rest is for covers as a whole.
constexpr double kNearPiece =
    0.9;  ///< A backend that takes 1 / kNearPiece the time may win inside a piece.

/// A cover, and the seconds of its parts.
struct Found {
  double seconds = 0;
  Cover cover;
};

/// The ways that are the fastest on some piece.
std::set<std::size_t> fastest_on_pieces(const Parts& parts) {
  std::set<std::size_t> fastest;
  for (std::size_t piece = 0; piece < parts.pieces().size(); ++piece) {
    std::optional<std::pair<double, std::size_t>> least;
    for (std::size_t way = 0; way < parts.ways().size(); ++way) {
      const auto seconds = parts.piece_seconds(way, piece);
      if (seconds && (!least || *seconds < least->first)) least = {*seconds, way};
    }
    if (least) fastest.insert(least->second);
  }
  return fastest;
}

/// Whether a cover of several parts may be the best: ways differ in where they are the fastest, or
/// the one that is the fastest everywhere does not run the network as a whole.
Result<bool> may_divide(Parts& parts) {
  const auto fastest = fastest_on_pieces(parts);
  if (fastest.size() != 1) return fastest.size() > 1;
  PENSTOCK_TRY(const auto whole, parts.whole_seconds(*fastest.begin()));
  return !whole;
}

/// The fastest on the whole network; none where no way takes it all.
Result<std::optional<std::size_t>> fastest_whole(Parts& parts) {
  std::optional<std::size_t> fastest;
  double least = collage::kInfinite;
  for (std::size_t way = 0; way < parts.ways().size(); ++way) {
    PENSTOCK_TRY(const auto seconds, parts.whole_seconds(way));
    if (!seconds || *seconds >= least) continue;
    fastest = way;
    least = *seconds;
  }
  return fastest;
}

/// Of each node, by which pieces are to be finer where another way comes near the one that is the
/// fastest on the whole, or passes it. Empty: nowhere.
std::vector<double> finer_weights(const Parts& parts, std::optional<std::size_t> base) {
  auto weights = parts.analytic_seconds();
  double nearest = 0;
  for (std::size_t piece = 0; piece < parts.pieces().size() && base; ++piece) {
    const auto own = parts.piece_seconds(*base, piece);
    if (!own) continue;
    double other = collage::kInfinite, sum = 0;
    for (std::size_t way = 0; way < parts.ways().size(); ++way) {
      const auto seconds = parts.piece_seconds(way, piece);
      if (seconds && way != *base) other = std::min(other, *seconds);
    }
    const double ratio = *own / other;
    nearest = std::max(nearest, ratio);
    const auto& nodes = parts.pieces().nodes[piece];
    for (const auto node : nodes) sum += weights[graph::index(node)];
    if (sum <= 0) continue;
    const double share = *own * ratio * ratio / sum;
    for (const auto node : nodes) weights[graph::index(node)] *= share;
  }
  if (nearest < kNearPiece) return {};
  return weights;
}

/// Those of several parts, which are checked: whole networks are run without being asked for.
Result<std::vector<Found>> checked(Parts& parts, const std::vector<collage::Cover>& best) {
  std::vector<Found> covers;
  for (const auto& found : best) {
    auto cover = parts.cover_of(found);
    if (cover.size() == 1) continue;
    for (const int number : found.candidates) {
      auto done = parts.check(static_cast<std::size_t>(number));
      if (!done && done.error().code != Code::kCancelled) return std::move(done).error();
    }
    covers.push_back({found.cost, std::move(cover)});
  }
  return covers;
}

/// With the pieces as they are.
Result<std::vector<Found>> search(Parts& parts, const Options& options, int count) {
  PENSTOCK_CHECK_OK(parts.measure_boundaries());
  Status status;
  const auto trial = [&](int number) -> const Trial& {
    return parts.trials()[static_cast<std::size_t>(number)];
  };
  const collage::Measuring measuring{
      .estimate = [&](int number) { return parts.estimate(trial(number)) * kHope; },
      .measure =
          [&](int number) {
            if (auto done = parts.measure(static_cast<std::size_t>(number)); !done) {
              status = std::move(done);
            }
            return trial(number).seconds();
          },
      .stop = [&] { return !status || parts.over(); }};
  collage::CoverOptions limits;
  limits.covers = count;
  limits.interrupted = options.stopped;
  // A part that fails its check is out of the next search.
  for (std::size_t failed = SIZE_MAX; failed != parts.failures().size();) {
    failed = parts.failures().size();
    const auto found = collage::find_covers_by_measuring(parts.problem(), measuring, limits);
    if (!status) return std::move(status).error();
    if (!found) break;  // The whole plans are what there is.
    PENSTOCK_TRY(auto covers, checked(parts, found->covers.best));
    if (failed == parts.failures().size()) return covers;
  }
  return std::vector<Found>();
}

/// The cover with two parts made one, or one part elsewhere.
std::vector<Cover> covers_beside(const Parts& parts, const Cover& cover) {
  std::vector<Cover> covers;
  // One part for two that follow one another in an order of execution never closes a cycle.
  auto merged = merge_neighbours(cover);
  const bool may =
      std::ranges::all_of(merged, [&](const auto& part) { return parts.allowed(part); });
  if (may && merged.size() < cover.size()) covers.push_back(std::move(merged));
  for (std::size_t i = 0; i < cover.size(); ++i) {
    const double own = parts.seconds_of(way_of(cover[i]), cover[i].nodes);
    for (const auto& way : parts.ways()) {
      if (way == way_of(cover[i])) continue;
      const double other_seconds = parts.seconds_of(way, cover[i].nodes);
      if (std::isinf(other_seconds) || other_seconds * kNearPiece > own) continue;
      auto& other = covers.emplace_back(cover);
      other[i].backend = way.backend;
      other[i].options = way.options;
    }
  }
  return covers;
}

/// Those that take `most` seconds at most. The covers are timed as a whole; then the best of them
/// replaced by its neighbours, as long as that is faster.
Result<std::vector<Cover>> run_as_chains(Parts& parts, std::vector<Found> found, double most) {
  for (auto& [seconds, cover] : found) {
    PENSTOCK_TRY(const auto chain, parts.chain_seconds(cover));
    seconds = chain.value_or(collage::kInfinite);
  }
  // What no process of its own has compiled is not run in this one.
  std::erase_if(found, [](const Found& each) { return std::isinf(each.seconds); });
  std::ranges::stable_sort(found, {}, &Found::seconds);
  for (bool better = !found.empty(); better;) {
    better = false;
    for (auto& cover : covers_beside(parts, found.front().cover)) {
      if (parts.over()) break;
      PENSTOCK_TRY(const auto chain, parts.chain_seconds(cover));
      if (!chain || *chain >= found.front().seconds * kBetterChain) continue;
      found.insert(found.begin(), {*chain, std::move(cover)});
      found.pop_back();
      better = true;
      break;
    }
  }
  std::vector<Cover> covers;
  for (auto& each : found) {
    if (each.seconds <= most) covers.push_back(std::move(each.cover));
  }
  return covers;
}

/// Cheapest first, each once.
void add(std::vector<Found>& best, std::vector<Found> found) {
  for (auto& each : found) {
    if (std::ranges::find(best, each.cover, &Found::cover) == best.end()) {
      best.push_back(std::move(each));
    }
  }
  std::ranges::stable_sort(best, {}, &Found::seconds);
}

}  // namespace

Result<std::vector<Cover>> find_covers(Parts& parts, const Options& options, int count,
                                       Parts::Clock::time_point deadline) {
  if (parts.pieces().size() < 2) return std::vector<Cover>();
  const auto begin = Parts::Clock::now();
  parts.measure_until(
      begin + std::chrono::duration_cast<Parts::Clock::duration>((deadline - begin) * kForParts),
      kForParts);
  PENSTOCK_TRY(const auto base, fastest_whole(parts));
  if (parts.ways().size() < 2 && base) return std::vector<Cover>();
  std::vector<Found> best;
  double least = collage::kInfinite;
  for (int round = 0; round < kFinerRounds && !parts.over(); ++round) {
    PENSTOCK_CHECK_OK(parts.measure_pieces());
    PENSTOCK_TRY(const bool divide, may_divide(parts));
    if (divide) {
      PENSTOCK_TRY(auto found, search(parts, options, count));
      add(best, std::move(found));
    }
    const double now = best.empty() ? collage::kInfinite : best.front().seconds;
    if (round > 0 && now > least * kWorthwhile) break;
    least = now;
    const auto weights = finer_weights(parts, base);
    // Pieces that nobody measures any more say nothing.
    if (weights.empty() || round + 1 == kFinerRounds || parts.over()) break;
    PENSTOCK_CHECK_OK(parts.cut(weights));
  }
  if (best.size() > static_cast<std::size_t>(count)) best.resize(static_cast<std::size_t>(count));
  parts.measure_until(deadline);
  double most = collage::kInfinite;
  if (base) {
    PENSTOCK_TRY(const auto whole, parts.whole_seconds(*base));
    if (whole) most = *whole * kHopelessChain;
  }
  return run_as_chains(parts, std::move(best), most);
}

}  // namespace penstock::tune
