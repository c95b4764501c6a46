// Work: what operators compute and must move, and the time that a machine needs for it at least.
// The work is counted from the operators' types.
#pragma once

#include <span>
#include <vector>

#include "penstock/graph/graph.h"

namespace penstock::cost {

struct Work {
  double flops = 0;        ///< Of fp32 numbers. A multiplication and an addition are two.
  double other_flops = 0;  ///< Of integers and numbers of other widths, of which no peak is known.
  double bytes = 0;        ///< That come from, or go to, where the work does not see.
  int uncounted = 0;       ///< Nodes of which no flops are known: open shapes, operators of others.
  Work& operator+=(const Work& other);
};

/// What a part computes: as one, and each of its nodes within it.
struct PartWork {
  Work all;
  std::vector<Work> nodes;  ///< In the order that was given.
};

/// Of an engine that keeps what passes between the part's nodes to itself: each constant, and each
/// value from outside, is read once, each value that is needed outside is written once. A node's
/// bytes are those of them that it reads or writes. Multiply-accumulates count as
/// graph::known_macs_of() says; of pooling, each place of the window counts one; of reductions each
/// element that is read; of what only moves values nothing; of all others one for each element that
/// is written: no less is done. Open dimensions are at their bound. `frames`: that share a call, of
/// which this is one's share: they read each constant once together.
PartWork work_of(const graph::Graph& graph, std::span<const graph::NodeId> nodes, int frames = 1);

/// Whether the operator changes the place, the shape or the type of values, and computes none.
bool only_moves(const graph::Node& node);

/// The least time of some work.
struct Limit {
  double seconds = 0;
  bool by_memory = false;  ///< Moving takes longer than computing.
};

/// By the roofline model (Williams, Waterman, Patterson, "Roofline: an insightful visual
/// performance model for multicore architectures", CACM 52(4), 2009): computing and moving overlap,
/// so that the longer of the two remains. Without other_flops. \pre  both rates are over 0
Limit limit_of(const Work& work, double flops_per_second, double bytes_per_second);

}  // namespace penstock::cost
