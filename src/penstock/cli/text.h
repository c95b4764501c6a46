// Text for people: tables, sizes, durations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace penstock::cli {

/// Columns under titles, two spaces apart. A title that begins with '>' (left out in print) has its
/// column flush right.
class Table {
 public:
  explicit Table(std::vector<std::string> titles);
  /// Cells are printable(). \pre  as many as titles
  void add(std::vector<std::string> cells);
  [[nodiscard]] std::string print() const;
  /// The same where it is no wider than `columns`; else each row as its first cell and, below, the
  /// others behind their titles, wrapped. \pre  columns >= 4
  [[nodiscard]] std::string print_within(std::size_t columns) const;
  [[nodiscard]] bool empty() const { return rows_.size() == 1; }

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;

  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // The titles first.
};

/// "1.25" with at most `digits` behind the point, zeros at the end left out.
std::string number(double value, int digits);
/// "512 B", "1.5 KiB", "97.5 MiB"
std::string bytes(std::uint64_t count);
/// "85 ns", "12.5 us", "3.2 ms", "1.5 s"
std::string duration(double nanoseconds);
/// "0-2,5" of ascending numbers.
std::string ranges(const std::vector<int>& numbers);

/// Control characters but line breaks and tabs are printable(): JSON has none.
void print(const std::string& text, std::FILE* out = stdout);

}  // namespace penstock::cli
