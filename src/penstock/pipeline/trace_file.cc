// Writes each event as a line of JSON at once, after a head with the times of two clocks.
#include "penstock/pipeline/trace_file.h"

#include <cerrno>
#include <chrono>
#include <system_error>

#include <nlohmann/json.hpp>

#include "penstock/base/files.h"
#include "penstock/base/missing_folder.h"

namespace penstock::pipeline {
namespace {

using nlohmann::json;

/// Microseconds with nanosecond digits, as the format has them.
double us(std::int64_t ns) {
  return static_cast<double>(ns) / 1000.0;
}

json to_json(const TraceFile::Arguments& arguments) {
  json made = json::object();
  for (const auto& [name, value] : arguments) {
    std::visit([&, key = name](const auto& held) { made[key] = held; }, value);
  }
  return made;
}

/// A client's own words may be no UTF-8.
std::string text_of(const json& event) {
  return event.dump(-1, ' ', false, json::error_handler_t::replace);
}

template <typename Clock>
std::int64_t now_of() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

}  // namespace

Result<TraceFile> TraceFile::create(const std::filesystem::path& file) {
  auto draft = std::make_unique<Draft>(file);
  if (!draft->out()) {
    const int number = errno;
    const auto folder = file.has_parent_path() ? file.parent_path() : ".";
    return make_error(code_of_errno(number), "trace: cannot write '", file.string(),
                      "': ", std::generic_category().message(number), about_missing_folder(folder));
  }
  const json clocks = {{"steady_ns", now_of<std::chrono::steady_clock>()},
                       {"unix_ns", now_of<std::chrono::system_clock>()}};
  draft->out() << R"({"displayTimeUnit":"ns","otherData":)" << clocks.dump()
               << ",\"traceEvents\":[\n";
  return TraceFile(file, std::move(draft));
}

void TraceFile::write(const std::string& event) {
  if (!std::exchange(first_, false)) draft_->out() << ",\n";
  draft_->out() << event;
}

int TraceFile::add_process(const std::string& name) {
  const int number = ++processes_;
  write(text_of(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", number}, {"args", {{"name", name}}}}));
  return number;
}

void TraceFile::name_lane(int process, int lane, const std::string& name) {
  write(text_of({{"ph", "M"},
                 {"name", "thread_name"},
                 {"pid", process},
                 {"tid", lane},
                 {"args", {{"name", name}}}}));
}

void TraceFile::add_span(int process, int lane, const std::string& name, std::string_view category,
                         std::int64_t start_ns, std::int64_t end_ns, const Arguments& arguments) {
  write(text_of({{"ph", "X"},
                 {"name", name},
                 {"cat", category},
                 {"pid", process},
                 {"tid", lane},
                 {"ts", us(start_ns)},
                 {"dur", us(end_ns - start_ns)},
                 {"args", to_json(arguments)}}));
}

void TraceFile::add_free_span(int process, std::uint64_t id, const std::string& name,
                              std::string_view category, std::int64_t start_ns, std::int64_t end_ns,
                              const Arguments& arguments) {
  const auto event = [&](const char* phase, std::int64_t at_ns) {
    return json{{"ph", phase},    {"name", name}, {"cat", category}, {"id", id},
                {"pid", process}, {"tid", 0},     {"ts", us(at_ns)}};
  };
  json begins = event("b", start_ns);
  begins["args"] = to_json(arguments);
  write(text_of(begins));
  write(text_of(event("e", end_ns)));
}

void TraceFile::add_flow(int process, int lane, std::uint64_t id, Step step, std::int64_t at_ns) {
  const char* phase = step == Step::kFirst ? "s" : step == Step::kNext ? "t" : "f";
  json event = {{"ph", phase},    {"name", "frame"},
                {"cat", "frame"}, {"id", std::to_string(process) + "." + std::to_string(id)},
                {"pid", process}, {"tid", lane},
                {"ts", us(at_ns)}};
  if (step == Step::kLast) event["bp"] = "e";  // Binds to the span around it, not to the next one.
  write(text_of(event));
}

void TraceFile::add_counter(int process, const std::string& name, std::int64_t at_ns,
                            std::uint64_t value) {
  write(text_of({{"ph", "C"},
                 {"name", name},
                 {"pid", process},
                 {"ts", us(at_ns)},
                 {"args", {{"value", value}}}}));
}

Status TraceFile::close() {
  draft_->out() << "\n]}\n";
  if (draft_->commit()) return {};
  return make_error(Code::kResourceExhausted, "trace: cannot write '", name_.string(),
                    "'; is the disk full?");
}

}  // namespace penstock::pipeline
