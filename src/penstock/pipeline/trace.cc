// Pipeline::write_trace(): the spans of the plan that runs, and of those before it.
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

std::uint64_t TraceContent::lost() const {
  std::uint64_t sum = 0;
  for (const auto& worker : workers) sum += worker.lost;
  return sum;
}

TraceContent content_of(const State& state) {
  const auto name_of = [&](int stage) {
    return stage < 0 ? std::string() : state.stages[static_cast<std::size_t>(stage)]->plan->name;
  };
  TraceContent content;
  for (const auto& worker : state.workers) content.workers.push_back(worker->meter.spans());
  for (const auto& edge : state.edges) {
    TracedEdge traced{.name = edge->name,
                      .from = name_of(edge->from),
                      .bytes = edge->bytes_per_slot(),
                      .capacity = edge->lossy() ? 0 : static_cast<FrameNumber>(edge->capacity())};
    for (const int to : edge->to) traced.to.push_back(name_of(to));
    content.edges.push_back(std::move(traced));
  }
  if (state.journeys) content.journeys = state.journeys->sorted();
  return content;
}

Result<std::uint64_t> Pipeline::add_trace(TraceFile& trace, const std::string& name) const {
  PENSTOCK_CHECK_OK(check_traced());
  TraceContent content;
  const State* newest = nullptr;
  {
    const auto [state, lock] = generations_->look();
    newest = state.get();
    content = content_of(*state);
  }
  // One that takes its place meanwhile has no frames here.
  const auto past = generations_->past.all_but(newest);
  for (std::size_t i = 0; i < past.plans.size(); ++i) {
    write_content(trace, concat(name, ", replaced plan ", i + 1, " of ", past.plans.size()),
                  past.plans[i]);
  }
  write_content(trace, name, content);
  return content.lost() + past.lost;
}

}  // namespace penstock::pipeline
