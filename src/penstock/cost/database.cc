// Opens, creates and upgrades the file; finds, writes, exports, imports and forgets rows by SQL.
#include "penstock/cost/database.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <thread>
#include <utility>

#include <pwd.h>
#include <unistd.h>

#include "penstock/base/files.h"
#include "penstock/cost/database_json.h"
#include "penstock/cost/records.h"
#include "penstock/cost/sqlite.h"

namespace penstock::cost {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kApplicationId = 0x50535443;  // "PSTC" in SQLite's header.
constexpr const char* kArithmetic = "fp32";          // Kinds of peaks.
constexpr const char* kReading = "reading";
constexpr auto kWalPatience = std::chrono::seconds(20);
constexpr std::uintmax_t kQuicklyChecked = 16U << 20U;  // Bytes, of which that takes some 20 ms.

constexpr std::array<std::pair<FailureKind, std::string_view>, 6> kFailureNames{{
    {FailureKind::kCompile, "compile"},
    {FailureKind::kRun, "run"},
    {FailureKind::kCrash, "crash"},
    {FailureKind::kHang, "hang"},
    {FailureKind::kOutOfMemory, "out_of_memory"},
    {FailureKind::kWrongOutput, "wrong_output"},
}};

std::string place_of(const fs::path& file) {
  return file.empty() ? std::string("cost database")
                      : concat("cost database '", file.string(), "'");
}

constexpr std::string_view kNameAnother = "name another file with PENSTOCK_COSTS";

/// SQLite's words with ours around them: what to do.
Error explain(Error error, const fs::path& file) {
  const std::string place = place_of(file);
  switch (error.code) {
    case Code::kDataLoss:
      return make_error(error.code, place, ": not a cost database, or damaged (", error.message(),
                        "); remove it, or ", kNameAnother);
    case Code::kPermissionDenied:
      return make_error(error.code, place, ": cannot be opened or written (", error.message(),
                        "); make it and its folder writable, or ", kNameAnother);
    case Code::kUnavailable:
      return make_error(error.code, place, ": another process keeps it locked (", error.message(),
                        "); try again when that has ended, or ", kNameAnother);
    case Code::kResourceExhausted:
      return make_error(error.code, place, ": cannot be written (", error.message(),
                        "); free space there, or ", kNameAnother);
    default:
      return std::move(error).within(place);
  }
}

std::int64_t integer_of(const Cell& cell) {
  return std::holds_alternative<std::int64_t>(cell) ? std::get<std::int64_t>(cell) : 0;
}

double number_of(const Cell& cell) {
  return std::holds_alternative<double>(cell) ? std::get<double>(cell) : 0;
}

std::string text_of(const Cell& cell) {
  return std::holds_alternative<std::string>(cell) ? std::get<std::string>(cell) : std::string();
}

std::int64_t now() {
  return std::int64_t{std::time(nullptr)};
}

/// Two processes may ask for the log at once, and SQLite does not wait then.
Status use_log(Connection& connection) {
  const auto end = std::chrono::steady_clock::now() + kWalPatience;
  for (;;) {
    auto mode = connection.value("PRAGMA journal_mode = WAL");
    // Where a file system has no shared memory the mode stays what it was, and all works.
    if (mode) break;
    if (mode.error().code != Code::kUnavailable || std::chrono::steady_clock::now() > end) {
      return std::move(mode).error();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return connection.execute("PRAGMA synchronous = NORMAL");
}

/// Whose file it is, and of which version. \returns the version; 0: there are no tables.
Result<std::int64_t> check_schema(Connection& connection, const fs::path& file) {
  // In this order: another process may make the tables between any two of the three.
  PENSTOCK_TRY(const Cell count, connection.value("SELECT count(*) FROM sqlite_master"));
  PENSTOCK_TRY(const Cell id, connection.value("PRAGMA application_id"));
  PENSTOCK_TRY(const Cell version, connection.value("PRAGMA user_version"));
  if (integer_of(count) == 0 && integer_of(id) == 0) return std::int64_t{0};
  if (integer_of(id) != kApplicationId) {
    return make_error(Code::kFailedPrecondition, place_of(file),
                      ": the database of another program; ", kNameAnother);
  }
  if (integer_of(version) > kSchemaVersion) {
    return make_error(Code::kFailedPrecondition, place_of(file), ": of version ",
                      integer_of(version), ", this Penstock knows versions up to ", kSchemaVersion,
                      "; update Penstock, or ", kNameAnother);
  }
  return integer_of(version);
}

/// $HOME, else as the system's list of users has it; empty where neither is a whole path.
fs::path home_folder() {
  const char* named = std::getenv("HOME");
  fs::path home = named == nullptr ? "" : named;
  if (home.is_absolute()) return home;
  constexpr std::size_t kMost = 16384;
  std::string text(kMost, '\0');
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(::getuid(), &entry, text.data(), text.size(), &found) != 0) return {};
  home = found == nullptr ? "" : found->pw_dir;
  return home.is_absolute() ? home : fs::path();
}

/// Whether all pages are read when the file is opened: a damaged one would else be found in the
/// midst of what is measured. Of a large file, which would take long, where its last writer did not
/// end well, or writes now, and has left its log.
bool is_to_be_checked(const fs::path& file) {
  const auto size_of = [](const fs::path& path) {
    std::error_code ignored;
    const auto size = fs::file_size(path, ignored);
    return ignored ? 0 : size;
  };
  return size_of(file) <= kQuicklyChecked || size_of(file.string() + "-wal") > 0;
}

Status check_pages(Connection& connection) {
  PENSTOCK_TRY(const Cell found, connection.value("PRAGMA quick_check(1)"));
  const auto* said = std::get_if<std::string>(&found);
  if (said == nullptr || *said == "ok") return {};
  return make_error(Code::kDataLoss, said->substr(said->rfind('\n') + 1));  // Below a headline.
}

/// Asks again inside the transaction: another process may have been first.
Status make_schema(Connection& connection, const fs::path& file) {
  PENSTOCK_CHECK_OK(connection.execute("BEGIN IMMEDIATE"));
  const auto made = [&]() -> Status {
    PENSTOCK_TRY(const auto version, check_schema(connection, file));
    if (version == kSchemaVersion) return {};
    if (auto tables = connection.execute(schema_sql(version)); !tables) {
      Error error = std::move(tables).error();
      // Tables of a newer version are there already, or lack what that one adds to.
      if (error.code == Code::kInternal) error.code = Code::kDataLoss;
      return error;
    }
    return connection.execute(concat("PRAGMA user_version = ", kSchemaVersion,
                                     "; PRAGMA application_id = ", kApplicationId));
  }();
  const Status ended = connection.execute(made ? "COMMIT" : "ROLLBACK");
  return made ? ended : made;
}

std::vector<Cell> cells_of(const PartKey& key) {
  return {key.model,
          key.inputs,
          key.precision,
          key.backend,
          key.engine,
          key.device,
          std::int64_t{key.threads},
          key.condition,
          key.options};
}

std::vector<Cell> cells_of(const CheckKey& key) {
  return {key.model,   key.inputs,    key.precision, key.backend,
          key.engine,  key.reference, key.device,    std::int64_t{key.threads},
          key.options, key.seeds,     key.tolerance};
}

std::vector<Cell> cells_of(const BoundaryKey& key) {
  return {key.source, key.source_engine, key.target, key.target_engine,
          key.layout, key.bytes,         key.device};
}

std::vector<Cell> cells_of(const PlanKey& key) {
  return {key.plan, key.device, key.engines};
}

Cell kind_cell(const std::optional<Failure>& failure) {
  return failure ? Cell(std::string(to_string(failure->kind))) : Cell();
}

Cell message_cell(const std::optional<Failure>& failure) {
  return failure ? Cell(failure->message) : Cell();
}

std::optional<Failure> failure_of(const Cell& kind, const Cell& message) {
  if (std::holds_alternative<std::monostate>(kind)) return std::nullopt;
  return Failure{parse_failure_kind(text_of(kind)).value_or(FailureKind::kRun), text_of(message)};
}

/// Cells by the names of their columns.
class Row {
 public:
  Row(const Table& table, std::vector<Cell> cells) : table_(&table), cells_(std::move(cells)) {}
  const Cell& operator[](std::string_view name) const {
    for (std::size_t i = 0; i < table_->columns.size(); ++i) {
      if (table_->columns[i].name == name) return cells_[i];
    }
    static const Cell kNothing;
    return kNothing;
  }

 private:
  const Table* table_;
  std::vector<Cell> cells_;
};

Cost cost_of(const Row& row) {
  Cost cost{number_of(row["seconds"]), number_of(row["low"]), number_of(row["high"]),
            integer_of(row["runs"]), failure_of(row["failure"], row["message"])};
  if (!cost.failure) cost.remark = text_of(row["message"]);
  return cost;
}

std::string numbers_text(const std::vector<double>& numbers) {
  return join(numbers, " ", [](double x) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.17g", x);
    return std::string(text.data());
  });
}

std::vector<double> numbers_of(const std::string& text) {
  std::vector<double> numbers;
  std::istringstream in(text);
  for (double x = 0; in >> x;) numbers.push_back(x);
  return numbers;
}

/// WHERE clause and its cells for the rows of a table that a filter means; empty: none of them.
std::optional<std::pair<std::string, std::vector<Cell>>> where(const Table& table,
                                                               const Filter& filter) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(table.columns, name, &Column::name) != table.columns.end();
  };
  std::vector<std::string> terms;
  std::vector<Cell> cells;
  const auto match = [&](const std::string& column, const std::string& text) {
    terms.push_back(concat("instr('+' || ", column, " || '+', ?) > 0"));
    cells.emplace_back("+" + text + "+");
  };
  if (!filter.backend.empty()) {
    if (has("backend")) {
      match("backend", filter.backend);
    } else if (has("source_engine")) {
      match("(source || '+' || target)", filter.backend);
    } else if (has("engines")) {  // "onednn 3.2.0, onnxruntime 1.31.1"
      terms.push_back("instr(', ' || engines, ?) > 0");
      cells.emplace_back(", " + filter.backend + " ");
    } else {
      return std::nullopt;
    }
  }
  if (!filter.model.empty()) {
    const std::string column = has("model") ? "model" : has("plan") ? "plan" : "";
    if (column.empty()) return std::nullopt;
    terms.push_back(concat("substr(", column, ", 1, ", filter.model.size(), ") = ?"));
    cells.emplace_back(filter.model);
  }
  if (filter.failed && has("engines")) {
    terms.emplace_back("frames_per_second = '0'");
  } else if (filter.failed) {
    if (!has("failure")) return std::nullopt;
    terms.emplace_back("failure IS NOT NULL");
  }
  return std::pair(terms.empty() ? "" : " WHERE " + join(terms, " AND "), std::move(cells));
}

/// The first row whose columns `names` have these values.
Result<std::optional<Row>> first_row(Connection& connection, const Table& table,
                                     const std::vector<std::string>& names,
                                     const std::vector<Cell>& values,
                                     const std::string& condition) {
  std::string sql = select_sql(table, names);
  sql.insert(sql.rfind(" ORDER BY"), condition);
  PENSTOCK_TRY(auto statement, connection.prepare(sql));
  PENSTOCK_CHECK_OK(statement.bind(values));
  PENSTOCK_TRY(const bool there, statement.step());
  if (!there) return std::optional<Row>();
  return std::optional<Row>(Row(table, statement.row()));
}

Status insert(Connection& connection, const Table& table, const std::vector<Cell>& row,
              bool replace) {
  PENSTOCK_TRY(auto statement, connection.prepare(insert_sql(table, replace)));
  PENSTOCK_CHECK_OK(statement.bind(row));
  PENSTOCK_TRY([[maybe_unused]] const bool more, statement.step());
  return {};
}

Status inside_transaction(Connection& connection, const std::function<Status()>& work) {
  PENSTOCK_CHECK_OK(connection.execute("BEGIN IMMEDIATE"));
  Status done = work();
  Status ended = connection.execute(done ? "COMMIT" : "ROLLBACK");
  return done ? ended : done;
}

/// None unless there are some of arithmetic and some of memory.
Result<std::optional<Peaks>> read_peaks(Connection& connection, const std::string& device) {
  const Table& table = cost::table("peaks");
  Peaks peaks;
  PENSTOCK_TRY(auto statement, connection.prepare(select_sql(table, {"device"})));
  PENSTOCK_CHECK_OK(statement.bind({device}));
  for (;;) {
    PENSTOCK_TRY(const bool there, statement.step());
    if (!there) break;
    const Row row(table, statement.row());
    const double per_second = number_of(row["per_second"]);
    if (text_of(row["kind"]) == kArithmetic) {
      peaks.widths.push_back({text_of(row["name"]), per_second});
    } else {
      peaks.levels.push_back({text_of(row["name"]), number_of(row["bytes"]), per_second});
    }
  }
  if (peaks.widths.empty() || peaks.levels.empty()) return std::optional<Peaks>();
  return std::optional(std::move(peaks));
}

}  // namespace

std::string_view to_string(FailureKind kind) {
  return std::ranges::find(kFailureNames, kind, [](const auto& pair) { return pair.first; })
      ->second;
}

std::optional<FailureKind> parse_failure_kind(std::string_view text) {
  for (const auto& [kind, name] : kFailureNames) {
    if (name == text) return kind;
  }
  return std::nullopt;
}

struct Database::State {
  fs::path file;
  Connection connection;
  bool goes_on = false;             ///< Without the file, where it fails.
  bool told = false;                ///< Why it does.
  bool is_lost = false;             ///< The file cannot be read: it is left alone.
  std::optional<Connection> aside;  ///< What the file did not take.
  std::function<void(const std::string&)> warn;

  Error explained(Error error) const { return explain(std::move(error), file); }

  /// What `look` finds aside, else in the file; T() where neither has it.
  template <typename T>
  Result<T> look_up(const std::function<Result<T>(Connection&)>& look) {
    if (aside) {
      auto found = look(*aside);
      if (!found || *found) return found;
    }
    if (is_lost) return T();
    auto found = look(connection);
    if (found) return found;
    auto error = explained(std::move(found).error());
    if (!goes_on) return error;
    is_lost = true;
    tell(error);
    return T();
  }

  Result<std::optional<Row>> find(const Table& table, const std::vector<std::string>& names,
                                  const std::vector<Cell>& values,
                                  const std::string& condition = "") {
    return look_up<std::optional<Row>>(
        [&](Connection& place) { return first_row(place, table, names, values, condition); });
  }

  /// Writes to the file, else aside.
  Status keep(const std::function<Status(Connection&)>& write) {
    if (!is_lost) {
      Status kept = write(connection);
      if (kept && aside) return write(*aside);  // Where an older row of the key may lie.
      if (kept || kept.error().code == Code::kInvalidArgument) return kept;
      auto error = explained(std::move(kept).error());
      if (!goes_on) return error;
      is_lost = error.code == Code::kDataLoss;
      tell(error);
    }
    if (!aside) {
      PENSTOCK_TRY(auto memory, Connection::open(":memory:", Connection::Mode::kWrite));
      PENSTOCK_CHECK_OK(make_schema(memory, ""));
      aside = std::move(memory);
    }
    return write(*aside);
  }

  Status put(const Table& table, const std::vector<Cell>& row) {
    PENSTOCK_CHECK_OK(check_row(table, row));
    return keep([&](Connection& place) { return insert(place, table, row, true); });
  }

  /// Once: what hinders one row hinders the next ones too.
  void tell(const Error& why) {
    if (!warn || std::exchange(told, true)) return;
    warn(why.message() + "; what is measured now will be measured again");
  }
};

Database::Database(std::unique_ptr<State> state) : state_(std::move(state)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

const fs::path& Database::file() const {
  return state_->file;
}

void Database::go_on_without(std::function<void(const std::string&)> warn) {
  state_->goes_on = true;
  if (warn) state_->warn = std::move(warn);
}

fs::path Database::default_path() {
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (auto named = variable("PENSTOCK_COSTS"); !named.empty()) return named;
  fs::path cache = variable("XDG_CACHE_HOME");
  if (!cache.is_absolute()) {
    const auto home = home_folder();
    if (home.empty()) return {};
    cache = home / ".cache";
  }
  return cache / "penstock" / "costs.db";
}

Result<Database> Database::open(const fs::path& file) {
  if (file.empty()) {
    return not_found(
        "costs: no place for their database, as neither HOME nor the list of users tells a folder; "
        "name a file with PENSTOCK_COSTS");
  }
  auto state = std::make_unique<State>();
  state->file = file;
  const bool check = is_to_be_checked(file);  // Asked before this one has a log, too.
  const auto open_to_write = [&]() -> Status {
    if (file.has_parent_path()) PENSTOCK_CHECK_OK(make_folder(file.parent_path()));
    PENSTOCK_TRY(state->connection, Connection::open(file, Connection::Mode::kWrite));
    if (state->connection.is_read_only()) {
      return make_error(Code::kPermissionDenied, "it may only be read");
    }
    PENSTOCK_TRY(const auto version, check_schema(state->connection, file));
    if (check) PENSTOCK_CHECK_OK(check_pages(state->connection));
    PENSTOCK_CHECK_OK(use_log(state->connection));
    if (version == kSchemaVersion) return {};
    return make_schema(state->connection, file);
  };
  auto opened = open_to_write();
  if (opened) return Database(std::move(state));
  if (opened.error().code == Code::kFailedPrecondition) return std::move(opened).error();
  if (opened.error().code != Code::kPermissionDenied) {
    return explain(std::move(opened).error(), file);
  }
  const auto open_to_read = [&](Connection::Mode mode) -> Result<std::int64_t> {
    PENSTOCK_TRY(state->connection, Connection::open(file, mode));
    if (check) PENSTOCK_CHECK_OK(check_pages(state->connection));
    return check_schema(state->connection, file);
  };
  auto readable = open_to_read(Connection::Mode::kRead);
  // Its log wants a file beside it, and no file can be made there.
  if (!readable && readable.error().code == Code::kPermissionDenied) {
    readable = open_to_read(Connection::Mode::kReadUnchanging);
  }
  if (!readable || *readable == 0) return explain(std::move(opened).error(), file);
  PENSTOCK_CHECK_OK(state->connection.execute(schema_sql(*readable, true)));
  return Database(std::move(state));
}

Result<Database> Database::in_memory() {
  auto state = std::make_unique<State>();
  PENSTOCK_TRY(state->connection, Connection::open(":memory:", Connection::Mode::kWrite));
  PENSTOCK_CHECK_OK(make_schema(state->connection, ""));
  return Database(std::move(state));
}

Result<std::optional<Cost>> Database::find(const PartKey& key) {
  const Table& parts = table("parts");
  auto names = key_names(parts);
  auto cells = cells_of(key);
  PENSTOCK_TRY(const auto exact, state_->find(parts, names, cells));
  if (exact) return std::optional(cost_of(*exact));
  if (key.structure.empty()) return std::optional<Cost>();
  names[0] = "structure";
  cells[0] = key.structure;
  PENSTOCK_TRY(const auto alike,
               state_->find(parts, names, cells, " AND coalesce(failure, '') <> 'wrong_output'"));
  if (alike) return std::optional(cost_of(*alike));
  return std::optional<Cost>();
}

Status Database::put(const PartKey& key, const Cost& cost, const std::string& name) {
  const bool failed = cost.failure.has_value();
  const bool limited = failed && wants_more(cost.failure->kind);
  const auto figure = [failed](double x) { return failed ? Cell() : Cell(x); };
  if (!failed && !(cost.seconds > 0)) {
    return invalid_argument("parts.seconds: expected a number over 0, found ", cost.seconds);
  }
  return state_->put(
      table("parts"),
      {key.model, key.structure, key.inputs, key.precision, key.backend, key.engine, key.device,
       std::int64_t{key.threads}, key.condition, key.options, name, figure(cost.seconds),
       limited ? Cell(cost.low) : figure(cost.low), figure(cost.high), cost.runs,
       kind_cell(cost.failure),
       failed || cost.remark.empty() ? message_cell(cost.failure) : Cell(cost.remark), now()});
}

Result<std::optional<Check>> Database::find(const CheckKey& key) {
  const Table& checks = table("checks");
  PENSTOCK_TRY(const auto row, state_->find(checks, key_names(checks), cells_of(key)));
  if (!row) return std::optional<Check>();
  return std::optional(Check{number_of((*row)["worst_ratio"]), text_of((*row)["output"]),
                             text_of((*row)["place"]),
                             failure_of((*row)["failure"], (*row)["message"])});
}

Status Database::put(const CheckKey& key, const Check& check, const std::string& name) {
  auto row = cells_of(key);
  // A ratio without bound (a NaN where a number was due) has no number; the failure tells.
  Cell ratio;
  if (std::isfinite(check.worst_ratio)) ratio = check.worst_ratio;
  for (auto& cell :
       std::vector<Cell>{name, ratio, check.output, check.place, kind_cell(check.failure),
                         message_cell(check.failure), now()}) {
    row.push_back(std::move(cell));
  }
  return state_->put(table("checks"), row);
}

Result<std::optional<Boundary>> Database::find(const BoundaryKey& key) {
  const Table& boundaries = table("boundaries");
  PENSTOCK_TRY(const auto row, state_->find(boundaries, key_names(boundaries), cells_of(key)));
  if (!row) return std::optional<Boundary>();
  return std::optional(Boundary{number_of((*row)["seconds"]), number_of((*row)["cut_seconds"]),
                                integer_of((*row)["runs"]),
                                failure_of((*row)["failure"], (*row)["message"])});
}

Status Database::put(const BoundaryKey& key, const Boundary& boundary) {
  const auto figure = [&](double x) { return boundary.failure ? Cell() : Cell(x); };
  auto row = cells_of(key);
  for (auto& cell :
       std::vector<Cell>{figure(boundary.seconds), figure(boundary.cut_seconds), boundary.runs,
                         kind_cell(boundary.failure), message_cell(boundary.failure), now()}) {
    row.push_back(std::move(cell));
  }
  return state_->put(table("boundaries"), row);
}

Result<std::optional<PlanResult>> Database::find(const PlanKey& key) {
  const Table& plans = table("plans");
  PENSTOCK_TRY(const auto row, state_->find(plans, key_names(plans), cells_of(key)));
  if (!row) return std::optional<PlanResult>();
  return std::optional(
      PlanResult{numbers_of(text_of((*row)["frames_per_second"])), text_of((*row)["text"])});
}

Result<std::optional<std::int64_t>> Database::measured_at(const PlanKey& key) {
  const Table& plans = table("plans");
  PENSTOCK_TRY(const auto row, state_->find(plans, key_names(plans), cells_of(key)));
  return row ? std::optional(integer_of((*row)["measured_at"])) : std::nullopt;
}

Status Database::put(const PlanKey& key, const PlanResult& result) {
  for (const double x : result.frames_per_second) {
    if (!std::isfinite(x) || x < 0) {
      return invalid_argument("plans.frames_per_second: expected numbers from 0, found ", x);
    }
  }
  return state_->put(table("plans"), {key.plan, key.device, key.engines,
                                      numbers_text(result.frames_per_second), result.text, now()});
}

Result<std::optional<Link>> Database::find_link(const std::string& source,
                                                const std::string& target,
                                                const std::string& device) {
  const Table& links = table("links");
  PENSTOCK_TRY(const auto row, state_->find(links, key_names(links), {source, target, device}));
  if (!row) return std::optional<Link>();
  return std::optional(
      Link{number_of((*row)["latency_seconds"]), number_of((*row)["bytes_per_second"])});
}

Status Database::put_link(const std::string& source, const std::string& target,
                          const std::string& device, const Link& link) {
  return state_->put(table("links"),
                     {source, target, device, link.latency_seconds, link.bytes_per_second, now()});
}

Result<std::optional<Peaks>> Database::find_peaks(const std::string& device) {
  return state_->look_up<std::optional<Peaks>>(
      [&](Connection& place) { return read_peaks(place, device); });
}

Status Database::put_peaks(const std::string& device, const Peaks& peaks) {
  const Table& table = cost::table("peaks");
  std::vector<std::vector<Cell>> rows;
  for (const auto& width : peaks.widths) {
    rows.push_back({device, kArithmetic, width.name, 0.0, width.flops_per_second, now()});
  }
  for (const auto& level : peaks.levels) {
    rows.push_back({device, kReading, level.name, level.bytes, level.bytes_per_second, now()});
  }
  for (const auto& row : rows) PENSTOCK_CHECK_OK(check_row(table, row));
  return state_->keep([&](Connection& place) {
    return inside_transaction(place, [&]() -> Status {
      // Rows come back in the order in which they were made: none of before may stay among them.
      PENSTOCK_TRY(auto statement, place.prepare("DELETE FROM peaks WHERE device = ?"));
      PENSTOCK_CHECK_OK(statement.bind({device}));
      PENSTOCK_TRY([[maybe_unused]] const bool more, statement.step());
      for (const auto& row : rows) PENSTOCK_CHECK_OK(insert(place, table, row, true));
      return {};
    });
  });
}

Result<std::string> Database::export_text(const Filter& filter) {
  RowsByTable rows;
  for (const auto& table : tables()) {
    auto& list = rows.emplace_back();
    const auto chosen = where(table, filter);
    if (!chosen) continue;
    std::string sql = select_sql(table, {});
    sql.insert(sql.rfind(" ORDER BY"), chosen->first);
    auto read = [&]() -> Status {
      PENSTOCK_TRY(auto statement, state_->connection.prepare(sql));
      PENSTOCK_CHECK_OK(statement.bind(chosen->second));
      for (;;) {
        PENSTOCK_TRY(const bool there, statement.step());
        if (!there) return {};
        list.push_back(statement.row());
      }
    }();
    if (!read) return state_->explained(std::move(read).error());
  }
  return print_rows(rows);
}

Result<ImportCount> Database::import_text(const std::string& text) {
  PENSTOCK_TRY(const auto rows, parse_rows(text));
  ImportCount count;
  const auto work = [&]() -> Status {
    for (std::size_t t = 0; t < tables().size(); ++t) {
      for (const auto& row : rows[t]) {
        PENSTOCK_CHECK_OK(insert(state_->connection, tables()[t], row, false));
        ++(state_->connection.changes() > 0 ? count.added : count.kept);
      }
    }
    return {};
  };
  auto done = inside_transaction(state_->connection, work);
  if (!done) return state_->explained(std::move(done).error());
  return count;
}

Result<std::int64_t> Database::forget(const Filter& filter) {
  std::int64_t count = 0;
  const auto work = [&]() -> Status {
    for (const auto& table : tables()) {
      const auto chosen = where(table, filter);
      if (!chosen) continue;
      PENSTOCK_TRY(auto statement,
                   state_->connection.prepare(concat("DELETE FROM ", table.name, chosen->first)));
      PENSTOCK_CHECK_OK(statement.bind(chosen->second));
      PENSTOCK_TRY([[maybe_unused]] const bool more, statement.step());
      count += state_->connection.changes();
    }
    // What a search concluded may rest on what is forgotten.
    return state_->connection.execute("DELETE FROM plans WHERE substr(plan, 1, 7) = 'search:'");
  };
  auto done = inside_transaction(state_->connection, work);
  if (!done) return state_->explained(std::move(done).error());
  return count;
}

}  // namespace penstock::cost
