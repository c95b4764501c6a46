// Ability: whether an instance can compute now, or its device is lost or full of calls that hang.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/pipeline/instance.h"
#include "penstock/pipeline/stage_call.h"

namespace penstock::pipeline {

/// \threads  the worker's own, but able().
class Ability {
 public:
  explicit Ability(Instance& instance) : self_(instance) {}

  /// What the instance runs. \pre  nothing was looked at
  void configure(const StageCall::Executables& executables);
  [[nodiscard]] const StageCall::Executables& executables() const { return executables_; }
  /// Lets go of the executables. \pre  the worker's thread is joined.
  void free() { executables_.clear(); }

  /// As look() saw it last. Any thread.
  [[nodiscard]] bool able() const { return !unable_; }
  /// Whether its device may be lost: it is no CPU of this machine.
  [[nodiscard]] bool may_be_lost() const { return may_be_lost_; }
  /// Looks which of the calls that were left behind have ended, and whether the device is there;
  /// other instances are told of a change. \returns able()
  bool look();
  [[nodiscard]] bool others_are_able() const;  ///< \pre  this instance is not able.
  /// Waits until this instance is able again, or no other one is. False: no frame will come.
  bool leave_to_others();
  /// Waits until this stand-by device is needed. False: it will not be needed any more.
  bool stand_by();
  /// Why a frame is not computed. \pre  not able().
  [[nodiscard]] Error unavailable() const;

  /// Room for one more call that is left behind.
  void reserve() { left_.reserve(left_.size() + 1); }
  /// Keeps a call that hangs until it ends. \pre  reserve() \throws nothing
  void leave_behind(std::unique_ptr<StageCall> call) { left_.push_back(std::move(call)); }
  bool keeps_calls();  ///< Whether calls that were left behind still go on.

 private:
  void forget_ended();
  [[nodiscard]] std::string why_lost() const;

  Instance& self_;
  StageCall::Executables executables_;
  std::vector<std::unique_ptr<StageCall>> left_;  // Calls that hang, and may still end.
  bool may_be_lost_ = false;
  std::atomic<bool> unable_{false};  // The device is lost, or `left_` are more than allowed.
};

}  // namespace penstock::pipeline
