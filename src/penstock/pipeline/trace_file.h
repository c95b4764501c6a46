// TraceFile: spans in Chrome's trace event format, which ui.perfetto.dev reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/base/draft.h"
#include "penstock/base/result.h"

namespace penstock::pipeline {

/// Times are of this machine's steady clock, in nanoseconds. The file also says what the clock of
/// the day showed at a moment of the steady one, so that files of several machines can be laid
/// side by side.
class TraceFile {
 public:
  using Value = std::variant<std::uint64_t, double, std::string>;
  using Arguments = std::vector<std::pair<std::string, Value>>;

  /// The file has its name once it is closed; until then, and where it is given up, another one of
  /// that name stays. Devices, pipes and links are written in place.
  /// \error kNotFound  there is no such folder.
  /// \error kPermissionDenied, kResourceExhausted  it cannot be written.
  static Result<TraceFile> create(const std::filesystem::path& file);

  /// A group of lanes. \returns its number, from 1 on.
  int add_process(const std::string& name);
  void name_lane(int process, int lane, const std::string& name);
  /// Spans of one lane lie beside or within one another.
  void add_span(int process, int lane, const std::string& name, std::string_view category,
                std::int64_t start_ns, std::int64_t end_ns, const Arguments& arguments);
  /// One of several at a time: what has the same `id` lies in one lane, which the reader makes.
  void add_free_span(int process, std::uint64_t id, const std::string& name,
                     std::string_view category, std::int64_t start_ns, std::int64_t end_ns,
                     const Arguments& arguments = {});

  /// A step of the flow `id` of the process, in the span of the lane that was added last, at its
  /// start: an arrow goes from each step to the next one in time.
  enum class Step : std::uint8_t { kFirst, kNext, kLast };
  void add_flow(int process, int lane, std::uint64_t id, Step step, std::int64_t at_ns);
  /// From then on the counter of the process has that value.
  void add_counter(int process, const std::string& name, std::int64_t at_ns, std::uint64_t value);

  /// \error kResourceExhausted  not all could be written.
  Status close();

 private:
  TraceFile(std::filesystem::path name, std::unique_ptr<Draft> draft)
      : name_(std::move(name)), draft_(std::move(draft)) {}
  void write(const std::string& event);

  std::filesystem::path name_;
  std::unique_ptr<Draft> draft_;
  bool first_ = true;
  int processes_ = 0;
};

}  // namespace penstock::pipeline
