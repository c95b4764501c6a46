// Pads cells to the width of their column, and scales sizes by 1024 and durations by 1000.
#include "penstock/cli/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "penstock/base/error.h"
#include "penstock/base/printable.h"
#include "penstock/base/words.h"
#include "penstock/cli/progress.h"
#include "penstock/cli/terminal.h"

namespace penstock::cli {

Table::Table(std::vector<std::string> titles) {
  for (auto& title : titles) {
    right_.push_back(title.starts_with('>'));
    if (right_.back()) title.erase(0, 1);
  }
  rows_.push_back(std::move(titles));
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(right_.size());
  for (auto& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::print() const {
  const auto widths = this->widths();
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += right_[i] ? fmt::format("{:>{}}", row[i], widths[i])
                        : fmt::format("{:<{}}", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string Table::print_within(std::size_t columns) const {
  constexpr std::size_t kApart = 2;
  std::size_t needed = 0;
  for (const auto width : widths()) needed += width + kApart;
  if (needed - kApart <= columns) return print();
  std::string text;
  for (std::size_t row = 1; row < rows_.size(); ++row) {
    std::string cells;
    for (std::size_t i = 1; i < right_.size(); ++i) {
      cells += concat(i > 1 ? ", " : "  ", rows_[0][i], " ", rows_[row][i]);
    }
    text += wrapped(concat(rows_[row][0], "\n", cells), columns);
  }
  return text;
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::string number(double value, int digits) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string bytes(std::uint64_t count) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (count < 1024) return fmt::format("{} B", count);
  auto value = static_cast<double>(count) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return number(value, value < 100 ? 1 : 0) + " " + kUnits[unit];
}

std::string duration(double nanoseconds) {
  const auto [count, unit] = in_largest_unit(nanoseconds);
  const int digits = nanoseconds < 1000 || count >= 100 ? 0 : count >= 10 ? 1 : 2;
  return number(count, digits) + " " + unit;
}

std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[first]);
    if (last > first) text += '-' + std::to_string(numbers[last]);
    first = last + 1;
  }
  return text;
}

void print(const std::string& text, std::FILE* out) {
  std::string plain;
  for (const char c : text) {
    const bool of_a_name = static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t';
    plain += of_a_name ? printable({&c, 1}) : std::string(1, c);
  }
  make_room_on(out);
  std::fwrite(plain.data(), 1, plain.size(), out);
}

}  // namespace penstock::cli
