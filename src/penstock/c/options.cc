// Options by name: one table for how a pipeline runs, one for how a model is cut.
#include "penstock/c/options.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/near_names.h"
#include "penstock/device/device.h"

namespace penstock::c {
namespace {

constexpr int kMostSlots = 1'000'000;
constexpr std::string_view kBackendPrefix = "backend.";

/// \error kInvalidArgument  it is no whole number, or beyond `least` to `most`.
Result<int> whole(std::string_view text, int least, int most) {
  int number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || number < least ||
      number > most) {
    return invalid_argument("expected ", least, " to ", most, ", found '", text, "'");
  }
  return number;
}

Result<bool> yes_or_no(std::string_view text) {
  PENSTOCK_TRY(const int number, whole(text, 0, 1));
  return number == 1;
}

Result<std::chrono::microseconds> milliseconds(std::string_view text) {
  constexpr double kShortest = 0.001, kLongest = 1e12;
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  // Written so that what is no number fails too.
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() ||
      !(number >= kShortest && number <= kLongest)) {
    return invalid_argument("expected 0.001 to 1e12 milliseconds, found '", text, "'");
  }
  return std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::duration<double, std::milli>(number));
}

using Read = std::function<Status(LoadOptions&, std::string_view)>;

template <typename Parse, typename Set>
Read reads(Parse parse, Set set) {
  return [parse, set](LoadOptions& options, std::string_view text) -> Status {
    PENSTOCK_TRY(auto value, parse(text));
    set(options, std::move(value));
    return {};
  };
}

Read whole_from(int least, int most, void (*set)(LoadOptions&, int)) {
  return reads([least, most](std::string_view text) { return whole(text, least, most); }, set);
}

Result<plan::FullPolicy> policy(std::string_view text) {
  if (const auto read = plan::parse_full_policy(text)) return *read;
  return invalid_argument(
      "expected 'block', 'drop_oldest', 'drop_newest', 'latest' or 'error', found '", text, "'");
}

Result<plan::OnError> on_error(std::string_view text) {
  if (text == "deliver") return plan::OnError::kDeliver;
  if (text == "stop") return plan::OnError::kStop;
  return invalid_argument("expected 'deliver' or 'stop', found '", text, "'");
}

Result<std::string> any_text(std::string_view text) {
  return std::string(text);
}

/// How a running pipeline is to behave.
std::map<std::string_view, Read> running_options() {
  constexpr int kMostStreams = std::numeric_limits<int>::max();
  return {
      {"capacity", whole_from(1, kMostSlots, [](LoadOptions& o, int n) { o.stream.capacity = n; })},
      {"in_flight",
       whole_from(1, kMostSlots, [](LoadOptions& o, int n) { o.pipeline.in_flight = n; })},
      {"max_held",
       whole_from(0, kMostSlots, [](LoadOptions& o, int n) { o.pipeline.max_held = n; })},
      {"max_left_behind", whole_from(0, plan::kMostLanes,
                                     [](LoadOptions& o, int n) { o.stream.max_left_behind = n; })},
      {"streams",
       whole_from(1, kMostStreams,
                  [](LoadOptions& o, int n) { o.stream.streams = plan::Streams{.most = n}; })},
      {"evict", reads(yes_or_no, [](LoadOptions& o, bool yes) { o.evict = yes; })},
      {"policy", reads(policy, [](LoadOptions& o, auto p) { o.stream.input_policy = p; })},
      {"on_error", reads(on_error, [](LoadOptions& o, auto what) { o.stream.on_error = what; })},
      {"max_age_ms", reads(milliseconds, [](LoadOptions& o, auto t) { o.stream.max_age = t; })},
      {"max_run_ms", reads(milliseconds, [](LoadOptions& o, auto t) { o.stream.max_run = t; })},
      {"pinned", reads(yes_or_no, [](LoadOptions& o, bool yes) { o.stream.pinned = yes; })},
      {"native_code",
       reads(yes_or_no, [](LoadOptions& o, bool yes) { o.pipeline.native_code = yes; })},
      {"trace", reads(yes_or_no, [](LoadOptions& o, bool yes) { o.pipeline.trace = yes; })},
  };
}

/// How a model is cut, which a package is already.
std::map<std::string_view, Read> model_options() {
  return {
      {"backend",
       reads(any_text, [](LoadOptions& o, auto name) { o.split.backend = std::move(name); })},
      {"cut", reads(any_text,
                    [](LoadOptions& o, auto node) {
                      std::get<partition::Cuts>(o.split.by).nodes.push_back(std::move(node));
                    })},
      {"devices", reads([](std::string_view text) { return device::parse_devices(text); },
                        [](LoadOptions& o, auto list) { o.split.devices = std::move(list); })},
  };
}

Status read_backend_option(std::string_view key, std::string_view value,
                           const backend::Registry& backends, LoadOptions& options) {
  const auto name_and_key = key.substr(kBackendPrefix.size());
  const auto dot = name_and_key.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == name_and_key.size()) {
    return invalid_argument("expected backend.NAME.KEY");
  }
  const std::string name(name_and_key.substr(0, dot));
  if (auto found = backends.find(name); !found) return std::move(found).error();
  options.pipeline.backend_options[name].insert_or_assign(std::string(name_and_key.substr(dot + 1)),
                                                          std::string(value));
  return {};
}

Status read_option(std::string_view key, std::string_view value, const backend::Registry& backends,
                   LoadOptions& options) {
  static const auto* running = new auto(running_options());
  static const auto* of_model = new auto(model_options());
  if (key.starts_with(kBackendPrefix)) return read_backend_option(key, value, backends, options);
  if (const auto found = running->find(key); found != running->end()) {
    return found->second(options, value);
  }
  if (const auto found = of_model->find(key); found != of_model->end()) {
    if (options.first_of_model.empty()) options.first_of_model = key;
    return found->second(options, value);
  }
  std::vector<std::string> names;
  for (const auto* table : {running, of_model}) {
    for (const auto& [name, read] : *table) names.emplace_back(name);
  }
  return invalid_argument("no such option", did_you_mean(key, names),
                          "; there are: ", join(names, ", "), ", backend.NAME.KEY");
}

}  // namespace

Result<LoadOptions> read_options(std::span<const penstock_option> options,
                                 const backend::Registry& backends) {
  LoadOptions read;
  for (const auto& option : options) {
    if (option.key == nullptr || option.value == nullptr) {
      return invalid_argument("option ", &option - options.data(),
                              ": expected a key and a value, found NULL");
    }
    if (Status status = read_option(option.key, option.value, backends, read); !status) {
      return std::move(status).error().within(concat("option '", option.key, "'"));
    }
  }
  if (read.evict && !read.stream.streams) {
    return invalid_argument(
        "option 'evict': expected the option 'streams' beside it, after how many one gives its "
        "place, such as 8; found none");
  }
  if (read.evict) read.stream.streams->evict = true;
  return read;
}

}  // namespace penstock::c
