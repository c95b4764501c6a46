// Repeats inference, folding, taking branches and unrolling loops until nothing changes.
#include "penstock/graph/simplify.h"

#include "penstock/graph/bodies.h"
#include "penstock/graph/branches.h"
#include "penstock/graph/clean.h"
#include "penstock/graph/fold.h"
#include "penstock/graph/inference.h"
#include "penstock/graph/loops.h"

namespace penstock::graph {
namespace {

void measure_constants(Draft& draft) {
  for (const auto& value : draft.graph.values) {
    if (value.constant) draft.file_constant_bytes += value.constant->bytes();
  }
}

/// What more constants may make known: another round. \returns whether there was anything.
Result<bool> open_up(Draft& draft, const Engine& engine) {
  PENSTOCK_TRY(const bool simpler, simplify_bodies(draft, engine));
  if (simpler) return true;
  return unroll_known_loops(draft);
}

/// Each round knows more shapes than the one before, and so may fold more. Each folds a node, takes
/// a branch out of its If, or unrolls a Loop, of which there are only so many.
Status fold(Draft& draft, const Engine& engine) {
  auto& nodes = draft.graph.nodes;
  auto source = Source::kFile;
  bool ask = true;
  for (;;) {
    const auto known = infer_types(draft.graph, source);
    source = Source::kInference;
    if (ask) ask_engine(draft.graph, engine);
    auto before = nodes.size();
    bool changed = fold_known_integers(draft, known);
    draft.graph.import.folded_nodes += before - nodes.size();
    PENSTOCK_TRY(ask, take_known_branches(draft));
    before = nodes.size();
    changed = fold_constants(draft, engine) || changed;
    draft.graph.import.folded_nodes += before - nodes.size();
    if (!changed && !ask) {
      PENSTOCK_TRY(ask, open_up(draft, engine));
      if (!ask) return {};
    }
    remove_identities(draft);
    remove_dead(draft);
  }
}

}  // namespace

Status simplify(Draft& draft, const Engine& engine) {
  PENSTOCK_CHECK_OK(make_constants(draft));
  remove_identities(draft);
  remove_dead(draft);
  measure_constants(draft);
  return fold(draft, engine);
}

}  // namespace penstock::graph
