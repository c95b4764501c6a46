// Parts of a contestant run apart first, then it runs beside the best.
#include "penstock/tune/proposals.h"

#include <algorithm>
#include <utility>

#include "penstock/graph/subgraph.h"

namespace penstock::tune {
namespace {

constexpr double kHopelessForm = 0.9;  ///< Of the clean import's rate, for the file as it is.

}  // namespace

Contestant Proposals::whole(const graph::Graph& graph, const Cover& cover, bool on_each) const {
  const auto& devices = context_.devices;
  if (!on_each) {
    return {name_of(cover) + " on all CPUs at once", on_all(graph, cover, devices)};
  }
  // Several covers may have as many parts on the same backends.
  const auto number =
      cover.size() > 1 ? concat(", cover ", context_.contest->entries().size()) : std::string();
  if (!context_.options.states.empty()) {
    return {concat(name_of(cover), " on one device", number),
            tune::on_each(graph, cover, {devices.front()})};
  }
  return {concat(name_of(cover), " on each device", number), tune::on_each(graph, cover, devices)};
}

Proposals::Place Proposals::enter(Contestant contestant) {
  if (context_.is_one_at_a_time()) context_.contest->rest();
  PENSTOCK_TRY(const auto runs, context_.parts->stages_run(contestant.split.stages));
  if (!runs.value_or(false)) return std::optional<std::size_t>();
  return run_beside_best(std::move(contestant));
}

/// In the contest. What the process that measures still holds goes where memory is short.
Proposals::Place Proposals::run_beside_best(Contestant contestant) {
  if (context_.is_one_at_a_time()) context_.profiler->rest();
  PENSTOCK_TRY(const auto place, context_.contest->enter(std::move(contestant)));
  return std::optional(place);
}

Proposals::Place Proposals::enter_whole(const Cover& cover, bool on_each) {
  PENSTOCK_TRY(const auto place, enter(whole(context_.graph, cover, on_each)));
  if (!place || !on_each) return place;
  const auto& entry = context_.contest->entries()[*place];
  if (entry.way.failure.empty()) {
    singles_.insert(*place);
  } else if (cover.size() == 1 && !entry.lacks_room) {
    const bool differs = entry.way.worst_ratio > 0;
    context_.parts->refuse_whole(
        way_of(cover.front()),
        {differs ? cost::FailureKind::kWrongOutput : cost::FailureKind::kRun, entry.way.failure});
  }
  return place;
}

/// The file as it is; null: it cannot be imported so, which is noted, or is no other.
const graph::Graph* Proposals::find_other_form() {
  const auto form = context_.graph_of(true);
  if (!form) {
    context_.report.notes.push_back("left out: the file as it is: " + form.error().message());
    return nullptr;
  }
  const auto hash = [](const graph::Graph& of) {
    return graph::canonical_hash(graph::Subgraph::whole(of));
  };
  return hash(**form) == hash(context_.graph) ? nullptr : *form;
}

Proposals::Place Proposals::enter_as_is(const WholeNetwork& like) {
  const std::optional<std::size_t> none;
  if (!has_room_for(like.cover)) {
    context_.shortlist.leave_out("the file as it is");
    return none;
  }
  if (!other_form_) other_form_ = find_other_form();
  const auto* const form = *other_form_;
  if (form == nullptr) return none;
  const auto way = way_of(like.cover.front());
  context_.say("trying the file as it is");
  const auto device = like.on_each ? context_.devices.front() : union_of(context_.devices);
  PENSTOCK_TRY(const auto seconds, context_.parts->form_seconds(*form, way, device));
  if (!seconds || context_.rate(*seconds, like.on_each) < like.rate * kHopelessForm) return none;
  auto contestant = whole(*form, whole_cover(*form, way), like.on_each);
  contestant.name += ", the file as it is";
  contestant.as_is = true;
  return run_beside_best(std::move(contestant));
}

bool Proposals::has_room_for(const Cover& cover) const {
  const double seconds = std::max(context_.contest->entry_seconds(),
                                  context_.shortlist.trial_seconds(cover.front().backend));
  return context_.shortlist.has_room_for(seconds, context_.comparison_seconds());
}

Cover Proposals::best_cover() const {
  if (singles_.empty()) return context_.parts->cheapest_cover();
  const auto& entries = context_.contest->entries();
  const auto score = [&](std::size_t i) {
    return entries[i].way.failure.empty() ? entries[i].score : 0;
  };
  return entries[*std::ranges::max_element(singles_, {}, score)]
      .contestant.split.stages.front()
      .parts;
}

}  // namespace penstock::tune
