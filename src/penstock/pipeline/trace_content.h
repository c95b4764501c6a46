// What a pipeline's part of a trace is made of, and how it is written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/pipeline/journeys.h"
#include "penstock/pipeline/spans.h"
#include "penstock/pipeline/trace_file.h"

namespace penstock::pipeline {

struct TracedEdge {
  std::string name;
  std::string from;             ///< A stage; empty: the pipeline's input.
  std::vector<std::string> to;  ///< Stages; empty: the pipeline's output.
  std::uint64_t bytes = 0;      ///< Of one slot; 0: the backend allocates it.
  FrameNumber capacity = 0;     ///< Frame n waits for the slot of n - capacity; 0: it never waits.
};

struct TraceContent {
  std::vector<WorkerSpans> workers;
  std::vector<TracedEdge> edges;
  std::vector<Journey> journeys;  ///< By frame.

  /// Earlier spans, of all workers together.
  [[nodiscard]] std::uint64_t lost() const;
};

struct State;
/// Of one plan. \pre  the caller has its State::looked_at.
TraceContent content_of(const State& state);

/// As one process of the trace: a lane for pushes, one for each worker and each call that it has at
/// once besides, one for pops. Spans are what a worker computes and what it waits for between: for
/// input, for room behind it, and then until it is woken and begins; a flow goes with each frame
/// from push to pop; counters tell how many frames each edge holds, and how much memory of the
/// slots is in use, of those frames whose whole way is known.
void write_content(TraceFile& trace, const std::string& name, const TraceContent& content);

}  // namespace penstock::pipeline
