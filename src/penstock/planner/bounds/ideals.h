// Ideals: sets of groups that contain, with a group, all groups before it.
// What stages 1 .. k of a pipeline hold together is an ideal.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::planner {

using Word = std::uint64_t;
inline constexpr int kWordBits = 64;

inline bool has_bit(std::span<const Word> words, int bit) {
  return (words[static_cast<std::size_t>(bit / kWordBits)] >> (bit % kWordBits) & 1) != 0;
}
inline void flip_bit(std::span<Word> words, int bit) {
  words[static_cast<std::size_t>(bit / kWordBits)] ^= Word{1} << (bit % kWordBits);
}

/// Many ideals, each once, numbered as they come. Groups stand in a topological order, so an ideal
/// is all ones, then a few mixed words, then all zeros: only the mixed words are kept.
class IdealStore {
 public:
  explicit IdealStore(int groups);

  /// The number of the ideal with these words, and whether it is new. `key` is its hash.
  std::pair<int, bool> find_or_add(std::span<const Word> words, std::uint64_t key);
  /// Writes the ideal's words, `words()` of them.
  void copy(int ideal, std::span<Word> words) const;

  [[nodiscard]] int words() const { return words_; }
  [[nodiscard]] int size() const { return static_cast<int>(entries_.size()); }

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::size_t mixed = 0;  ///< Into mixed_.
    int ones = 0;           ///< Words all ones before them,
    int count = 0;          ///< and how many they are.
  };

  [[nodiscard]] bool same(const Entry& entry, std::span<const Word> words, int ones,
                          int count) const;
  void grow();

  int words_;
  std::vector<Entry> entries_;
  std::vector<Word> mixed_;
  std::vector<int> slots_;  ///< Open addressing, a power of two; -1: free.
};

}  // namespace penstock::planner
