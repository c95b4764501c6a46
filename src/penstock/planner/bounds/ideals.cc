// An open-addressing hash table with linear probing, doubled when it is half full.
#include "penstock/planner/bounds/ideals.h"

#include <algorithm>
#include <utility>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

constexpr std::size_t kFirstSlots = 1024;
constexpr Word kAllOnes = ~Word{0};

}  // namespace

IdealStore::IdealStore(int groups) : words_(groups / kWordBits + 1), slots_(kFirstSlots, -1) {}

bool IdealStore::same(const Entry& entry, std::span<const Word> words, int ones, int count) const {
  if (entry.ones != ones || entry.count != count) return false;
  const auto first = mixed_.begin() + static_cast<std::ptrdiff_t>(entry.mixed);
  return std::equal(first, first + count, words.begin() + ones);
}

std::pair<int, bool> IdealStore::find_or_add(std::span<const Word> words, std::uint64_t key) {
  int ones = 0, end = words_;
  while (ones < words_ && words[at(ones)] == kAllOnes) ++ones;
  while (end > ones && words[at(end) - 1] == 0) --end;
  const int count = end - ones;
  const auto mask = slots_.size() - 1;
  auto slot = static_cast<std::size_t>(key) & mask;
  for (; slots_[slot] >= 0; slot = (slot + 1) & mask) {
    const auto& entry = entries_[at(slots_[slot])];
    if (entry.key == key && same(entry, words, ones, count)) return {slots_[slot], false};
  }
  slots_[slot] = size();
  entries_.push_back({key, mixed_.size(), ones, count});
  mixed_.insert(mixed_.end(), words.begin() + ones, words.begin() + end);
  if (entries_.size() * 2 > slots_.size()) grow();
  return {size() - 1, true};
}

void IdealStore::copy(int ideal, std::span<Word> words) const {
  const auto& entry = entries_[at(ideal)];
  std::ranges::fill(words, 0);
  std::fill_n(words.begin(), entry.ones, kAllOnes);
  std::copy_n(mixed_.begin() + static_cast<std::ptrdiff_t>(entry.mixed), entry.count,
              words.begin() + entry.ones);
}

void IdealStore::grow() {
  slots_.assign(slots_.size() * 2, -1);
  const auto mask = slots_.size() - 1;
  for (int i = 0; i < size(); ++i) {
    auto slot = static_cast<std::size_t>(entries_[at(i)].key) & mask;
    while (slots_[slot] >= 0) slot = (slot + 1) & mask;
    slots_[slot] = i;
  }
}

}  // namespace penstock::planner
