// Pipeline::write_trace(): the spans of the plan that runs.
#include <algorithm>

#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/spans.h"
#include "penstock/pipeline/trace_file.h"

namespace penstock::pipeline {
namespace {

/// What another machine did of one worker's frames: a group of lanes, each frame in one of them.
void add_far_spans(TraceFile& trace, const WorkerSpans& worker) {
  const auto is_far = [](const Span& span) { return span.far.ended_ns != 0; };
  if (std::ranges::none_of(worker.kept, is_far)) return;
  const int process = trace.add_process(
      concat(worker.device, ", ", worker.stage, "/", worker.replica, ", as its own clock says"));
  std::uint64_t id = 0;
  for (const auto& span : worker.kept) {
    if (!is_far(span)) continue;
    const auto& far = span.far;
    const auto add = [&](const std::string& name, std::int64_t from, std::int64_t to,
                         const TraceFile::Arguments& arguments = {}) {
      if (from != 0 && to != 0)
        trace.add_free_span(process, id, name, worker.stage, from, to, arguments);
    };
    ++id;
    add(concat("frame ", span.frame), far.received_ns, far.ended_ns,
        {{"frame", std::uint64_t{span.frame}},
         {"clock_error_us", static_cast<double>(far.error_ns) / 1000.0}});
    add("pull", far.received_ns, far.pulled_ns);
    add("run", far.begun_ns, far.ended_ns);
  }
}

}  // namespace

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
                    "trace: the pipeline was started without tracing; set Options::trace, in "
                    "Python trace=True");
}

std::string WorkerSpans::name() const {
  return concat(stage, "/", replica, " on ", device);
}

Result<std::vector<WorkerSpans>> Pipeline::spans() const {
  PENSTOCK_CHECK_OK(check_traced());
  const auto [state, lock] = generations_->look();
  std::vector<WorkerSpans> spans;
  for (const auto& worker : state->workers) spans.push_back(worker->spans());
  return spans;
}

Result<std::uint64_t> Pipeline::add_trace(TraceFile& trace, const std::string& name) const {
  PENSTOCK_TRY(const auto workers, spans());
  const int process = trace.add_process(name);
  int lane = 0;
  std::uint64_t lost = 0;
  for (const auto& worker : workers) {
    trace.name_lane(process, ++lane, worker.name());
    lost += worker.lost;
    for (const auto& span : worker.kept) {
      const auto queued = std::max<std::int64_t>(span.start_ns - span.ready_ns, 0);
      trace.add_span(process, lane, concat("frame ", span.frame), worker.stage, span.start_ns,
                     span.end_ns,
                     {{"frame", std::uint64_t{span.frame}},
                      {"queue_us", static_cast<double>(queued) / 1000.0}});
    }
    add_far_spans(trace, worker);
  }
  return lost;
}

}  // namespace penstock::pipeline
