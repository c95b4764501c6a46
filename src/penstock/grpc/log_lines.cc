// Sets gRPC's function for log lines, which a process has once, and keeps whom it tells.
#include "penstock/grpc/log_lines.h"

#include <mutex>
#include <utility>

#include <grpc/support/log.h>

#include "penstock/base/error.h"
#include "penstock/base/printable.h"
#include "penstock/base/words.h"

namespace penstock::grpc {
namespace {

/// Whom gRPC's threads tell. Never destroyed: they outlive main().
struct Listener {
  std::mutex mutex;  // Guards all below.
  std::shared_ptr<const LogLines::Say> say;
  Seldom seldom;
};

Listener& listener() {
  static auto* const only = new Listener;
  return *only;
}

void tell(gpr_log_func_args* line) {
  std::optional<std::string> text;
  std::shared_ptr<const LogLines::Say> say;
  {
    const std::scoped_lock lock(listener().mutex);
    text =
        listener().seldom.admit(concat("gRPC: ", printable(line->message)), Seldom::Clock::now());
    say = listener().say;
  }
  if (text && say != nullptr) (*say)(*text);
}

}  // namespace

std::optional<std::string> Seldom::admit(std::string line, Clock::time_point now) {
  const auto is_old = [&](const Told& told) { return now - told.at >= std::chrono::minutes(1); };
  if (lines_.size() >= kMost && !lines_.contains(line)) {
    std::erase_if(lines_, [&](const auto& entry) { return is_old(entry.second); });
    if (lines_.size() >= kMost) {
      line = concat("gRPC: ", kMost, " different lines within a minute; others are left out");
    }
  }
  const auto [found, is_new] = lines_.try_emplace(std::move(line), Told{now});
  Told& told = found->second;
  if (!is_new && !is_old(told)) {
    ++told.since;
    return std::nullopt;
  }
  const auto before = std::exchange(told, Told{now}).since;
  if (before == 0) return found->first;
  return concat(found->first, " (", counted(before, "more time"), " since it was last told)");
}

LogLines::LogLines(Say say) : say_(std::make_shared<const Say>(std::move(say))) {
  const std::scoped_lock lock(listener().mutex);
  listener().say = say_;
  gpr_set_log_function(tell);
}

LogLines::~LogLines() {
  const std::scoped_lock lock(listener().mutex);
  if (listener().say != say_) return;
  listener().say = nullptr;
  listener().seldom = {};
  gpr_set_log_function(nullptr);
}

}  // namespace penstock::grpc
