#include "penstock/cli/stream_options.h"

namespace penstock::cli {

void add_stream_options(CLI::App* command, StreamArguments& arguments) {
  command->add_option("--policy", arguments.policy,
                      "When the input edge is full: block (default), drop_oldest, drop_newest, "
                      "latest or error");
  command->add_option("--capacity", arguments.capacity,
                      "Slots of every edge (default: chosen at start from the tensors' size)");
  command->add_option("--max-age", arguments.max_age_ms,
                      "Deadline of a frame since its push, in milliseconds (default: none)");
  command->add_option("--on-error", arguments.on_error,
                      "When a frame fails: deliver it and go on (default), or stop");
}

Result<StreamOptions> to_stream_options(const StreamArguments& arguments) {
  StreamOptions stream;
  if (!arguments.policy.empty()) {
    stream.input_policy = plan::parse_full_policy(arguments.policy);
    if (!stream.input_policy) {
      return invalid_argument(
          "--policy: expected block, drop_oldest, drop_newest, latest or error, "
          "found '",
          arguments.policy, "'");
    }
  }
  constexpr int kMostSlots = 1'000'000;
  if (arguments.capacity && (*arguments.capacity < 1 || *arguments.capacity > kMostSlots)) {
    return invalid_argument("--capacity: expected 1 to ", kMostSlots, " slots, found ",
                            *arguments.capacity);
  }
  if (arguments.capacity) stream.capacity = static_cast<int>(*arguments.capacity);
  if (arguments.max_age_ms) {
    constexpr double kShortestMs = 0.001, kLongestMs = 1e12;
    // Written so that what is no number fails too.
    if (!(*arguments.max_age_ms >= kShortestMs && *arguments.max_age_ms <= kLongestMs)) {
      return invalid_argument("--max-age: expected milliseconds, 0.001 to 1e12, found ",
                              *arguments.max_age_ms);
    }
    const std::chrono::duration<double, std::milli> age(*arguments.max_age_ms);
    stream.max_age = std::chrono::duration_cast<std::chrono::microseconds>(age);
  }
  if (arguments.on_error == "stop") {
    stream.on_error = plan::OnError::kStop;
  } else if (arguments.on_error == "deliver") {
    stream.on_error = plan::OnError::kDeliver;
  } else if (!arguments.on_error.empty()) {
    return invalid_argument("--on-error: expected deliver or stop, found '", arguments.on_error,
                            "'");
  }
  return stream;
}

}  // namespace penstock::cli
