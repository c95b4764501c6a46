// NodeSet: a set of small numbers, 64 to a word.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::collage {

/// Numbers from 0 up to the size given at the start. Sets that meet in an operation have one size.
class NodeSet {
 public:
  NodeSet() = default;
  explicit NodeSet(std::size_t size) : words_((size + kBits - 1) / kBits, 0) {}

  void add(std::size_t i) { words_[i / kBits] |= bit(i); }
  void remove(std::size_t i) { words_[i / kBits] &= ~bit(i); }
  [[nodiscard]] bool has(std::size_t i) const { return (words_[i / kBits] & bit(i)) != 0; }

  [[nodiscard]] std::size_t count() const {
    std::size_t sum = 0;
    for (const auto word : words_) sum += static_cast<std::size_t>(std::popcount(word));
    return sum;
  }
  [[nodiscard]] bool empty() const {
    return std::ranges::all_of(words_, [](auto word) { return word == 0; });
  }
  /// The least number in it; the size, rounded up, of an empty set.
  [[nodiscard]] std::size_t first() const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      if (words_[w] != 0) return w * kBits + static_cast<std::size_t>(std::countr_zero(words_[w]));
    }
    return words_.size() * kBits;
  }
  /// The least number that is not in it; the size, rounded up, where all are.
  [[nodiscard]] std::size_t first_hole() const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      if (~words_[w] != 0) return w * kBits + static_cast<std::size_t>(std::countr_one(words_[w]));
    }
    return words_.size() * kBits;
  }
  [[nodiscard]] bool intersects(const NodeSet& other) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      if ((words_[w] & other.words_[w]) != 0) return true;
    }
    return false;
  }
  [[nodiscard]] bool is_subset_of(const NodeSet& other) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      if ((words_[w] & ~other.words_[w]) != 0) return false;
    }
    return true;
  }

  [[nodiscard]] bool same_size(const NodeSet& other) const {
    return words_.size() == other.words_.size();
  }

  NodeSet& operator|=(const NodeSet& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
    return *this;
  }
  NodeSet& operator&=(const NodeSet& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
    return *this;
  }
  /// Without those of `other`.
  NodeSet& operator-=(const NodeSet& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= ~other.words_[w];
    return *this;
  }
  friend NodeSet operator|(NodeSet a, const NodeSet& b) { return a |= b; }
  friend NodeSet operator&(NodeSet a, const NodeSet& b) { return a &= b; }
  friend NodeSet operator-(NodeSet a, const NodeSet& b) { return a -= b; }

  /// Calls visit(number) for each, ascending.
  template <typename Visit>
  void each(Visit visit) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (auto word = words_[w]; word != 0; word &= word - 1) {
        visit(w * kBits + static_cast<std::size_t>(std::countr_zero(word)));
      }
    }
  }
  [[nodiscard]] std::vector<std::size_t> members() const {
    std::vector<std::size_t> list;
    each([&](std::size_t i) { list.push_back(i); });
    return list;
  }

  bool operator==(const NodeSet&) const = default;

  struct Hash {
    std::size_t operator()(const NodeSet& set) const {
      std::uint64_t sum = 0x9e3779b97f4a7c15U;
      for (const auto word : set.words_) {
        sum = (sum ^ word) * 0xff51afd7ed558ccdU;
        sum ^= sum >> 32U;
      }
      return sum;
    }
  };
  /// Of two sets, the one with the least number that the other has not comes first.
  struct Before {
    bool operator()(const NodeSet& a, const NodeSet& b) const {
      for (std::size_t w = 0; w < a.words_.size(); ++w) {
        const auto differ = a.words_[w] ^ b.words_[w];
        if (differ != 0) return (a.words_[w] & (differ & (~differ + 1))) != 0;
      }
      return false;
    }
  };

 private:
  static constexpr std::size_t kBits = 64;
  static std::uint64_t bit(std::size_t i) { return std::uint64_t{1} << (i % kBits); }

  std::vector<std::uint64_t> words_;
};

}  // namespace penstock::collage
