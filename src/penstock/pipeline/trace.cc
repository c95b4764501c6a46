// Pipeline::write_trace(): the spans of the plan that runs.
#include "penstock/base/option_name.h"
#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/spans.h"
#include "penstock/pipeline/trace_content.h"
#include "penstock/pipeline/trace_file.h"
#include "penstock/pipeline/worker.h"

namespace penstock::pipeline {
Result<std::uint64_t> Pipeline::write_trace(const std::filesystem::path& file) const {
  // Before anything is written over.
  PENSTOCK_CHECK_OK(check_traced());
  PENSTOCK_TRY(auto trace, TraceFile::create(file));
  PENSTOCK_TRY(const std::uint64_t lost, add_trace(trace, "penstock"));
  PENSTOCK_CHECK_OK(trace.close());
  return lost;
}

Status Pipeline::check_traced() const {
  const auto [state, lock] = generations_->look();
  if (state->options.trace) return {};
  return make_error(Code::kFailedPrecondition,
                    "trace: the pipeline was started without tracing; set ", OptionName::kTrace);
}

std::string WorkerSpans::name() const {
  return concat(stage, "/", replica, " on ", device);
}

Result<std::vector<WorkerSpans>> Pipeline::spans() const {
  PENSTOCK_CHECK_OK(check_traced());
  const auto [state, lock] = generations_->look();
  std::vector<WorkerSpans> spans;
  for (const auto& worker : state->workers) spans.push_back(worker->meter.spans());
  return spans;
}

Result<std::uint64_t> Pipeline::add_trace(TraceFile& trace, const std::string& name) const {
  PENSTOCK_CHECK_OK(check_traced());
  const auto [state, lock] = generations_->look();
  const auto name_of = [&state = *state](int stage) {
    return stage < 0 ? std::string() : state.stages[static_cast<std::size_t>(stage)]->plan->name;
  };
  TraceContent content;
  std::uint64_t lost = 0;
  for (const auto& worker : state->workers) {
    content.workers.push_back(worker->meter.spans());
    lost += content.workers.back().lost;
  }
  for (const auto& edge : state->edges) {
    TracedEdge traced{.name = edge->name,
                      .from = name_of(edge->from),
                      .bytes = edge->bytes_per_slot(),
                      .capacity = edge->lossy() ? 0 : static_cast<FrameNumber>(edge->capacity())};
    for (const int to : edge->to) traced.to.push_back(name_of(to));
    content.edges.push_back(std::move(traced));
  }
  if (state->journeys) content.journeys = state->journeys->sorted();
  write_content(trace, name, content);
  return lost;
}

}  // namespace penstock::pipeline
