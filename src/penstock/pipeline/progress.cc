#include "penstock/pipeline/progress.h"

namespace penstock::pipeline {

std::vector<Progress::Cell*> Progress::add_waiters(const std::vector<Parker*>& parkers) {
  Group group;
  std::vector<Cell*> cells;
  for (Parker* parker : parkers) {
    group.push_back(std::make_unique<Cell>());
    group.back()->parker = parker;
    cells.push_back(group.back().get());
  }
  groups_.push_back(std::move(group));
  return cells;
}

void Progress::complete_out_of_order(FrameNumber frame) {
  // Mark, then look whether the run of complete frames can be extended. Whoever marks the last
  // missing frame sees the marks of the others, since marks and done are sequentially consistent.
  marks_[frame & mask_].store(frame + 1, std::memory_order_seq_cst);
  FrameNumber done = done_.load(std::memory_order_seq_cst);
  FrameNumber advanced = 0;
  while (marks_[done & mask_].load(std::memory_order_seq_cst) == done + 1) {
    if (done_.compare_exchange_strong(done, done + 1, std::memory_order_seq_cst)) {
      ++done;
      ++advanced;
    }
  }
  if (advanced > 0) notify(done, advanced);
}

void Progress::wake_some(Group& group, FrameNumber done, FrameNumber count) {
  for (auto& cell : group) {
    if (wake_if_due(*cell, done) && --count == 0) return;
  }
}

void Progress::wake_all() {
  for (auto& group : groups_) {
    for (auto& cell : group) {
      cell->target.store(UINT64_MAX, std::memory_order_seq_cst);
      cell->parker->wake();
    }
  }
}

}  // namespace penstock::pipeline
