// penstock completion: a script for the shell, made from the commands as they are declared.
#include <algorithm>
#include <memory>

#include "penstock/cli/command.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/text.h"

namespace penstock::cli {
namespace {

struct CompletionOptions {
  std::string shell;
  CLI::App* root = nullptr;
};

struct Flag {
  std::vector<std::string> names;  ///< "-o", "--output"
  std::string description;
  bool takes_value = false;
  std::string choices;   ///< "throughput latency"; empty: any value, most often a file.
  bool is_list = false;  ///< Several of the choices, with commas between them.
  bool is_pair = false;  ///< NAME=FILE
};

struct Command {
  std::string name;  ///< Empty: penstock itself.
  std::string description;
  std::vector<Flag> flags;
  std::string choices;  ///< Of its first argument; empty: a file.
};

/// What may stand for an option, as its help shows it: "TEXT:{list,export}".
std::string choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto start = type.find('{'), end = type.find('}');
  if (start == type.npos || end == type.npos) return {};
  std::string choices = type.substr(start + 1, end - start - 1);
  std::ranges::replace(choices, ',', ' ');
  return choices;
}

Command describe(const CLI::App& app, bool is_root) {
  Command command{is_root ? "" : app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      if (command.choices.empty()) command.choices = choices_of(*option);
      continue;
    }
    Flag flag;
    for (const auto& name : option->get_snames()) flag.names.push_back("-" + name);
    for (const auto& name : option->get_lnames()) flag.names.push_back("--" + name);
    flag.description = option->get_description();
    flag.takes_value = option->get_items_expected_max() > 0;
    flag.choices = choices_of(*option);
    flag.is_list = option->get_delimiter() == ',';
    flag.is_pair = option->get_type_name().starts_with("NAME=FILE");
    command.flags.push_back(std::move(flag));
  }
  return command;
}

std::vector<Command> all_commands(const CLI::App& root) {
  std::vector<Command> commands = {describe(root, true)};
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(describe(*app, false));
    auto& flags = commands.back().flags;
    for (const auto& flag : commands.front().flags) {  // Those of all may stand behind a command.
      if (std::ranges::find(flags, flag.names, &Flag::names) == flags.end()) flags.push_back(flag);
    }
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

std::string bash_command(const Command& command) {
  return concat("    ", quote(command.name), ")\n      flags=", quote(flag_names(command)),
                " choices=", quote(command.choices), " ;;\n");
}

/// What an option of the word before asks for: one line for each that takes one of a few words.
std::string bash_values(const std::vector<Command>& commands) {
  std::string text;
  for (const auto& command : commands) {
    for (const auto& flag : command.flags) {
      if (flag.choices.empty()) continue;
      const auto pattern = [&](const std::string& name) { return command.name + name; };
      text +=
          concat("    ", join(flag.names, "|", pattern), ") words=", quote(flag.choices), " ;;\n");
    }
  }
  return text;
}

std::string bash_script(const std::vector<Command>& commands) {
  std::string text =
      R"(# bash completion of penstock; put it in ~/.local/share/bash-completion/completions/penstock
_penstock() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command= at=0 flags= choices= words= part= i
  # Bash may break words at '=', and gives it as a word.
  if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]} at=$i; break; }
  done
  case $command in
)";
  for (const auto& command : commands) text += bash_command(command);
  text += "  esac\n  case $command$before in\n" + bash_values(commands);
  return text + R"(    *) [[ $word == -* ]] && words=$flags ;;
  esac
  if [[ -z $words && -z $command ]]; then
    words=)" +
         quote(command_names(commands)) +
         R"(
  elif [[ -z $words && -n $choices && $COMP_CWORD == $((at + 1)) ]]; then
    words=$choices
  fi
  if [[ -n $words ]]; then
    part=${word##*,}
    mapfile -t COMPREPLY < <(compgen -P "${word%"$part"}" -W "$words" -- "$part")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    [[ ${#COMPREPLY[@]} == 0 && $word == *=* ]] || return
    part=${word##*=}
    mapfile -t COMPREPLY < <(compgen -P "${word%"$part"}" -f -- "$part")
  fi
}
complete -o filenames -F _penstock penstock
)";
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

/// What completes a value: "(list export)", or files.
std::string zsh_values(const Flag& flag) {
  if (flag.is_pair) return R"({compset -P "*="; _files})";
  if (flag.choices.empty()) return "_files";
  if (flag.is_list) return R"({compset -P "*,"; compadd )" + flag.choices + "}";
  return "(" + flag.choices + ")";
}

std::string zsh_flags(const Command& command) {
  std::string text;
  for (const auto& flag : command.flags) {
    for (const auto& name : flag.names) {
      const std::string value = flag.takes_value ? ":value:" + zsh_values(flag) : "";
      text += concat(" \\\n        ",
                     quote(concat("*", name, "[", zsh_escape(flag.description), "]", value)));
    }
  }
  return text;
}

std::string zsh_script(const std::vector<Command>& commands) {
  std::string text = R"(#compdef penstock
# zsh completion of penstock; put it as _penstock in a folder of $fpath
_penstock() {
  local context state state_descr line
  local -A opt_args
  local -a commands
  commands=(
)";
  for (const auto& command : commands) {
    if (command.name.empty()) continue;
    text += "    " + quote(command.name + ":" + zsh_escape(command.description)) + "\n";
  }
  text += concat("  )\n  _arguments -C -A '-*'", zsh_flags(commands.front()),
                 R"( \
        '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe command commands; return ;;
    argument) ;;
    *) return ;;
  esac
  case $words[1] in
)");
  for (const auto& command : commands) {
    if (command.name.empty()) continue;
    const auto first = command.choices.empty() ? "" : "'1:argument:(" + command.choices + ")' ";
    text += concat("    ", command.name, ")\n      _arguments", zsh_flags(command), " \\\n        ",
                   first, "'*:file:_files' ;;\n");
  }
  return text + "  esac\n}\n_penstock \"$@\"\n";
}

std::string fish_flag(const Command& command, const Flag& flag) {
  std::string text = "complete -c penstock";
  text += command.name.empty() ? " -n __fish_use_subcommand"
                               : " -n '__fish_seen_subcommand_from " + command.name + "'";
  for (const auto& name : flag.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!flag.choices.empty()) {
    text +=
        " -x -a " + quote(flag.is_list ? "(__fish_append , " + flag.choices + ")" : flag.choices);
  } else if (flag.takes_value) {
    text += " -r";
  }
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
    if (!command.choices.empty()) {
      text += concat("complete -c penstock -n '__fish_seen_subcommand_from ", command.name,
                     "; and not __fish_seen_subcommand_from ", command.choices, "' -f -a ",
                     quote(command.choices), "\n");
    }
    for (const auto& flag : command.flags) text += fish_flag(command, flag);
  }
  return text;
}

Result<int> run(const CompletionOptions& options) {
  Action ignored;
  load_serving_options(*options.root, ignored);
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
  auto options = std::make_shared<CompletionOptions>();
  options->root = &app;
  auto* command = add_command(app, "completion", "Prints a completion script for a shell.",
                              R"(Examples:
  source <(penstock completion bash)
  penstock completion zsh > ~/.zfunc/_penstock
  penstock completion fish > ~/.config/fish/completions/penstock.fish)");
  command->add_option("shell", options->shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
