// Declares --policy, --batch, --state and others, and parses their values into plan options.
#include "penstock/cli/stream_options.h"

#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include <spdlog/spdlog.h>

#include "penstock/cli/command.h"
#include "penstock/cli/import_options.h"
#include "penstock/cli/numbers.h"

namespace penstock::cli {
namespace {

/// As all batches; what is none is told by the forms that `build` takes.
Result<std::pair<std::string, partition::AskedBatch>> parse_most_frames(const std::string& text) {
  auto batch = partition::parse_batch(text);
  if (batch) return batch;
  return invalid_argument("batch '", text,
                          "': expected N, auto or auto:N, such as 8, auto or auto:16, N from 1 to ",
                          partition::kMostFrames, ", from 2 after auto");
}

}  // namespace

void add_stream_options(CLI::App* command, StreamArguments& arguments) {
  command->add_option("--policy", arguments.policy, "When the input edge is full (default: block)")
      ->check(one_of({"block", "drop_oldest", "drop_newest", "latest", "error"}));
  constexpr int kMostSlots = 1'000'000;
  command
      ->add_option("--capacity", arguments.capacity,
                   "Slots of every edge (default: chosen at start from the tensors' size)")
      ->check(whole_number(1, kMostSlots));
  command
      ->add_option("--max-age", arguments.max_age_ms,
                   "Deadline of a frame since its push, in milliseconds (default: none)")
      ->check(milliseconds());
  command
      ->add_option("--on-error", arguments.on_error,
                   "When a frame fails: deliver it and go on (default), or stop")
      ->check(one_of({"deliver", "stop"}));
  command
      ->add_option("--max-run", arguments.max_run_ms,
                   "A stage's call that takes longer, in milliseconds, hangs: its frame and "
                   "those behind it fail (default: none)")
      ->check(milliseconds());
  command
      ->add_option("--max-left-behind", arguments.max_left_behind,
                   "How many hanging calls each stage instance leaves behind, and goes on; with "
                   "one more its frames are unavailable (default: 0: a call that hangs ends the "
                   "pipeline)")
      ->check(whole_number(0, plan::kMostLanes));
  add_streams_option(command, arguments.streams);
}

void add_streams_option(CLI::App* command, std::string& streams) {
  command
      ->add_option("--streams", streams,
                   "Sequences with states of their own at a time (default: 1). One more is "
                   "refused; with ':evict' it takes the place of the one unused for longest")
      ->type_name("N[:evict]")
      ->check(taken_by(to_streams));
}

void add_most_frames_option(CLI::App* command, std::vector<std::string>& batches) {
  add_list(command, "--batch", batches,
           "N, auto (8): up to N frames in one call of a stage, where measuring says that this is "
           "faster")
      ->check(taken_by(parse_most_frames));
}

void add_batch_option(CLI::App* command, std::vector<std::string>& batches) {
  add_list(command, "--batch", batches,
           "[STAGE=]N[:MS]: up to N frames in one call of each stage, or of this one; the first "
           "waits so many milliseconds for more; auto[:N]: as many as measuring says, up to N (8); "
           "repeat for more stages")
      ->check(taken_by(partition::parse_batch));
}

Result<partition::Batches> to_batches(const std::vector<std::string>& batches) {
  partition::Batches read;
  for (const auto& text : batches) {
    PENSTOCK_TRY(auto batch, partition::parse_batch(text));
    if (!read.insert(std::move(batch)).second) {
      return invalid_argument("batch '", text, "': its stage has a batch already");
    }
  }
  return read;
}

Result<plan::StateEdge> parse_state(const std::string& text) {
  PENSTOCK_TRY(auto ends, split_pair(text, false, "--state", "OUT=IN or OUT=IN:FILE.npy"));
  plan::StateEdge edge{ends.first, ends.second, {}};
  constexpr std::string_view kEnding = ".npy";
  // The last one, as names may hold ':'.
  if (const auto colon = edge.to.rfind(':'); edge.to.ends_with(kEnding) && colon != edge.to.npos) {
    edge.initial = edge.to.substr(colon + 1);
    edge.to.resize(colon);
  }
  return edge;
}

void add_state_option(CLI::App* command, std::vector<std::string>& states) {
  add_list(command, "--state", states,
           "OUT=IN or OUT=IN:FILE.npy: output OUT of a frame is input IN of the next one; the "
           "first reads zeros or the file")
      ->check(taken_by(parse_state));
}

Result<std::vector<plan::StateEdge>> to_states(const std::vector<std::string>& states) {
  std::vector<plan::StateEdge> edges;
  for (const auto& text : states) {
    PENSTOCK_TRY(auto edge, parse_state(text));
    edges.push_back(std::move(edge));
  }
  return edges;
}

Result<std::optional<plan::Streams>> to_streams(const std::string& text) {
  if (text.empty()) return std::optional<plan::Streams>();
  constexpr std::string_view kEvict = ":evict";
  plan::Streams streams{0, text.ends_with(kEvict)};
  const auto digits =
      std::string_view(text).substr(0, text.size() - (streams.evict ? kEvict.size() : 0));
  const auto* const end = digits.data() + digits.size();
  const auto [last, error] = std::from_chars(digits.data(), end, streams.most);
  if (last == end && error == std::errc() && streams.most >= 1) return std::optional(streams);
  return invalid_argument("expected N or N:evict, N from 1 to ", std::numeric_limits<int>::max(),
                          ", found '", text, "'");
}

namespace {

std::chrono::microseconds to_microseconds(double milliseconds) {
  return std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::duration<double, std::milli>(milliseconds));
}

}  // namespace

Result<plan::StreamOptions> to_stream_options(const StreamArguments& arguments) {
  plan::StreamOptions stream;
  if (!arguments.policy.empty()) stream.input_policy = plan::parse_full_policy(arguments.policy);
  stream.capacity = arguments.capacity;
  if (arguments.max_age_ms) stream.max_age = to_microseconds(*arguments.max_age_ms);
  if (arguments.max_run_ms) stream.max_run = to_microseconds(*arguments.max_run_ms);
  stream.max_left_behind = arguments.max_left_behind;
  PENSTOCK_TRY(stream.streams, to_streams(arguments.streams));
  if (arguments.on_error == "stop") {
    stream.on_error = plan::OnError::kStop;
  } else if (arguments.on_error == "deliver") {
    stream.on_error = plan::OnError::kDeliver;
  }
  return stream;
}

void warn_of_options(const plan::StreamOptions& stream, const plan::Plan& plan) {
  for (const auto& note : plan::options_without_effect(stream, plan)) spdlog::warn("--{}", note);
}

}  // namespace penstock::cli
