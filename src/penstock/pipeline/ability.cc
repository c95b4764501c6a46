// What an instance does while its device is lost, or too many of its calls hang.
#include "penstock/pipeline/ability.h"

#include <algorithm>

#include "penstock/base/words.h"
#include "penstock/device/device.h"
#include "penstock/pipeline/guarded.h"

namespace penstock::pipeline {

void Ability::configure(const StageCall::Executables& executables) {
  executables_ = executables;
  may_be_lost_ = !self_.stage.places[self_.replica].is_local_cpu();
}

void Ability::forget_ended() {
  std::erase_if(left_, [](const auto& call) { return !call->in_progress_still(); });
}

bool Ability::keeps_calls() {
  forget_ended();
  return !left_.empty();
}

bool Ability::look() {
  forget_ended();
  const auto lost = [](const auto& executable) { return executable->is_lost(); };
  auto& stage = self_.stage;
  const bool unable = left_.size() > static_cast<std::size_t>(stage.plan->max_left_behind) ||
                      (may_be_lost_ && std::ranges::any_of(executables_, lost));
  if (unable == unable_) return !unable;
  (self_.stands_by() ? stage.able_standbys : stage.able).fetch_add(unable ? -1 : 1);
  unable_ = unable;
  stage.returns.wake();  // Others take its place, or give it back.
  return !unable;
}

bool Ability::others_are_able() const {
  if (self_.stage.has_homes) return false;  // Each stream has one replica.
  return self_.stage.able.load(std::memory_order_seq_cst) > 0 ||
         self_.stage.able_standbys.load(std::memory_order_seq_cst) > 0;
}

bool Ability::leave_to_others() {
  while (!look() && others_are_able()) {
    self_.parker.prepare();
    if (self_.leaves_at(self_.stage.next.load())) {
      self_.parker.abandon();
      return false;
    }
    self_.parker.sleep(now_ns() + Instance::kLook);
  }
  return true;
}

bool Ability::stand_by() {
  const auto& stage = self_.stage;
  for (;;) {
    if (stage.needs_standby()) return true;
    self_.parker.prepare();
    const bool leaves = self_.leaves_at(stage.next.load(std::memory_order_seq_cst));
    if (leaves || stage.needs_standby()) {
      self_.parker.abandon();
      if (leaves) return false;
      continue;
    }
    self_.idled = true;
    self_.parker.sleep(kNever);
  }
}

std::string Ability::why_lost() const {
  for (const auto& executable : executables_) {
    const std::string why = executable->is_lost() ? executable->why_lost() : "";
    if (!why.empty()) return ": " + why;
  }
  return {};
}

Error Ability::unavailable() const {
  Status told = guarded([&]() -> Status {
    if (left_.empty()) {
      const auto& place = self_.stage.places[self_.replica];
      return make_error(Code::kUnavailable, "device '", device::to_string(place),
                        "' is lost, and no other of the stage is there", why_lost())
          .within({Where::kPeer, place.host});
    }
    return make_error(Code::kUnavailable, "unavailable: ", counted(left_.size(), "hanging call"),
                      ", at most ", self_.stage.plan->max_left_behind,
                      " may be left behind (max_left_behind)");
  });
  return std::move(told).error();
}

}  // namespace penstock::pipeline
