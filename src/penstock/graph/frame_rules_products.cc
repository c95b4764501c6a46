// Products and sums of products.
#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "penstock/graph/frame_rules.h"

namespace penstock::graph {
namespace {

/// Where the frames of one operand are in the product, counted from its end; off the axis that it
/// sums along.
Result<int> place_in_product(FrameSite& site, std::size_t input, std::size_t other, bool left) {
  const auto rank = static_cast<int>(site.sizes(input).size());
  const auto of_other = static_cast<int>(site.sizes(other).size());
  PENSTOCK_CHECK_OK(keep_off(site, {left || rank == 1 ? rank - 1 : rank - 2}, input));
  const int from_end = rank - 1 - site.axis(input);  // 0: the last axis.
  // The columns of the right operand are the product's; a vector has no columns, or no rows.
  const bool columns = !left && from_end == 0;
  return from_end - (of_other == 1 && !columns ? 1 : 0);
}

/// A dimension of the batch: the other operand has none there, one for all, or gets as many.
Status match_batch(FrameSite& site, std::size_t other, int from_end) {
  const auto sizes = site.sizes(other);
  if (from_end < 2 || std::cmp_greater_equal(from_end, sizes.size())) return {};
  const int own = static_cast<int>(sizes.size()) - 1 - from_end;
  if (site.axis(other) != kSameForAll || sizes[at(own)] == 1) return {};
  return site.repeat(other, own);
}

Status product(FrameSite& site, std::size_t a, std::size_t b) {
  std::optional<int> place;
  for (const auto& [input, other, left] : {std::tuple{a, b, true}, std::tuple{b, a, false}}) {
    if (site.axis(input) == kSameForAll) continue;
    PENSTOCK_TRY(const int found, place_in_product(site, input, other, left));
    if (place && *place != found) {
      return site.refuse("its inputs hold the frames along different axes");
    }
    const bool both = site.axis(other) != kSameForAll;
    if (both && found < 2) return site.refuse("rows and columns both differ from frame to frame");
    PENSTOCK_CHECK_OK(match_batch(site, other, found));
    place = found;
  }
  const auto rank = static_cast<int>(site.made().size());
  const int axis = rank - 1 - place.value_or(0);
  for (const auto input : {a, b}) {
    if (site.axis(input) == kSameForAll) continue;
    if (site.sizes(input)[at(site.axis(input))] != site.made()[at(axis)]) {
      return site.refuse("'", site.name(input), "' is repeated along its axis of frames");
    }
  }
  site.give(0, axis);
  return {};
}

/// Of matrices that both hold the frames where none could stay.
bool in_rows_or_columns(const FrameSite& site) {
  const auto rank = static_cast<int>(site.sizes(0).size());
  if (rank < 2 || site.sizes(1).size() != site.sizes(0).size()) return false;
  if (site.axis(0) == kSameForAll || site.axis(1) == kSameForAll) return false;
  return site.axis(0) != site.axis(1) || site.axis(0) >= rank - 2;
}

Status mat_mul(FrameSite& site) {
  if (in_rows_or_columns(site)) return site.spread({0, 1}, false);
  return product(site, 0, 1);
}

/// Zero points of each row would have to be as many as the rows.
Status mat_mul_integer(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0, 1}));
  if (site.has_input(2)) {
    const auto zero = site.sizes(2);
    if (product_of(zero, 0, zero.size()) != 1)
      return site.refuse("it has a zero point for each row");
  }
  return product(site, 0, 1);
}

Status mat_mul_quantised(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0, 3}));
  for (const std::size_t i : {1, 2, 6, 7}) {
    const auto list = site.sizes(i);
    if (product_of(list, 0, list.size()) != 1) return site.refuse("it has a scale for each row");
  }
  return product(site, 0, 3);
}

Status gemm(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0, 2}));
  if (site.axis(0) == kSameForAll)
    return site.refuse("'", site.name(0), "' is the same for all frames");
  site.place(0, site.node().int_or("transA", 0) != 0 ? 1 : 0);
  if (site.has_input(2)) {
    const auto addend = site.sizes(2);
    const bool rows_of_its_own = addend.size() == 2 && addend[0] != 1;
    if (site.axis(2) == kSameForAll && rows_of_its_own) PENSTOCK_CHECK_OK(site.repeat(2, 0));
    if (site.axis(2) != kSameForAll && (addend.size() != 2 || addend[0] != site.made()[0])) {
      return site.refuse("'", site.name(2), "' is broadcast over the rows");
    }
    if (site.axis(2) != kSameForAll) site.place(2, 0);
  }
  site.give(0, 0);
  return {};
}

/// The letter of the frames stands once in every operand that differs, in no other, and in the
/// result.
Status einsum(FrameSite& site) {
  const auto* attribute = site.node().find("equation");
  const auto* text = attribute == nullptr ? nullptr : std::get_if<std::string>(&attribute->value);
  if (text == nullptr) return site.refuse("its equation is missing");
  std::string equation = *text;
  std::erase(equation, ' ');
  const auto arrow = equation.find("->");
  if (arrow == equation.npos || equation.find('.') != equation.npos) {
    return site.refuse("expected an equation with '->' and without '...', found '", *text, "'");
  }
  const auto result = equation.substr(arrow + 2);
  std::vector<std::string> terms(1);
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (terms.size() != site.inputs()) return site.refuse("its equation is of other inputs");
  char letter = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (site.axis(i) == kSameForAll) continue;
    const char own = terms[i][at(site.axis(i))];
    if (letter != 0 && letter != own) return site.refuse("the frames are under two letters");
    letter = own;
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto count = std::ranges::count(terms[i], letter);
    if (count != (site.axis(i) == kSameForAll ? 0 : 1)) {
      return site.refuse("'", site.name(i), "' has the letter of the frames, '", letter, "', ",
                         count, " times");
    }
  }
  const auto place = result.find(letter);
  if (place == result.npos) return site.refuse("it sums over the frames, '", letter, "'");
  site.give(0, static_cast<int>(place));
  return {};
}

}  // namespace

void add_product_rules(FrameRules& rules) {
  add_rule(rules, einsum, {"Einsum"});
  add_rule(rules, gemm, {"Gemm"});
  add_rule(rules, mat_mul, {"MatMul"});
  add_rule(rules, mat_mul_integer, {"MatMulInteger"});
  add_rule(rules, mat_mul_quantised, {"QLinearMatMul"});
}

}  // namespace penstock::graph
