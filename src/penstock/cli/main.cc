// The `penstock` command.
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "penstock/base/error.h"
#include "penstock/base/near_names.h"
#include "penstock/base/printable.h"
#include "penstock/cli/command.h"
#include "penstock/cli/inputs.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/log.h"
#include "penstock/cli/numbers.h"
#include "penstock/function/interpreter.h"
#include "penstock/session/session.h"

namespace penstock::cli {
namespace {

constexpr const char* kDescription =
    "Penstock splits a neural network (ONNX) into stages and runs them as a pipeline over a stream "
    "of inputs.";
constexpr const char* kFooter = R"(The road from a model to a running pipeline:
  penstock build model.onnx -o model.penstock                the best one for this machine, by measuring
  penstock verify model.penstock                             the same outputs as the whole model?
  penstock bench model.penstock                              faster than ONNX Runtime alone?
  penstock explain model.penstock --html why.html            why it is as it is, as a page
  penstock run model.penstock --inputs frames --output out   the pipeline over your own data
  penstock split model.onnx --cut NODE -o model.penstock     or by hand, in two stages; 'show' lists nodes

'penstock COMMAND --help' tells more of each. Exit codes: 0 all well; 1 what was given is wrong, or a
frame or a check failed; 2 wrong usage; 3 'verify' could not tell; 70 a bug of Penstock;
130 after Ctrl-C.)";

void print_error(std::string message) {
  std::ranges::replace(message, '\n', ' ');
  std::fprintf(stderr, "penstock: error: %s\n", printable(message).c_str());
}

void declare_all(CLI::App& app, int& verbosity, Action& chosen) {
  app.set_version_flag("--version", "penstock " + std::string(version()), "Print the version");
  app.add_flag(
      "-v,--verbose", [&verbosity](std::int64_t count) { verbosity = static_cast<int>(count); },
      "Tell on stderr what is done; twice: in detail");
  app.footer(kFooter);
  app.require_subcommand(1);
  for (const Declare declare :
       {declare_build, declare_verify, declare_bench, declare_run, declare_explain, declare_show,
        declare_split, declare_plan, declare_serve, declare_worker, declare_token, declare_top,
        declare_devices, declare_backends, declare_functions, declare_costs, declare_up,
        declare_down, declare_completion}) {
    declare(app, chosen);
  }
  for (auto* command : app.get_subcommands(nullptr)) refuse_empty_values(*command);
}

std::string message_of_command(const std::vector<std::string>& given, const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* known : app.get_subcommands(nullptr)) names.push_back(known->get_name());
  constexpr std::size_t kTold = 10;  // The help begins with what most people want.
  const auto told = std::span(names).first(std::min(names.size(), kTold));
  const auto expected = "expected a command (" + join(told, ", ") + ", ...)";
  if (given.empty()) return expected;
  if (given.front() == "help") return "no command 'help'";  // What to write stands behind it.
  for (const auto* asked : {"-V", "version"}) {
    if (given.front() == asked) {
      return concat("'", asked, "' is none: 'penstock --version' prints the version");
    }
  }
  const auto near = did_you_mean(given.front(), names);
  if (near.empty()) return concat(expected, ", found '", given.front(), "'");
  return concat("no command '", given.front(), "'", near);
}

/// An option's or argument's description, as the rest of a sentence: "a model (.onnx)".
std::string described(const CLI::Option& option) {
  std::string text = option.get_description();
  const bool word = text.size() > 1 && std::isupper(static_cast<unsigned char>(text[1])) == 0;
  if (word) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

/// The first line of the help's examples, without what it says of it.
std::string example_of(const CLI::App& command) {
  const std::string footer = command.get_footer();
  const auto start = footer.find("  penstock " + command.get_name());
  if (start == std::string::npos) return {};
  const auto line = footer.substr(start + 2, footer.find('\n', start) - start - 2);
  return line.substr(0, line.find("  "));
}

/// What a command wants and was not given, as the sentence of the help tells it.
std::string message_of_missing(const CLI::Option& missing, const CLI::App& command) {
  const auto name = missing.get_positional() ? missing.get_single_name() : missing.get_name();
  const auto example = example_of(command);
  return concat(missing.get_positional() ? "argument '" : "option '", name,
                "' is missing: expected ", described(missing),
                example.empty() ? "" : concat(", as in '", example, "'"));
}

/// An option that is the last word, or that is there twice: CLI11 tells how many of which type are
/// missing or too many.
std::string message_of_no_value(const std::string& said, const CLI::App& command) {
  const auto name = said.substr(0, said.find(':'));
  const auto* option = command.get_option_no_throw(name);
  if (option == nullptr) return said;
  if (option->count() > 1) {
    return concat("option '", name, "': expected once, found ", option->count(), " times: '",
                  join(option->results(), "', '"), "'; what it is for: ", described(*option));
  }
  return concat("option '", name,
                "': expected a value behind it, found none; what it is for: ", described(*option));
}

/// What a command takes instead of an argument too much.
std::string arguments_of(const CLI::App& command) {
  std::vector<std::string> taken;
  for (const auto* option : command.get_options()) {
    if (option->get_positional()) taken.push_back(described(*option));
  }
  const auto name = concat("'penstock ", command.get_name(), "' takes ");
  return name + (taken.empty() ? "options alone" : concat("one: ", join(taken, "; then one: ")));
}

/// The commands that have an option of this name: "; 'bench' takes it".
std::string takers_of(const std::string& option, const CLI::App& app) {
  std::vector<std::string> takers;
  for (const auto* command : app.get_subcommands(nullptr)) {
    if (command->get_option_no_throw(option) != nullptr) takers.push_back(command->get_name());
  }
  if (takers.empty()) return {};
  return concat("; '", join(takers, "', '"), takers.size() == 1 ? "' takes it" : "' take it");
}

/// What other programs call an option that the command has: "; did you mean '--rate'?".
std::string called_elsewhere(const std::string& option, const std::vector<std::string>& names) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr auto kOthers = std::to_array<Pair>({{"--fps", "--rate"},
                                                {"--duration", "--seconds"},
                                                {"--iterations", "--frames"},
                                                {"--batch-size", "--batch"},
                                                {"--database", "--costs"},
                                                {"--host", "--listen"},
                                                {"--grpc", "--listen"},
                                                {"--port", "--listen"},
                                                {"--port", "--http"}});
  std::vector<std::string> found;
  for (const auto& [theirs, ours] : kOthers) {
    const bool known = std::ranges::find(names, ours) != names.end();
    if (theirs == option && known) found.push_back(concat("'", ours, "'"));
  }
  return found.empty() ? "" : "; did you mean " + join(found, " or ") + "?";
}

/// One letter beside an option of other commands: "; did you mean '--devices'? 'plan' takes it".
std::string plural_of_others(const std::string& option, const CLI::App& app) {
  const auto other = option.ends_with('s') ? option.substr(0, option.size() - 1) : option + "s";
  const auto takers = takers_of(other, app);
  return takers.empty() ? "" : concat("; did you mean '", other, "'?", takers.substr(1));
}

/// Of what a command does not take: an option that it lacks may be another command's, or misspelt.
std::string message_of_surplus(const std::string& given, const CLI::App& command,
                               const CLI::App& app) {
  if (given == "help") return "no command 'help'";
  if (!given.starts_with('-')) {
    const bool reads = command.get_option_no_throw("--input") != nullptr;
    return concat("unexpected argument '", given, "': ", arguments_of(command),
                  reads ? "; frames are given by --input NAME=FILE" : "");
  }
  const auto name = given.substr(0, given.find('='));
  std::vector<std::string> names;
  for (const auto* option : command.get_options()) {
    for (const auto& known : option->get_lnames()) names.push_back("--" + known);
  }
  for (const auto& hint : {called_elsewhere(name, names), takers_of(name, app),
                           did_you_mean(name, names), plural_of_others(name, app)}) {
    if (!hint.empty()) return concat("unknown option '", name, "'", hint);
  }
  return concat("unknown option '", name, "'");
}

/// Of "-output", which CLI11 reads as "-o utput". Empty: there is none such.
std::string message_of_one_dash(std::span<char* const> given, const CLI::App& app) {
  for (const std::string_view text : given) {
    if (text.size() < 3 || text[0] != '-' || text[1] == '-') continue;
    const auto name = concat("-", text.substr(0, text.find('=')));
    if (app.get_option_no_throw(name) == nullptr && takers_of(name, app).empty()) continue;
    return concat("'", text, "' has one dash: expected '-", text, "'");
  }
  return {};
}

/// CLI11 begins with the option's name, and so may the sentence: "--shape: --shape 'x': ...".
std::string named_once(const std::string& message) {
  const auto colon = message.find(": ");
  if (colon == std::string::npos) return message;
  const auto name = message.substr(0, colon), sentence = message.substr(colon + 2);
  const auto begin = name.starts_with("--") ? name : concat("argument '", name, "'");
  return sentence.starts_with(begin) ? sentence : message;
}

/// CLI11's own words, where they hide what to do. What is unknown comes before what is missing: it
/// may be that, misspelt.
std::string message_of(const CLI::ParseError& error, std::span<char* const> given,
                       const CLI::App& app) {
  // No options are known without the library of the command: its help would say the same.
  if (dynamic_cast<const CLI::FileError*>(&error) != nullptr) return error.what();
  const auto commands = app.get_subcommands();
  const auto surplus = app.remaining(true);
  const std::string command = commands.empty() ? "" : " " + commands.front()->get_name();
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  std::string message = named_once(error.what());
  constexpr std::string_view kExcludes = " excludes ";
  const auto excludes = message.find(kExcludes);
  if (auto one_dash = message_of_one_dash(given, app); !one_dash.empty()) {
    message = std::move(one_dash);
  } else if (commands.empty() && missing) {
    message = message_of_command(surplus, app);
  } else if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr &&
             excludes != std::string::npos) {
    message = concat("'", message.substr(0, excludes), "' and '",
                     message.substr(excludes + kExcludes.size()),
                     "' do not go together: give one of them");
  } else if (!surplus.empty() && (missing || dynamic_cast<const CLI::ExtrasError*>(&error))) {
    message = message_of_surplus(surplus.front(), *commands.front(), app);
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && !commands.empty()) {
    message = message_of_no_value(message, *commands.front());
  } else if (missing) {
    const auto options = commands.front()->get_options(
        [](const CLI::Option* option) { return option->get_required() && option->count() == 0; });
    // An option that only some uses of a command require: '--output is required'.
    const auto* named = commands.front()->get_option_no_throw(message.substr(0, message.find(' ')));
    const auto* lacks = options.empty() ? named : options.front();
    if (lacks != nullptr) message = message_of_missing(*lacks, *commands.front());
  }
  while (message.ends_with('.') || message.ends_with('\n')) message.pop_back();
  return message + "; see 'penstock" + command + " --help'";
}

/// Those of serving too, so that the message knows every command that takes an option.
void load_options_of_all(CLI::App& app, Action& chosen) {
  try {
    load_serving_options(app, chosen);
  } catch (const CLI::Error&) {  // Without its library there are the others.
  }
}

int run_action(const Action& action) {
  const Result<int> outcome = action();
  if (outcome) return *outcome;
  const bool ended = outcome.error().code == Code::kCancelled && interrupted();
  const auto message = outcome.error().message();
  print_error((ended ? "interrupted: " : "") + message);
  if (ended) return interrupt_code();
  return outcome.error().code == Code::kInternal ? kOurBug : kFailed;
}

/// The code that the program ends with, once what it printed is written.
int code_when_written(int code) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || code == kFailed || code == kUsage) return code;  // Who failed may have said so.
  const auto reason = errno == 0 ? "" : ": " + std::generic_category().message(errno);
  print_error("standard output: cannot be written" + reason);
  return kFailed;
}

/// Of the modules of functions. What they do at their end changes nothing that was printed.
void end_modules(int code) {
  using std::chrono_literals::operator""s;
  function::end_python(5s, [code] {
    spdlog::warn(
        "Python does not end within 5 seconds: a module's thread, a call or what it registered "
        "with 'atexit' still runs; the process ends without it, and files that it left open may "
        "lack their last lines");
    ::_exit(code);
  });
}

/// Known behind the action alone, which tells what to write.
bool has_malformed_input(const CLI::App& app) {
  const auto* input = app.get_subcommands().front()->get_option_no_throw("--input");
  return input != nullptr && std::ranges::any_of(input->results(), is_malformed_input);
}

int run(int argc, char** argv) {
  CLI::App app(kDescription, "penstock");
  Action chosen;
  int verbosity = 0;
  declare_all(app, verbosity, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    if (!app.remaining(true).empty()) load_options_of_all(app, chosen);
    print_error(message_of(error, std::span(argv, static_cast<std::size_t>(argc)), app));
    return kUsage;
  }
  set_up_log(verbosity);
  end_on_interrupt();
  int code = run_action(chosen);
  if (code == kFailed && has_malformed_input(app)) code = kUsage;
  code = code_when_written(code);
  end_modules(code);
  return code;
}

}  // namespace

void refuse_empty_values(CLI::App& command) {
  for (auto* option : command.get_options()) {
    const bool has_value = option->get_items_expected_min() > 0;
    if (option->nonpositional() && has_value) option->check(not_empty("a value"));
    if (!option->get_positional() || option->nonpositional()) continue;
    const auto told = concat("argument '", option->get_single_name(), "' is empty: expected ",
                             described(*option));
    option->check(CLI::Validator(
        [told](std::string& text) { return text.empty() ? told : std::string(); }, ""));
  }
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& footer) {
  CLI::App* command = app.add_subcommand(name, description);
  command->fallthrough();
  command->footer(footer);
  return command;
}

}  // namespace penstock::cli

int main(int argc, char** argv) {
  try {
    return penstock::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    penstock::cli::print_error(
        "out of memory; raise the limit of memory (ulimit -v), or give less to do at once");
    return penstock::cli::kFailed;
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      penstock::cli::print_error(
          "no thread could be started: raise the limit of threads (ulimit -u) or of memory (ulimit "
          "-v), or use fewer CPUs");
      return penstock::cli::kFailed;
    }
    penstock::cli::print_error(penstock::concat("the system refused: ", error.what()));
    return penstock::cli::kFailed;
  } catch (const std::exception& error) {
    penstock::cli::print_error(penstock::concat("uncaught exception: ", error.what(),
                                                "; this is a bug of Penstock, please report it"));
  }
  return penstock::cli::kOurBug;
}
