// penstock token: a new token for a client of `penstock serve`.
// In a library of its own: serve_library.cc.
#include <cstdio>
#include <memory>
#include <string>

#include "penstock/cli/command.h"
#include "penstock/serve/access.h"

namespace penstock::cli {
namespace {

struct TokenOptions {
  std::string name;
  std::string rights = "infer";
};

/// The line goes to stdout, so that `>>` appends it; the token to stderr, for whoever looks.
Result<int> make_one(const TokenOptions& options) {
  PENSTOCK_TRY(const auto made, serve::make_token(options.name, options.rights));
  std::fputs(concat("token: ", made.token, "\n").c_str(), stderr);
  std::fputs((made.line + "\n").c_str(), stdout);
  return kOk;
}

void declare_token_options(CLI::App* command, Action& chosen) {
  const auto options = std::make_shared<TokenOptions>();
  command->footer(R"(Examples:
  penstock token camera-3 >> tokens                    the file gets its hash; the token is shown once
  penstock token deploy --rights infer,load >> tokens

The client sends 'authorization: Bearer TOKEN'.)");
  command
      ->add_option("name", options->name, "A name for the client, in the file and the access log")
      ->required();
  command->add_option("--rights", options->rights, "Some of infer,load,admin, with commas")
      ->capture_default_str();
  set_action(command, chosen, options, make_one);
}

}  // namespace
}  // namespace penstock::cli

extern "C" void penstock_declare_token_options(CLI::App& command, penstock::cli::Action& chosen) {
  penstock::cli::declare_token_options(&command, chosen);
}
