// Packs device counts with spare bits, and unlinks from an ideal's list what a new label beats.
#include "penstock/planner/throughput/labels.h"

#include <algorithm>
#include <bit>

namespace penstock::planner {

CountWord::CountWord(const Instance& instance) {
  for (const int count : instance.type_count) {
    const int width = std::bit_width(static_cast<unsigned>(count));
    shift_.push_back(std::min(bits_, 63));
    mask_.push_back((std::uint64_t{1} << width) - 1);
    bits_ += width + 1;
    if (bits_ <= 64) spare_ |= std::uint64_t{1} << (bits_ - 1);
  }
}

bool LabelStore::beats(const Label& a, const Label& b, int count) const {
  if (!counts_->within(a.used, b.used)) return false;
  for (int i = 0; i < count; ++i) {
    if (times[at(a.ready + i)] > times[at(b.ready + i)]) return false;
  }
  return true;
}

bool LabelStore::add(const Label& label, int count) {
  if (at(label.ideal) >= first_.size()) first_.resize(at(label.ideal) + 1, -1);
  for (int i = first_[at(label.ideal)]; i >= 0; i = labels_[at(i)].next) {
    if (!beats(labels_[at(i)], label, count)) continue;
    times.resize(times.size() - at(count));
    return false;
  }
  int* link = &first_[at(label.ideal)];
  while (*link >= 0) {
    auto& other = labels_[at(*link)];
    if (beats(label, other, count)) {
      *link = other.next;
    } else {
      link = &other.next;
    }
  }
  const int head = first_[at(label.ideal)];
  labels_.push_back(label);
  labels_.back().next = head;
  first_[at(label.ideal)] = size() - 1;
  return true;
}

}  // namespace penstock::planner
