// Converts cells by the kind of their column with nlohmann/json; an error names the row's place.
#include "penstock/cost/database_json.h"

#include <nlohmann/json.hpp>

#include "penstock/base/nesting.h"

namespace penstock::cost {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return *integer;
  if (const auto* number = std::get_if<double>(&cell)) return *number;
  return nullptr;
}

Cell cell_of(const Json& value, Column::Kind kind) {
  if (kind == Column::Kind::kText && value.is_string()) return value.get<std::string>();
  if (kind == Column::Kind::kInteger && value.is_number_integer()) return value.get<std::int64_t>();
  if (kind == Column::Kind::kReal && value.is_number()) return value.get<double>();
  // Of another kind than the column's: check_row() says so.
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return value.get<double>();
  return {};
}

Result<std::vector<Cell>> row_of(const Json& object, const Table& table) {
  if (!object.is_object()) return invalid_argument("expected an object");
  std::vector<Cell> row;
  for (const auto& column : table.columns) {
    const auto at = object.find(column.name);
    if (at != object.end() && (at->is_structured() || at->is_boolean())) {
      return invalid_argument(table.name, ".", column.name, ": expected ",
                              column.kind == Column::Kind::kText ? "a text" : "a number",
                              ", found ", at->is_structured() ? "a list or an object" : at->dump());
    }
    row.push_back(at == object.end() ? Cell() : cell_of(*at, column.kind));
  }
  PENSTOCK_CHECK_OK(check_row(table, row));
  PENSTOCK_CHECK_OK(check_figures(table, row));
  return row;
}

}  // namespace

std::string print_rows(const RowsByTable& rows) {
  Json json = {{"version", kSchemaVersion}};
  for (std::size_t t = 0; t < tables().size(); ++t) {
    const Table& table = tables()[t];
    Json list = Json::array();
    for (const auto& row : rows[t]) {
      Json object = Json::object();
      for (std::size_t i = 0; i < row.size(); ++i) object[table.columns[i].name] = to_json(row[i]);
      list.push_back(std::move(object));
    }
    json[table.name] = std::move(list);
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<RowsByTable> parse_rows(const std::string& text) {
  PENSTOCK_CHECK_OK(check_nesting(text));
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    return invalid_argument("not JSON; expected what 'penstock costs export' writes");
  const auto version = json.is_object() ? json.find("version") : json.end();
  if (version == json.end() || !version->is_number_integer()) {
    return invalid_argument(
        "expected what 'penstock costs export' writes, an object with \"version\"");
  }
  if (version->get<std::int64_t>() > kSchemaVersion) {
    return make_error(Code::kFailedPrecondition, "version ", version->get<std::int64_t>(),
                      ": this Penstock knows versions up to ", kSchemaVersion, "; update Penstock");
  }
  RowsByTable rows;
  for (const auto& table : tables()) {
    auto& list = rows.emplace_back();
    const auto at = json.find(table.name);
    if (at == json.end()) continue;
    if (!at->is_array()) return invalid_argument(table.name, ": expected a list");
    for (const auto& object : *at) {
      auto row = row_of(object, table);
      if (!row) return std::move(row).error().within(concat(table.name, "[", list.size(), "]"));
      list.push_back(*std::move(row));
    }
  }
  return rows;
}

}  // namespace penstock::cost
