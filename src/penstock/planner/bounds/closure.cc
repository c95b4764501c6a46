// Bit sets of all groups behind each group, filled in reverse order, and sums of prices over them.
#include "penstock/planner/bounds/closure.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "penstock/planner/bounds/ideals.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

/// The groups behind each group, itself among them: `words` words for each.
std::vector<Word> groups_behind(const Instance& instance, std::size_t words) {
  std::vector<Word> behind(at(instance.groups) * words, 0);
  for (int g = instance.groups - 1; g >= 0; --g) {
    const auto row = at(g) * words;
    for (const int after : instance.after[g]) {
      for (std::size_t w = at(g / kWordBits); w < words; ++w) {
        behind[row + w] |= behind[at(after) * words + w];
      }
    }
    behind[row + at(g / kWordBits)] |= Word{1} << (g % kWordBits);
  }
  return behind;
}

}  // namespace

Closure::Closure(const Model& model) {
  const auto& instance = model.instance;
  words = at((instance.groups + kWordBits - 1) / kWordBits);
  behind = groups_behind(instance, words);
  before.assign(at(instance.groups), 0);
  for (int g = 0; g < instance.groups; ++g) {
    const double own = model.prices.front().group[at(g)];
    for (std::size_t w = 0; w < words; ++w) {
      for (Word bits = behind[at(g) * words + w]; bits != 0; bits &= bits - 1) {
        before[w * kWordBits + static_cast<std::size_t>(std::countr_zero(bits))] += own;
      }
    }
  }
  for (const auto& prices : model.prices) {
    std::vector<double> whole(words, 0);  // Of 64 groups: most words are all ones.
    for (int g = 0; g < instance.groups; ++g) whole[at(g / kWordBits)] += prices.group[at(g)];
    total.push_back(std::accumulate(prices.group.begin(), prices.group.end(), 0.0));
    lacking.push_back(static_cast<int>(std::ranges::count(prices.lacks, 1)));
    work.emplace_back(at(instance.groups), 0);
    lacks.emplace_back(at(instance.groups), 0);
    for (int g = 0; g < instance.groups; ++g) {
      double sum = 0;
      for (std::size_t w = 0; w < words; ++w) {
        Word bits = behind[at(g) * words + w];
        if (bits == ~Word{0}) {
          sum += whole[w];
          continue;
        }
        for (; bits != 0; bits &= bits - 1) {
          sum += prices.group[w * kWordBits + static_cast<std::size_t>(std::countr_zero(bits))];
        }
      }
      work.back()[at(g)] = sum;
    }
    for (int g = instance.groups - 1; g >= 0 && prices.lacking; --g) {
      auto& any = lacks.back()[at(g)];
      any = prices.lacks[at(g)];
      for (const int after : instance.after[g]) {
        if (lacks.back()[at(after)] != 0) any = 1;
      }
    }
  }
}

}  // namespace penstock::planner
