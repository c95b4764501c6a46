// Column lists of the six tables, the SQL statements made from them, and the check of a row.
#include "penstock/cost/records.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "penstock/cost/database.h"

namespace penstock::cost {
namespace {

using Kind = Column::Kind;

constexpr auto kText = Kind::kText;
constexpr auto kInteger = Kind::kInteger;
constexpr auto kReal = Kind::kReal;

constexpr std::array kParts{
    Column{"model", kText, true},          Column{"structure", kText, false},
    Column{"inputs", kText, true},         Column{"precision", kText, true},
    Column{"backend", kText, true},        Column{"engine", kText, true},
    Column{"device", kText, true},         Column{"threads", kInteger, true},
    Column{"condition", kText, true},      Column{"options", kText, true},
    Column{"name", kText, false, true},    Column{"seconds", kReal, false, true},
    Column{"low", kReal, false, true},     Column{"high", kReal, false, true},
    Column{"runs", kInteger, false},       Column{"failure", kText, false, true},
    Column{"message", kText, false, true}, Column{"measured_at", kInteger, false},
};

constexpr std::array kChecks{
    Column{"model", kText, true},
    Column{"inputs", kText, true},
    Column{"precision", kText, true},
    Column{"backend", kText, true},
    Column{"engine", kText, true},
    Column{"reference", kText, true},
    Column{"device", kText, true},
    Column{"threads", kInteger, true},
    Column{"options", kText, true},
    Column{"seeds", kText, true},
    Column{"tolerance", kText, true},
    Column{"name", kText, false, true},
    Column{"worst_ratio", kReal, false, true},
    Column{"output", kText, false, true},
    Column{"place", kText, false, true},
    Column{"failure", kText, false, true},
    Column{"message", kText, false, true},
    Column{"measured_at", kInteger, false},
};

constexpr std::array kBoundaries{
    Column{"source", kText, true},
    Column{"source_engine", kText, true},
    Column{"target", kText, true},
    Column{"target_engine", kText, true},
    Column{"layout", kText, true},
    Column{"bytes", kInteger, true},
    Column{"device", kText, true},
    Column{"seconds", kReal, false, true},
    Column{"cut_seconds", kReal, false, true},
    Column{"runs", kInteger, false},
    Column{"failure", kText, false, true},
    Column{"message", kText, false, true},
    Column{"measured_at", kInteger, false},
};

constexpr std::array kLinks{
    Column{"source", kText, true},
    Column{"target", kText, true},
    Column{"device", kText, true},
    Column{"latency_seconds", kReal, false},
    Column{"bytes_per_second", kReal, false},
    Column{"measured_at", kInteger, false},
};

constexpr std::array kPlans{
    Column{"plan", kText, true},    Column{"device", kText, true},
    Column{"engines", kText, true}, Column{"frames_per_second", kText, false},
    Column{"text", kText, false},   Column{"measured_at", kInteger, false},
};

constexpr std::array kPeaks{
    Column{"device", kText, true},      Column{"kind", kText, true},
    Column{"name", kText, true},        Column{"bytes", kReal, false},
    Column{"per_second", kReal, false}, Column{"measured_at", kInteger, false},
};

constexpr std::array kTables{
    Table{"parts", kParts}, Table{"checks", kChecks}, Table{"boundaries", kBoundaries},
    Table{"links", kLinks}, Table{"plans", kPlans},   Table{"peaks", kPeaks, 2},
};

constexpr const char* type_of(Kind kind) {
  return kind == kText ? "TEXT" : kind == kInteger ? "INTEGER" : "REAL";
}

constexpr const char* word_for(Kind kind) {
  return kind == kText ? "a text" : kind == kInteger ? "an integer" : "a number";
}

/// A boundary may cost less than nothing: the next part finds its input in the cache.
bool may_be_negative(const Table& table) {
  return std::string_view(table.name) == "boundaries";
}

bool is_of(const Cell& cell, Kind kind) {
  if (kind == kText) return std::holds_alternative<std::string>(cell);
  if (kind == kInteger) return std::holds_alternative<std::int64_t>(cell);
  return std::holds_alternative<double>(cell);
}

std::string shown(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return "'" + *text + "'";
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return concat(*integer);
  if (const auto* number = std::get_if<double>(&cell)) return concat(*number);
  return "nothing";
}

Error refuse(const Table& table, std::string_view column, const std::string& expected,
             const Cell& found) {
  return invalid_argument(table.name, ".", column, ": expected ", expected, ", found ",
                          shown(found));
}

// Of one run of a part: sums and quotients of such times are numbers still.
constexpr double kShortest = 1e-9;
constexpr double kLongest = 1e7;

/// Empty, too, where the table has no such column.
const Cell& cell_at(const Table& table, const std::vector<Cell>& row, std::string_view name) {
  static const Cell kNothing;
  const auto column = std::ranges::find(table.columns, name, &Column::name);
  if (column == table.columns.end()) return kNothing;
  return row[static_cast<std::size_t>(column - table.columns.begin())];
}

bool has_failed(const Table& table, const std::vector<Cell>& row) {
  return !std::holds_alternative<std::monostate>(cell_at(table, row, "failure"));
}

/// What ran has a thread at least, and what has a time has run.
Status check_count(const Table& table, std::size_t column, const std::vector<Cell>& row) {
  const auto* count = std::get_if<std::int64_t>(&row[column]);
  if (count == nullptr) return {};
  const std::string_view name = table.columns[column].name;
  const bool none_is_none = name == "threads" || (name == "runs" && !has_failed(table, row));
  const std::int64_t least = none_is_none ? 1 : 0;
  if (*count >= least) return {};
  return refuse(table, name, concat("an integer from ", least), row[column]);
}

Status check_failure(const Table& table, const std::vector<Cell>& row) {
  const auto& cell = cell_at(table, row, "failure");
  const auto* kind = std::get_if<std::string>(&cell);
  if (kind == nullptr || parse_failure_kind(*kind)) return {};
  return refuse(table, "failure", "a kind of failure, such as 'crash'", cell);
}

/// A part that did not fail has a time, which lies in its interval; none takes longer than any can.
Status check_times(const Table& table, const std::vector<Cell>& row) {
  const auto at = [&](std::string_view name) -> const Cell& { return cell_at(table, row, name); };
  const bool failed = has_failed(table, row);
  for (const auto* name : {"seconds", "low", "high"}) {
    const auto* number = std::get_if<double>(&at(name));
    const bool is_none = number == nullptr || *number == 0;
    if (failed && (is_none || *number <= kLongest)) continue;  // Until it failed, if that is known.
    if (number == nullptr) return refuse(table, name, "a number, or a failure", at(name));
    if (*number >= kShortest && *number <= kLongest) continue;
    return refuse(table, name, concat("a number from ", kShortest, " to ", kLongest), at(name));
  }
  if (failed) return {};
  const auto low = std::get<double>(at("low"));
  const auto high = std::get<double>(at("high"));
  const auto seconds = std::get<double>(at("seconds"));
  if (low <= seconds && seconds <= high) return {};
  return refuse(table, "seconds", concat("a number from ", low, " to ", high, ", its low and high"),
                at("seconds"));
}

}  // namespace

std::span<const Table> tables() {
  return kTables;
}

const Table& table(std::string_view name) {
  return *std::ranges::find(kTables, name, &Table::name);
}

std::vector<std::string> key_names(const Table& table) {
  std::vector<std::string> names;
  for (const auto& column : table.columns) {
    if (column.key) names.emplace_back(column.name);
  }
  return names;
}

std::string schema_sql(std::int64_t version, bool temporary) {
  std::string sql;
  for (const auto& table : kTables) {
    if (table.since <= version) continue;
    sql += concat("CREATE ", temporary ? "TEMP " : "", "TABLE ", table.name,
                  " (id INTEGER PRIMARY KEY, ");
    for (const auto& column : table.columns) {
      sql +=
          concat(column.name, " ", type_of(column.kind), column.optional ? "" : " NOT NULL", ", ");
    }
    sql += concat("UNIQUE (", join(key_names(table), ", "), "));\n");
  }
  return version > 0 ? sql : sql + "CREATE INDEX parts_by_structure ON parts (structure);\n";
}

std::string insert_sql(const Table& table, bool replace) {
  const auto name = [](const Column& column) { return std::string(column.name); };
  std::string sql =
      concat("INSERT INTO ", table.name, " (", join(table.columns, ", ", name), ") VALUES (",
             join(table.columns, ", ", [](const Column&) { return std::string("?"); }),
             ") ON CONFLICT (", join(key_names(table), ", "), ") DO ");
  if (!replace) return sql + "NOTHING";
  return sql + "UPDATE SET " + join(table.columns, ", ", [&](const Column& column) {
           return concat(column.name, " = excluded.", column.name);
         });
}

std::string select_sql(const Table& table, const std::vector<std::string>& names) {
  std::string sql = concat(
      "SELECT ", join(table.columns, ", ", [](const Column& c) { return std::string(c.name); }),
      " FROM ", table.name);
  if (!names.empty()) {
    sql += " WHERE " + join(names, " AND ", [](const auto& name) { return name + " = ?"; });
  }
  return sql + " ORDER BY id";
}

Status check_row(const Table& table, const std::vector<Cell>& row) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    const Cell& cell = row[i];
    if (column.optional && std::holds_alternative<std::monostate>(cell)) continue;
    if (!is_of(cell, column.kind)) {
      return invalid_argument(table.name, ".", column.name, ": expected ", word_for(column.kind),
                              ", found ", shown(cell));
    }
    const auto* number = std::get_if<double>(&cell);
    if (number == nullptr) continue;
    if (!std::isfinite(*number)) {
      return invalid_argument(table.name, ".", column.name, ": expected a finite number, found ",
                              *number);
    }
    if (*number < 0 && !may_be_negative(table)) {
      return invalid_argument(table.name, ".", column.name, ": expected a number from 0, found ",
                              *number);
    }
  }
  return {};
}

Status check_figures(const Table& table, const std::vector<Cell>& row) {
  constexpr double kMost = 1e18;
  PENSTOCK_CHECK_OK(check_failure(table, row));
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    PENSTOCK_CHECK_OK(check_count(table, i, row));
    const std::string_view name = table.columns[i].name;
    const auto* number = std::get_if<double>(&row[i]);
    if (number == nullptr || name == "worst_ratio") continue;  // Of wrong values it has no end.
    if (name == "per_second" && *number <= 0) return refuse(table, name, "a number over 0", row[i]);
    const bool is_time_of_part = std::string_view(table.name) == "parts";
    if (is_time_of_part || std::abs(*number) <= kMost) continue;
    return refuse(table, name, concat("a number up to ", kMost), row[i]);
  }
  return std::string_view(table.name) == "parts" ? check_times(table, row) : Status();
}

}  // namespace penstock::cost
