// Advances past marked frames by compare-and-swap, and wakes sleepers by their group's bits.
#include "penstock/pipeline/progress.h"

#include <bit>

namespace penstock::pipeline {

std::vector<Progress::Cell*> Progress::add_waiters(const std::vector<Parker*>& parkers) {
  Group group;
  const std::size_t words = (parkers.size() + kMarks - 1) / kMarks;
  if (parkers.size() > 1) group.marks = std::make_unique<std::atomic<std::uint64_t>[]>(words);
  std::vector<Cell*> cells;
  for (Parker* parker : parkers) {
    const std::size_t at = cells.size();
    auto& cell = *group.cells.emplace_back(std::make_unique<Cell>());
    cell.parker_ = parker;
    if (group.marks) cell.marks_ = &group.marks[at / kMarks];
    cell.mark_ = std::uint64_t{1} << (at % kMarks);
    cells.push_back(&cell);
  }
  groups_.push_back(std::move(group));
  return cells;
}

void Progress::complete_out_of_order(FrameNumber frame) {
  // Mark, then look whether the run of complete frames can be extended. Whoever marks the last
  // missing frame sees the marks of the others, since marks and done are sequentially consistent.
  FrameNumber done = done_.load(std::memory_order_seq_cst);
  FrameNumber advanced = 0;
  if (done == frame) {  // It needs no mark: nobody else goes past a frame that has none.
    done_.store(++done, std::memory_order_seq_cst);
    ++advanced;
  } else {
    marks_[frame & mask_].store(frame + 1, std::memory_order_seq_cst);
    done = done_.load(std::memory_order_seq_cst);
  }
  while (marks_[done & mask_].load(std::memory_order_seq_cst) == done + 1) {
    if (done_.compare_exchange_strong(done, done + 1, std::memory_order_seq_cst)) {
      ++done;
      ++advanced;
    }
  }
  if (advanced > 0) notify(done, advanced);
}

void Progress::wake_some(Group& group, FrameNumber done, FrameNumber count) {
  for (std::size_t first = 0; first < group.cells.size(); first += kMarks) {
    auto waiting = group.marks[first / kMarks].load(std::memory_order_seq_cst);
    for (; waiting != 0; waiting &= waiting - 1) {
      const auto at = first + static_cast<std::size_t>(std::countr_zero(waiting));
      if (wake_if_due(*group.cells[at], done) && --count == 0) return;
    }
  }
}

void Progress::wake_all() {
  for (auto& group : groups_) {
    for (auto& cell : group.cells) {
      cell->target_.store(UINT64_MAX, std::memory_order_seq_cst);
      cell->parker_->wake();
    }
  }
}

}  // namespace penstock::pipeline
