// The tables of the cost database: their columns, and which of them are the key. Internal to cost.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/cost/sqlite.h"

namespace penstock::cost {

/// Raised with every change of the tables. Older files are brought up to it, newer ones refused.
inline constexpr std::int64_t kSchemaVersion = 2;

struct Column {
  enum class Kind { kText, kInteger, kReal };
  const char* name;
  Kind kind = Kind::kText;
  bool key = false;       ///< Part of what names a row.
  bool optional = false;  ///< May hold nothing.
};

struct Table {
  const char* name;
  std::span<const Column> columns;
  std::int64_t since = 1;  ///< The version of the tables that had it first.
};

/// All of them, in the order of export.
std::span<const Table> tables();
/// \pre  there is one of this name
const Table& table(std::string_view name);

/// SQL that makes the tables that a file of an older version has not; 0: all. `temporary`: beside
/// the file, which may only be read.
std::string schema_sql(std::int64_t version, bool temporary = false);
/// "INSERT ... ON CONFLICT ..." of a whole row; `replace`: what is there is overwritten, else kept.
std::string insert_sql(const Table& table, bool replace);
/// "SELECT <all columns> FROM <table> WHERE <names equal ?> ORDER BY rowid".
std::string select_sql(const Table& table, const std::vector<std::string>& names);
/// The names of the key's columns.
std::vector<std::string> key_names(const Table& table);

/// A row that the database may hold: every cell of its column's kind, times finite and over 0.
/// \error kInvalidArgument  names the column, expected and found
Status check_row(const Table& table, const std::vector<Cell>& row);

/// Of a row that others made: its figures can have been measured.
/// \pre  check_row()
/// \error kInvalidArgument  names the column, expected and found
Status check_figures(const Table& table, const std::vector<Cell>& row);

}  // namespace penstock::cost
