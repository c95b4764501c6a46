// penstock explain: why a built package is as it is.
#include <filesystem>
#include <memory>
#include <system_error>

#include "penstock/app/app.h"
#include "penstock/base/files.h"
#include "penstock/cli/command.h"
#include "penstock/cli/outputs.h"
#include "penstock/cli/report_text.h"
#include "penstock/cli/text.h"
#include "penstock/session/identify.h"
#include "penstock/session/session.h"
#include "penstock/tune/report.h"

namespace penstock::cli {
namespace {

struct ExplainOptions {
  std::filesystem::path package, html;
  bool json = false;
};

/// What holds no measurements, and who has them.
Status check_built(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};  // Said by who reads it.
  const auto refuse = [&](std::string_view found) {
    return invalid_argument("'", path.string(),
                            "': expected a package made by 'penstock build', found ", found);
  };
  const auto kind = identify(path);
  if (kind == FileKind::kApplication) {
    return refuse("an application; build it, and explain that");
  }
  if (kind == FileKind::kModel && path.extension() == ".onnx") {
    return refuse(concat("a model; build it, and explain that: 'penstock build ", path.string(),
                         " -o model.penstock'"));
  }
  if (kind == FileKind::kModel) {
    return refuse("another file; of a model, 'penstock build' makes one");
  }
  return {};
}

Result<int> run(const ExplainOptions& options) {
  PENSTOCK_CHECK_OK(check_built(options.package));
  if (!options.html.empty()) PENSTOCK_CHECK_OK(check_writable("--html", options.html, true, kHtml));
  PENSTOCK_TRY(const auto report, tune::read_report(options.package));
  if (!options.html.empty()) {
    PENSTOCK_CHECK_OK(write_whole_file(options.html, tune::to_html(report)));
  }
  if (options.json) {
    print(tune::to_json(report));
  } else if (options.html.empty()) {
    print(report_text(report, kMeasureAgain));
  } else {
    print(concat("written to '", options.html.string(), "': open it in a browser\n"));
  }
  return kOk;
}

constexpr const char* kExplainFooter =
    R"(Shows, for each partition, the backends tried, their times and the reason; every plan that was
measured; and the simple ways beside it.

Examples:
  penstock explain model.penstock
  penstock explain model.penstock --html page.html
  penstock explain model.penstock --json)";

}  // namespace

void declare_explain(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<ExplainOptions>();
  auto* command = add_command(
      app, "explain", "Tells why a package of 'penstock build' is as it is.", kExplainFooter);
  command->add_option("package", options->package, "A package made by 'penstock build'")
      ->required();
  command->add_option(
      "--html", options->html,
      "Write one page that stands alone: the network drawn, what was tried, a timeline");
  command->add_flag("--json", options->json, "Print JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
