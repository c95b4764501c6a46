// penstock completion: a script for the shell, made from the commands as they are declared.
#include <memory>

#include "penstock/cli/command.h"
#include "penstock/cli/text.h"

namespace penstock::cli {
namespace {

struct Options {
  std::string shell;
  const CLI::App* root = nullptr;
};

struct Flag {
  std::vector<std::string> names;  ///< "-o", "--output"
  std::string description;
  bool takes_value = false;
};

struct Command {
  std::string name;  ///< Empty: penstock itself.
  std::string description;
  std::vector<Flag> flags;
};

Command describe(const CLI::App& app, bool is_root) {
  Command command{is_root ? "" : app.get_name(), app.get_description(), {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) continue;
    Flag flag;
    for (const auto& name : option->get_snames()) flag.names.push_back("-" + name);
    for (const auto& name : option->get_lnames()) flag.names.push_back("--" + name);
    flag.description = option->get_description();
    flag.takes_value = option->get_items_expected_max() > 0;
    command.flags.push_back(std::move(flag));
  }
  return command;
}

std::vector<Command> all_commands(const CLI::App& root) {
  std::vector<Command> commands = {describe(root, true)};
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(describe(*app, false));
  }
  return commands;
}

/// In single quotes for any of the shells.
std::string quote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c == '\n' ? ' ' : c;
    }
  }
  return quoted + "'";
}

std::string flag_names(const Command& command) {
  return join(command.flags, " ", [](const Flag& flag) { return join(flag.names, " "); });
}

std::string command_names(const std::vector<Command>& commands) {
  std::string text;
  for (const auto& command : commands) {
    if (!command.name.empty()) text += (text.empty() ? "" : " ") + command.name;
  }
  return text;
}

std::string bash_script(const std::vector<Command>& commands) {
  std::string text =
      R"(# bash completion of penstock; put it in ~/.local/share/bash-completion/completions/penstock
_penstock() {
  local word=${COMP_WORDS[COMP_CWORD]} command= flags i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      -*) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $command in
)";
  for (const auto& command : commands) {
    text += concat("    ", quote(command.name), ") flags=", quote(flag_names(command)), " ;;\n");
  }
  text += R"(    *) flags= ;;
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$word"))
  elif [[ -z $command ]]; then
    COMPREPLY=($(compgen -W )" +
          quote(command_names(commands)) + R"( -- "$word"))
  elif [[ $command == completion ]]; then
    COMPREPLY=($(compgen -W 'bash zsh fish' -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _penstock penstock
)";
  return text;
}

/// ':' and brackets have a meaning of their own in _arguments and _describe.
std::string zsh_escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_arguments(const Command& command) {
  std::string text;
  for (const auto& flag : command.flags) {
    for (const auto& name : flag.names) {
      const std::string value = flag.takes_value ? ":value:_files" : "";
      text +=
          " \\\n        " + quote(concat("*", name, "[", zsh_escape(flag.description), "]", value));
    }
  }
  return text;
}

std::string zsh_script(const std::vector<Command>& commands) {
  std::string text = R"(#compdef penstock
# zsh completion of penstock; put it as _penstock in a folder of $fpath
_penstock() {
  local -a commands
  commands=(
)";
  for (const auto& command : commands) {
    if (command.name.empty()) continue;
    text += "    " + quote(command.name + ":" + zsh_escape(command.description)) + "\n";
  }
  text += R"(  )
  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  case $words[2] in
)";
  for (const auto& command : commands) {
    if (command.name.empty()) continue;
    const char* rest =
        command.name == "completion" ? "'*:shell:(bash zsh fish)'" : "'*:file:_files'";
    text +=
        concat("    ", command.name, ")\n      shift words\n      ((CURRENT--))\n      _arguments",
               zsh_arguments(command), " \\\n        ", rest, " ;;\n");
  }
  text += concat("    *) _arguments", zsh_arguments(commands.front()), " ;;\n");
  return text + "  esac\n}\n_penstock \"$@\"\n";
}

std::string fish_flag(const Command& command, const Flag& flag) {
  std::string text = "complete -c penstock -n ";
  text += command.name.empty() ? "__fish_use_subcommand"
                               : quote("__fish_seen_subcommand_from " + command.name);
  for (const auto& name : flag.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (flag.takes_value) text += " -r";
  return text + " -d " + quote(flag.description) + "\n";
}

std::string fish_script(const std::vector<Command>& commands) {
  std::string text =
      "# fish completion of penstock; put it in ~/.config/fish/completions/penstock.fish\n";
  for (const auto& command : commands) {
    if (!command.name.empty()) {
      text += concat("complete -c penstock -n __fish_use_subcommand -f -a ", command.name, " -d ",
                     quote(command.description), "\n");
    }
    for (const auto& flag : command.flags) text += fish_flag(command, flag);
  }
  return text +
         "complete -c penstock -n '__fish_seen_subcommand_from completion' -f -a "
         "'bash zsh fish'\n";
}

Result<int> run(const Options& options) {
  const auto commands = all_commands(*options.root);
  if (options.shell == "bash") {
    print(bash_script(commands));
  } else if (options.shell == "zsh") {
    print(zsh_script(commands));
  } else {
    print(fish_script(commands));
  }
  return kOk;
}

}  // namespace

void declare_completion(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  options->root = &app;
  auto* command = add_command(app, "completion", "Prints a completion script for a shell.",
                              R"(Examples:
  source <(penstock completion bash)
  penstock completion zsh > ~/.zfunc/_penstock
  penstock completion fish > ~/.config/fish/completions/penstock.fish)");
  command->add_option("shell", options->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
