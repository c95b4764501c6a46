// Pipeline::write_trace(): Chrome's trace event format, which Perfetto reads too.
#include <fstream>

#include <nlohmann/json.hpp>

#include "penstock/pipeline/generations.h"

namespace penstock::pipeline {
namespace {

// Microseconds with nanosecond digits, as the format has them.
double us(std::int64_t ns) {
  return static_cast<double>(ns) / 1000.0;
}

}  // namespace

Result<std::uint64_t> Pipeline::write_trace(const std::filesystem::path& file) const {
  const auto [state, lock] = generations_->look();
  if (!state->options.trace) {
    return make_error(Code::kFailedPrecondition,
                      "trace: the pipeline was started without tracing; set Options::trace, in "
                      "Python trace=True");
  }
  std::ofstream out(file);
  if (!out) return not_found("trace: cannot write '", file.string(), "'");
  out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  bool first = true;
  const auto emit = [&](const nlohmann::json& event) {
    if (!std::exchange(first, false)) out << ",\n";
    out << event.dump();
  };
  int lane = 0;
  std::uint64_t lost = 0;
  for (const auto& worker : state->workers) {
    const auto& stage = *worker->stage().plan;
    ++lane;
    emit({{"ph", "M"},
          {"name", "thread_name"},
          {"pid", 1},
          {"tid", lane},
          {"args",
           {{"name", concat(stage.name, "/", worker->replica(), " on ",
                            device::to_string(stage.devices[worker->replica()]))}}}});
    const auto spans = worker->spans();
    lost += spans.lost;
    for (const auto& span : spans.kept) {
      emit({{"ph", "X"},
            {"name", concat("frame ", span.frame)},
            {"cat", stage.name},
            {"pid", 1},
            {"tid", lane},
            {"ts", us(span.start_ns)},
            {"dur", us(span.end_ns - span.start_ns)},
            {"args",
             {{"frame", span.frame},
              {"queue_us", us(std::max<std::int64_t>(span.start_ns - span.ready_ns, 0))}}}});
    }
  }
  out << "\n]}\n";
  out.close();  // Only then is it known that all was written.
  if (out) return lost;
  return make_error(Code::kResourceExhausted, "trace: cannot write '", file.string(),
                    "'; is the disk full?");
}

}  // namespace penstock::pipeline
