// Wraps SQLite's C interface: result codes become errors; cells are bound and read by their type.
#include "penstock/cost/sqlite.h"

#include <utility>

#include <sqlite3.h>

#include "penstock/base/hexadecimal.h"

namespace penstock::cost {
namespace {

constexpr int kBusyTimeoutMs = 20'000;

Code code_of(int code) {
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Code::kUnavailable;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return Code::kDataLoss;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
    case SQLITE_AUTH:
      return Code::kPermissionDenied;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_IOERR:
      return Code::kResourceExhausted;
    default:
      return Code::kInternal;
  }
}

Error error_of(sqlite3* connection, int code) {
  return make_error(code_of(code),
                    connection == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(connection));
}

int bind_cell(sqlite3_stmt* statement, int position, const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) {
    // NOLINTNEXTLINE(*-cstyle-cast,performance-no-int-to-ptr): a macro of SQLite's
    const auto copied = SQLITE_TRANSIENT;
    // By 64-bit length: a text may hold any byte.
    return sqlite3_bind_text64(statement, position, text->data(), text->size(), copied,
                               SQLITE_UTF8);
  }
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) {
    return sqlite3_bind_int64(statement, position, *integer);
  }
  if (const auto* number = std::get_if<double>(&cell)) {
    return sqlite3_bind_double(statement, position, *number);
  }
  return sqlite3_bind_null(statement, position);
}

/// "file:" and the path, with what a URI gives a meaning of its own to written as %XX.
std::string uri_of(const std::filesystem::path& file) {
  std::string uri = "file:";
  for (const char byte : std::filesystem::absolute(file).string()) {
    if (byte != '%' && byte != '?' && byte != '#') {
      uri += byte;
      continue;
    }
    uri += "%" + to_hexadecimal({&byte, 1});
  }
  return uri;
}

Cell cell_of(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
      return std::int64_t{sqlite3_column_int64(statement, column)};
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, column);
    case SQLITE_NULL:
      return {};
    default: {
      const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
      const int size = sqlite3_column_bytes(statement, column);
      return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(size));
    }
  }
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Status Statement::bind(const std::vector<Cell>& cells) {
  sqlite3_reset(statement_.get());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const int code = bind_cell(statement_.get(), static_cast<int>(i) + 1, cells[i]);
    if (code != SQLITE_OK) return error_of(sqlite3_db_handle(statement_.get()), code);
  }
  return {};
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return error_of(sqlite3_db_handle(statement_.get()), code);
}

std::vector<Cell> Statement::row() const {
  std::vector<Cell> cells;
  const int count = sqlite3_column_count(statement_.get());
  cells.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) cells.push_back(cell_of(statement_.get(), i));
  return cells;
}

void Connection::Close::operator()(sqlite3* connection) const {
  sqlite3_close_v2(connection);
}

Result<Connection> Connection::open(const std::filesystem::path& file, Mode mode) {
  const int flags =
      mode == Mode::kWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  const auto name = mode == Mode::kReadUnchanging ? uri_of(file) + "?immutable=1" : file.string();
  const int form = mode == Mode::kReadUnchanging ? SQLITE_OPEN_URI : 0;
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(name.c_str(), &raw, flags | form | SQLITE_OPEN_EXRESCODE, nullptr);
  Connection connection;
  connection.connection_.reset(raw);
  if (code != SQLITE_OK) return error_of(raw, code);
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  return connection;
}

Result<Statement> Connection::prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(connection_.get(), sql.c_str(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  if (code != SQLITE_OK) return error_of(connection_.get(), code);
  return Statement(statement);
}

Status Connection::execute(const std::string& sql) {
  const int code = sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error_of(connection_.get(), code);
  return {};
}

Result<Cell> Connection::value(const std::string& sql) {
  PENSTOCK_TRY(auto statement, prepare(sql));
  PENSTOCK_TRY(const bool found, statement.step());
  if (!found) return Cell();
  return statement.row().at(0);
}

bool Connection::is_read_only() const {
  return sqlite3_db_readonly(connection_.get(), "main") == 1;
}

std::int64_t Connection::changes() const {
  return sqlite3_changes64(connection_.get());
}

}  // namespace penstock::cost
