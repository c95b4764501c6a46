// SQLite with errors as values. Internal to cost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "penstock/base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace penstock::cost {

/// A cell: nothing, a text, an integer or a number.
using Cell = std::variant<std::monostate, std::string, std::int64_t, double>;

/// One prepared statement. Must not outlive its connection.
class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  /// Binds all parameters in order and forgets earlier results.
  Status bind(const std::vector<Cell>& cells);
  /// True: a row is there. \error kUnavailable  another process holds the database for too long;
  /// kPermissionDenied, kResourceExhausted, kDataLoss  as SQLite says
  Result<bool> step();
  [[nodiscard]] std::vector<Cell> row() const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// An open file. One thread at a time.
class Connection {
 public:
  enum class Mode {
    kWrite,
    kRead,
    kReadUnchanging,  ///< Without the files beside it: others must not write meanwhile.
  };
  /// SQLite opens a file that may only be read in kWrite too; is_read_only() tells.
  /// \error kPermissionDenied, kDataLoss  names the file
  static Result<Connection> open(const std::filesystem::path& file, Mode mode);

  Result<Statement> prepare(const std::string& sql);
  Status execute(const std::string& sql);
  /// The first cell of the first row.
  Result<Cell> value(const std::string& sql);
  [[nodiscard]] bool is_read_only() const;
  /// Rows that the last statement changed.
  [[nodiscard]] std::int64_t changes() const;

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  std::unique_ptr<sqlite3, Close> connection_;
};

}  // namespace penstock::cost
