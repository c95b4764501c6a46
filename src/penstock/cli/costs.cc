// penstock costs: what was measured, and is kept.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>

#include "penstock/base/files.h"
#include "penstock/base/missing_folder.h"
#include "penstock/base/near_names.h"
#include "penstock/cli/command.h"
#include "penstock/cli/json.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/outputs.h"
#include "penstock/cli/text.h"
#include "penstock/cost/database.h"

namespace penstock::cli {
namespace {

struct CostsOptions {
  std::filesystem::path database;
  cost::Filter filter;
  bool all = false;
  bool json = false;
  std::string action;
  std::string file;
};

std::filesystem::path file_of(const CostsOptions& options) {
  return options.database.empty() ? cost::Database::default_path() : options.database;
}

bool has_no_bytes(const std::filesystem::path& file) {
  std::error_code error;
  return std::filesystem::is_regular_file(file, error) &&
         std::filesystem::file_size(file, error) == 0;
}

/// Only an import makes the file, or tables in an empty one. Where the default one is missing or
/// empty, nothing was measured yet; a named one is misspelt then.
Result<cost::Database> open(const CostsOptions& options) {
  const auto& named = options.database;
  const bool makes = options.action == "import";
  if (named.empty()) {
    const auto file = file_of(options);
    return makes || !(is_absent(file) || has_no_bytes(file)) ? cost::Database::open(file)
                                                             : cost::Database::in_memory();
  }
  if (!makes && is_absent(named)) {
    return not_found("--database '", named.string(),
                     "': no such file; expected a database of costs", did_you_mean_file(named));
  }
  if (!makes && has_no_bytes(named)) {
    return make_error(Code::kFailedPrecondition, "--database '", named.string(),
                      "': an empty file; expected a database of costs");
  }
  return cost::Database::open(named);
}

Result<Json> rows_of(const CostsOptions& options) {
  PENSTOCK_TRY(auto database, open(options));
  PENSTOCK_TRY(const auto text, database.export_text(options.filter));
  auto json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return internal_error("costs: an export that is not JSON");
  json["file"] = file_of(options).string();
  return json;
}

std::string text_at(const Json& row, const char* name) {
  const auto& value = row[name];
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string seconds_at(const Json& row, const char* name) {
  constexpr double kNanoseconds = 1e9;
  const auto& value = row[name];
  if (!value.is_number()) return "-";
  const double time = value.get<double>() * kNanoseconds;
  return time < 0 ? "-" + duration(-time) : duration(time);
}

/// "+-2 %": half of the interval that the median is in with 95 %, of the median.
std::string sureness_at(const Json& row) {
  const auto &seconds = row["seconds"], &low = row["low"], &high = row["high"];
  if (!seconds.is_number() || !low.is_number() || !high.is_number()) return "-";
  const double half = (high.get<double>() - low.get<double>()) / 2;
  return concat("+-", number(half / seconds.get<double>() * 100, 1), " %");
}

/// How long ago it was measured: "40 s", "5 min", "3 h", "12 d".
std::string age_at(const Json& row) {
  constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  const auto& at = row["measured_at"];
  if (!at.is_number_integer()) return "-";
  const auto age = std::max<std::int64_t>(0, std::time(nullptr) - at.get<std::int64_t>());
  if (age < 2 * kMinute) return concat(age, " s");
  if (age < 2 * kHour) return concat(age / kMinute, " min");
  return age < 2 * kDay ? concat(age / kHour, " h") : concat(age / kDay, " d");
}

std::string engine_of(const Json& row, const char* backend, const char* engine) {
  return concat(text_at(row, backend), " ", text_at(row, engine));
}

std::string parts_table(const Json& rows) {
  constexpr std::size_t kShortHash = 12;
  Table table({"model", "part", "backend", ">threads", "condition", ">time", ">from", ">to",
               ">sure", ">runs", ">age", "failure or remark"});
  for (const auto& row : rows) {
    const std::string failure = text_at(row, "failure");
    const auto bound = [&](const char* name) {
      return failure.empty() ? seconds_at(row, name) : std::string();
    };
    table.add({text_at(row, "model").substr(0, kShortHash), text_at(row, "name"),
               engine_of(row, "backend", "engine"), row["threads"].dump(),
               text_at(row, "condition"), seconds_at(row, "seconds"), bound("low"), bound("high"),
               failure.empty() ? sureness_at(row) : "", row["runs"].dump(), age_at(row),
               concat(failure, failure.empty() ? "" : ": ", text_at(row, "message"))});
  }
  return table.empty() ? "" : "parts\n" + table.print();
}

std::string checks_table(const Json& rows) {
  Table table({"part", "backend", "seeds", ">of tolerance", "worst at", ">age", "failure"});
  for (const auto& row : rows) {
    const auto& ratio = row["worst_ratio"];
    table.add({text_at(row, "name"), engine_of(row, "backend", "engine"), text_at(row, "seeds"),
               ratio.is_number() ? number(ratio.get<double>(), 3) : "-",
               concat(text_at(row, "output"), " ", text_at(row, "place")), age_at(row),
               text_at(row, "message")});
  }
  return table.empty() ? "" : "\ncomparisons with the reference\n" + table.print();
}

std::string boundaries_table(const Json& rows) {
  Table table(
      {"from", "to", ">bytes", ">beyond the parts", ">beyond the whole", ">age", "failure"});
  for (const auto& row : rows) {
    table.add({engine_of(row, "source", "source_engine"), engine_of(row, "target", "target_engine"),
               bytes(row["bytes"].get<std::uint64_t>()), seconds_at(row, "seconds"),
               seconds_at(row, "cut_seconds"), age_at(row), text_at(row, "message")});
  }
  return table.empty() ? "" : "\nboundaries\n" + table.print();
}

std::string links_table(const Json& rows) {
  Table table({"from", "to", ">latency", ">bandwidth", ">age"});
  for (const auto& row : rows) {
    const auto speed = static_cast<std::uint64_t>(row["bytes_per_second"].get<double>());
    table.add({text_at(row, "source"), text_at(row, "target"), seconds_at(row, "latency_seconds"),
               bytes(speed) + "/s", age_at(row)});
  }
  return table.empty() ? "" : "\nlinks\n" + table.print();
}

std::string peaks_table(const Json& rows) {
  Table table({"device", "peak", ">at most", ">age"});
  for (const auto& row : rows) {
    const double per_second = row["per_second"].get<double>();
    const bool computes = text_at(row, "kind") == "fp32";
    table.add({text_at(row, "device"), text_at(row, "kind") + " " + text_at(row, "name"),
               computes ? number(per_second * 1e-9, 1) + " GFLOP/s"
                        : bytes(static_cast<std::uint64_t>(per_second)) + "/s",
               age_at(row)});
  }
  return table.empty() ? "" : "\npeaks\n" + table.print();
}

std::string plans_table(const Json& rows) {
  constexpr std::size_t kShortHash = 12;
  Table table({"plan", "engines", ">age", "frames/s of each round"});
  for (const auto& row : rows) {
    table.add({text_at(row, "plan").substr(0, kShortHash), text_at(row, "engines"), age_at(row),
               text_at(row, "frames_per_second")});
  }
  return table.empty() ? "" : "\nplans, end to end\n" + table.print();
}

Result<int> list(const CostsOptions& options) {
  PENSTOCK_TRY(const auto json, rows_of(options));
  if (options.json) {
    print_json(json);
    return kOk;
  }
  const std::string text = parts_table(json["parts"]) + checks_table(json["checks"]) +
                           boundaries_table(json["boundaries"]) + links_table(json["links"]) +
                           plans_table(json["plans"]) + peaks_table(json["peaks"]);
  print(text.empty() ? concat("no such costs in ", json["file"].get<std::string>(), "\n") : text);
  return kOk;
}

Result<int> write(const CostsOptions& options) {
  PENSTOCK_TRY(auto database, open(options));
  PENSTOCK_TRY(const auto text, database.export_text(options.filter));
  if (options.file.empty() || options.file == "-") {
    print(text);
    return kOk;
  }
  PENSTOCK_CHECK_OK(check_writable("export", options.file, true, kJson));
  PENSTOCK_CHECK_OK(write_whole_file(options.file, text));
  return kOk;
}

Result<int> read(const CostsOptions& options) {
  std::ifstream in(options.file == "-" ? "/dev/stdin" : options.file, std::ios::binary);
  if (!in) return not_found("cannot be read").within({Where::kFile, options.file});
  const std::string text(std::istreambuf_iterator<char>(in), {});
  PENSTOCK_TRY(auto database, open(options));
  auto count = database.import_text(text);
  if (!count) return std::move(count).error().within({Where::kFile, options.file});
  if (options.json) {
    print_json({{"added", count->added}, {"kept", count->kept}});
  } else {
    print(concat(count->added, " added, ", count->kept, " were there already\n"));
  }
  return kOk;
}

Result<int> forget(const CostsOptions& options) {
  PENSTOCK_TRY(auto database, open(options));
  PENSTOCK_TRY(const auto count, database.forget(options.filter));
  if (options.json) {
    print_json({{"forgotten", count}});
  } else {
    print(concat(count, " forgotten\n"));
  }
  return kOk;
}

Result<int> run(const CostsOptions& options) {
  if (options.action == "list") return list(options);
  if (options.action == "export") return write(options);
  if (options.action == "import") return read(options);
  return forget(options);
}

/// What is wrong with the options together; empty: nothing.
std::string problem_of(const CostsOptions& options) {
  const auto& filter = options.filter;
  const bool filtered = !filter.backend.empty() || !filter.model.empty() || filter.failed;
  if (options.action == "forget" && filtered == options.all) {
    return "forget: expected --all, or what to forget (--backend, --model, --failed)";
  }
  if (options.action == "import" && options.file.empty()) return "import: expected a FILE";
  if (options.action == "import" && filtered) return "import: takes no filter";
  const bool takes_file = options.action == "import" || options.action == "export";
  if (!takes_file && !options.file.empty()) {
    return options.action + ": takes no FILE; --database names another database";
  }
  return {};
}

constexpr const char* kCostsFooter =
    R"(Costs are kept in the file that PENSTOCK_COSTS names, else in penstock/costs.db of the user's cache
folder. A plan measures only what is not in it; docs/costs.md tells what each figure means.

Examples:
  penstock costs list --backend onnxruntime
  penstock costs export costs.json                 for another machine of the same kind
  penstock costs forget --failed                   to try again what failed)";

}  // namespace

void declare_costs(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<CostsOptions>();
  auto* command =
      add_command(app, "costs", "Shows, copies and forgets what was measured.", kCostsFooter);
  command->add_option("ACTION", options->action, "list, export, import or forget")
      ->required()
      ->check(one_of({"list", "export", "import", "forget"}));
  command->add_option("FILE", options->file,
                      "Where 'export' writes to (without it: standard output), and what 'import' "
                      "reads; '-' is standard input");
  command->add_option("--backend", options->filter.backend, "Only what this backend has a part in")
      ->type_name(kBackendType)
      ->check(not_empty("a backend's name"));
  command
      ->add_option("--model", options->filter.model, "Only models and plans whose hash begins so")
      ->check(not_empty("the beginning of a hash"));
  command->add_flag("--failed", options->filter.failed, "Only failures");
  command->add_flag("--all", options->all, "forget: everything");
  command->add_option("--database", options->database, "The file, instead of the default")
      ->check(not_empty("a file"));
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &chosen] {
    if (const auto problem = problem_of(*options); !problem.empty()) {
      throw CLI::ValidationError(problem, CLI::ExitCodes::ValidationError);
    }
    chosen = [options] { return run(*options); };
  });
}

}  // namespace penstock::cli
