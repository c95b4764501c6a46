"""Help, versions, exit codes, completion: what holds for every command."""

import os
import pty
import select
import shlex
import shutil
import subprocess

import pytest
from conftest import save_chain

COMMANDS = "show split plan run bench verify devices backends functions costs token up down completion".split()


def test_the_version_is_printed(well):
    assert well("--version").out.startswith("penstock 0.")


def test_help_lists_every_command_and_the_exit_codes(well):
    text = well("--help").out
    for command in COMMANDS:
        assert f"\n  {command}" in text
    assert "Exit codes: 0" in text
    assert "130" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_each_commands_help_shows_examples(well, command):
    text = well(command, "--help").out
    assert f"penstock {command}" in text
    assert "Example" in text


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["show"],
        ["show", "a.onnx", "--frobnicate"],
        ["run", "a.onnx", "--frames", "many"],
        ["run", "a.onnx", "--frames", "0"],
        ["run", "a.onnx", "--policy", "newest"],
        ["run", "a.onnx", "--on-error", "go"],
        ["run", "a.onnx", "--hop", "3"],
        ["run", "a.onnx", "--rate", "nan"],
        ["run", "a.onnx", "--rate", "inf"],
        ["run", "a.onnx", "--in-flight", "0"],
        ["run", "a.onnx", "--seed", "-1"],
        ["run", "a.onnx", "--seed", "99999999999999999999"],
        ["run", "a.onnx", "--frames", "1.5"],
        ["run", "a.onnx", "--frames", "99999999999999999999"],
        ["run", "a.onnx", "--integer-limit", "0"],
        ["bench", "a.onnx", "--seconds", "0"],
        ["bench", "a.onnx", "--in-flight", "99999999999999"],
        ["verify", "a.penstock", "--frames", "0"],
        ["verify", "a.penstock", "--tolerance", "0"],
        ["verify", "a.penstock", "--tolerance", "nan"],
        ["split", "a.onnx", "--replicas", "0", "-o", "b"],
        ["split", "a.onnx", "--replicas", "1025", "-o", "b"],
        ["split", "a.onnx", "--replicas", "99999999999999", "-o", "b"],
        ["split", "a.onnx", "--capacity", "-1", "-o", "b"],
        ["split", "a.onnx", "--capacity", "0", "-o", "b"],
        ["split", "a.onnx", "--max-age", "-3", "-o", "b"],
        ["split", "a.onnx", "--max-age", "0", "-o", "b"],
        ["split", "a.onnx", "--max-age", "nan", "-o", "b"],
        ["split", "a.onnx", "--max-age", "inf", "-o", "b"],
        ["split", "a.onnx", "--max-run", "soon", "-o", "b"],
        ["split", "a.onnx", "--capacity", "3000000000", "-o", "b"],
        ["split", "a.onnx", "--capacity", "99999999999999999999", "-o", "b"],
        ["split", "a.onnx", "--devices", "", "-o", "b"],
        ["split", "a.onnx", "--devices", "cpu:x", "-o", "b"],
        ["split", "a.onnx", "--devices", "gpu:0", "-o", "b"],
        ["split", "a.onnx", "--standby", "gpu:0", "-o", "b"],
        ["split", "a.onnx", "--batch", "0", "-o", "b"],
        ["split", "a.onnx", "--batch", "stage0=x", "-o", "b"],
        ["split", "a.onnx", "--lanes", "x", "-o", "b"],
        ["split", "a.onnx", "--streams", "x", "-o", "b"],
        ["run", "a.onnx", "--streams", "0"],
        ["run", "a.onnx", "--batch", "x"],
        ["build", "a.onnx", "--devices", "cpu:x", "-o", "b"],
        ["build", "a.onnx", "--streams", "8:evicts", "-o", "b"],
        ["build", "a.onnx", "--budget", "soon", "-o", "b"],
        ["build", "a.onnx", "--budget", "0s", "-o", "b"],
        ["build", "a.onnx", "--state", "y", "-o", "b"],
        ["build", "a.onnx", "--constant", "rate", "-o", "b"],
        ["build", "a.onnx", "--backend-option", "threads=1", "-o", "b"],
        ["run", "a.onnx", "--metrics", "8001"],
        ["bench", "a.onnx", "--metrics", "here:port"],
        ["run", "a.onnx", "--state", "y="],
        ["split", "a.onnx", "--pin", "c1", "-o", "b"],
        ["split", "a.onnx", "--pin", "c1=gpu:0", "-o", "b"],
        ["plan", "a.onnx", "--pin", "c1=gpu:0"],
        ["plan", "a.onnx", "--devices", "4"],
        ["plan", "a.onnx", "--streams", "0"],
        ["plan", "--workload", "a.json", "--devices", "cpu:0"],
        ["split", "a.onnx"],
        ["plan"],
        ["plan", "--workload", "a.json", "--goal", "beauty"],
        ["plan", "--workload", "a.json", "--cpus", "-1"],
        ["plan", "a.onnx", "--memory", "-1"],
        ["plan", "a.onnx", "--deadline", "nan"],
        ["plan", "a.onnx", "--segments-per-device", "0"],
        ["split", "a.onnx", "--cut", "1", "--pin", "a=cpu:0", "-o", "b"],
        ["completion", "tcsh"],
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_code_2(penstock, arguments):
    outcome = penstock(*arguments)
    assert outcome.code == 2, outcome
    assert "--help'" in outcome.error
    assert outcome.out == ""
    assert len(outcome.error) < 200
    assert "Could not convert" not in outcome.error


@pytest.mark.parametrize("asked", ["-V", "version"])
def test_who_asks_for_the_version_otherwise_is_told_how(penstock, asked):
    refused = penstock(asked)
    told = f"'{asked}' is none: 'penstock --version' prints the version; see 'penstock --help'"
    assert (refused.code, refused.error) == (2, told)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("-version", "'-version' has one dash: expected '--version'; see 'penstock --help'"),
        ("build a.onnx -output p", "'-output' has one dash: expected '--output'; see 'penstock build --help'"),
        ("bench p -seconds=2", "'-seconds=2' has one dash: expected '--seconds=2'; see 'penstock bench --help'"),
        ("serve a.onnx -listen :80", "'-listen' has one dash: expected '--listen'; see 'penstock serve --help'"),
    ],
)
def test_a_long_option_with_one_dash_is_told_the_other(penstock, line, told):
    refused = penstock(*line.split())
    assert (refused.code, refused.error, refused.out) == (2, told, "")


@pytest.mark.parametrize("command", ["show", "run", "bench", "verify", "explain", "split -o p", "plan", "build -o p"])
def test_an_empty_path_is_called_that(penstock, command):
    name, *options = command.split()
    refused = penstock(name, "", *options)
    assert refused.code == 2
    assert "' is empty: expected " in refused.error and refused.error.startswith("argument '")
    assert refused.error.endswith(f"; see 'penstock {name} --help'") and "did you mean" not in refused.error


@pytest.mark.parametrize(("address", "told"), [("8077", "write 127.0.0.1:8077"), ("here:99999", "its port '99999'")])
def test_the_address_of_a_page_is_checked(penstock, address, told):
    refused = penstock("top", address, "--once")
    assert refused.code == 2
    assert refused.error.startswith("address: expected an address HOST:PORT such as") and told in refused.error


MODEL = ["split -o p", "plan", "build -o p"]
PACKAGE = ["show", "run", "bench", "verify", "explain"]


@pytest.mark.parametrize(
    ("given", "commands", "message"),
    [
        ("none.onnx", MODEL, "'none.onnx': no such file; expected a model (.onnx)"),
        (
            "none.onnx",
            ["show", "run", "bench"],
            "'none.onnx': no such file or folder; expected a package (a folder or .zip), an",
        ),
        ("none.penstock.zip", PACKAGE, "'none.penstock.zip': no such folder or zip"),
        ("none.yaml", [*MODEL, *PACKAGE], "'none.yaml': no such f"),
        ("empty.yaml", ["show", "run", "bench", "split -o p"], "expected an application, found an empty file"),
        (
            "empty.onnx",
            [*MODEL, "show", "run", "bench"],
            "'empty.onnx': not an ONNX model (it is empty); export or copy it again",
        ),
        ("empty.onnx", ["verify", "explain"], "expected a package"),
        (
            "empty.zip",
            PACKAGE,
            "expected a folder or a zip, made by 'penstock split' or 'penstock build', found a file",
        ),
        (
            "folder",
            ["split -o p", "plan", "build -o p"],
            "'folder': expected a model (.onnx), found a folder; packages are",
        ),
        ("folder", PACKAGE, "package 'folder': no plan.json in it: expected a package, which 'penstock build' or"),
    ],
)
def test_what_cannot_be_taken_is_named(penstock, tmp_path, given, commands, message):
    (tmp_path / "folder").mkdir()
    for name in ("empty.yaml", "empty.onnx", "empty.zip"):
        (tmp_path / name).touch()
    for command in commands:
        name, *options = command.split()
        outcome = penstock(name, given, *options)
        assert (outcome.code, message in outcome.error) == (1, True), (command, outcome)


@pytest.mark.parametrize("command", ["show", "plan", "run"])
def test_a_misspelt_file_is_named_beside_what_it_may_have_meant(penstock, tmp_path, command):
    (tmp_path / "model.onnx").touch()
    assert penstock(command, "modle.onnx").error.endswith("; did you mean 'model.onnx'?")
    assert "did you mean" not in penstock(command, "elsewhere/modle.onnx").error


def test_options_may_stand_on_either_side_of_the_command(well, chain):
    assert well("-v", "show", chain).out == well("show", chain, "-v").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_its_options(well, shell):
    script = well("completion", shell).out
    for word in [*COMMANDS, "replicas", "backend-option", "trace"]:
        assert word in script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_reads_the_completion_script(well, shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    script = tmp_path / "script"
    script.write_text(well("completion", shell).out)
    subprocess.run([shell, "-n", script], check=True)


COMPLETIONS = [
    ("penstock spl", "split"),
    ("penstock -v spl", "split"),
    ("penstock split --rep", "--replicas"),
    ("penstock split -v --pol", "--policy"),
    ("penstock split model.onnx --policy drop_o", "drop_oldest"),
    ("penstock split --backend openv", "openvino"),
    ("penstock costs list --backend oned", "onednn"),
    ("penstock build --backends onnxruntime,openv", "onnxruntime,openvino"),
    ("penstock run a.penstock --input x=mod", "x=model.onnx"),
    ("penstock split mod", "model.onnx"),
    ("penstock split -o out mod", "model.onnx"),
    ("penstock costs ex", "export"),
    ("penstock costs export mod", "model.onnx"),
    ("penstock completion f", "fish"),
]


def complete_bash(script, line):
    words = " ".join(map(shlex.quote, line.split(" ")))
    ask = f"""source {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _penstock; printf '%s\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-c", ask], cwd=script.parent, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("penstock run a.penstock --input x = mod", "model.onnx"),
        ("penstock run a.penstock --input x =", "model.onnx"),
        ("penstock split --policy = drop_o", "drop_oldest"),
    ],
)
def test_bash_completes_where_it_breaks_words_at_equal_signs(well, tmp_path, line, found):
    (tmp_path / "model.onnx").touch()
    script = tmp_path / "script"
    script.write_text(well("completion", "bash").out)
    assert found in complete_bash(script, line)


def complete_fish(script, line):
    ask = f"source {script}; complete -C {shlex.quote(line)}"
    done = subprocess.run(["fish", "-c", ask], cwd=script.parent, capture_output=True, text=True, check=True)
    return [found.split("\t")[0] for found in done.stdout.splitlines()]


def read_until(terminal, mark):
    text = b""
    while mark not in text:
        assert select.select([terminal], [], [], 60)[0], text
        text += os.read(terminal, 65536)
    return text.decode()


def complete_zsh(script, line):
    """Zsh completes in its line editor only: one in a terminal of its own tells what it lists, and the line."""
    folder = script.parent
    (folder / "_penstock").write_text(script.read_text())
    (folder / ".zshrc").write_text(f"""
fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D
tell() {{ print -r -- "<${{${{BUFFER% }}##* }}>" }}; zle -N tell; bindkey '^X' tell
unsetopt auto_list list_beep; PROMPT='ready '
""")
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.environ |= {"ZDOTDIR": str(folder), "TERM": "dumb"}
        os.execvp("zsh", ["zsh", "-d", "-i"])
    try:
        read_until(terminal, b"ready ")
        os.write(terminal, line.encode() + b"\t\x18")
        return [read_until(terminal, b">").rpartition("<")[2].rpartition(">")[0]]
    finally:
        os.close(terminal)
        os.waitpid(process, 0)


@pytest.mark.parametrize(("line", "found"), COMPLETIONS)
@pytest.mark.parametrize("complete", [complete_bash, complete_fish, complete_zsh])
def test_the_shells_complete(well, tmp_path, complete, line, found):
    shell = complete.__name__.removeprefix("complete_")
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}, which is not installed")
    (tmp_path / "model.onnx").touch()
    script = tmp_path / "script"
    script.write_text(well("completion", shell).out)
    assert complete(script, line) == [found]


def test_an_unknown_command_is_named_beside_those_there_are(penstock):
    error = penstock("frobnicate").error
    assert "expected a command (build, verify, " in error
    assert ", worker, ...), found 'frobnicate'; see 'penstock --help'" in error


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["bild", "model.onnx"], "no command 'bild'; did you mean 'build'?; see 'penstock --help'"),
        (
            ["build", "m.onnx", "--out", "p"],
            "unknown option '--out'; did you mean '--output'?; see 'penstock build --help'",
        ),
        (["run", "m.onnx", "--frame=3"], "unknown option '--frame'; did you mean '--frames'"),
        (
            ["show", "m.onnx", "n.onnx"],
            "unexpected argument 'n.onnx': 'penstock show' takes one: a model (.onnx), a package ",
        ),
        (["devices", "cpu:0"], "unexpected argument 'cpu:0': 'penstock devices' takes options alone; see"),
        (["run", "m.onnx", "--seconds", "1"], "unknown option '--seconds'; 'bench' takes it; see"),
        (["show", "m.onnx", "--frames", "1"], "unknown option '--frames'; 'verify', 'run' take it; see"),
        (
            ["verify", "p", "--constant", "n=1"],
            "option '--constant'; 'build', 'bench', 'run', 'show', 'split', 'plan', 'serve', 'worker' take it; see",
        ),
        (
            ["run", "m.onnx", "--device", "cpu:0"],
            "option '--device'; did you mean '--devices'? 'build', 'split', 'plan' take it; see",
        ),
        (["run", "m.onnx", "--fps", "30"], "unknown option '--fps'; did you mean '--rate'?; see"),
        (["bench", "m.onnx", "--duration", "5"], "unknown option '--duration'; did you mean '--seconds'?; see"),
        (["run", "m.onnx", "--batch-size", "4"], "unknown option '--batch-size'; did you mean '--batch'?; see"),
        (["serve", "m.onnx", "--port", "1"], "unknown option '--port'; did you mean '--listen' or '--http'?; see"),
        (["build", "m.onnx", "--database", "d"], "unknown option '--database'; did you mean '--costs'?; see"),
        (["explain", "p", "--fps", "30"], "unknown option '--fps'; see"),
        (["run"], "or a model (.onnx), which runs as one replica for each CPU, as in 'penstock run"),
        (["run", "m.onnx", "--minutes", "1"], "unknown option '--minutes'; see 'penstock run --help'"),
        (["plan", "m.onnx", "--workload", "w.json"], "'model' and '--workload' do not go together: give one of them; "),
        (["help"], "no command 'help'; see 'penstock --help'"),
        (["help", "run"], "no command 'help'; see 'penstock run --help'"),
        (["run", "m.onnx", "--page", "8077"], "found '8077'; for this machine alone write 127.0.0.1:8077; with no"),
        (["serve", "m.onnx", "--zzzzzzzz", "1"], "unknown option '--zzzzzzzz'; see 'penstock serve --help'"),
        (
            ["build"],
            "argument 'model' is missing: expected a model (.onnx), or an application (.yaml), as in "
            "'penstock build model.onnx -o model.penstock'; see 'penstock build --help'",
        ),
        (
            ["build", "m.onnx"],
            "option '--output' is missing: expected the package to write: a folder, or a file ending in .zip, as",
        ),
        (
            ["split", "m.onnx"],
            "option '--output' is missing: expected the package to write: a folder, or a file ending in .zip, as",
        ),
        (
            ["build", "m.onnx", "-o"],
            "option '--output': expected a value behind it, found none; what it is for: the package",
        ),
        (
            ["run", "m.onnx", "--output", "a", "--output", "b"],
            "option '--output': expected once, found 2 times: 'a', 'b'; what it is for: where outputs go",
        ),
        (["run", "m.onnx", "photos"], "one replica for each CPU; frames are given by --input NAME=FILE; see"),
        (["completion", "bsh"], "shell: expected bash, zsh, fish, found 'bsh'; see"),
        (
            ["costs"],
            "argument 'ACTION' is missing: expected list, export, import or forget, as in 'penstock costs list",
        ),
    ],
)
def test_what_is_misspelt_is_named_beside_what_it_may_have_meant(penstock, command, found):
    """An unknown option is named before one that is missing: it may be that one."""
    refused = penstock(*command)
    assert refused.code == 2
    assert found in refused.error


def test_a_model_in_the_place_of_something_else_is_told_what_to_do(penstock, tmp_path):
    save_chain(tmp_path)
    refused = penstock("explain", "chain.onnx")
    assert refused.code == 1
    assert "found a model; build it, and explain that: 'penstock build chain.onnx -o model.penstock'" in refused.error
    refused = penstock("top", "chain.onnx")
    assert refused.code == 2 and "found the file 'chain.onnx'; 'penstock run chain.onnx --page' tells" in refused.error
    refused = penstock("run", "https://example.com/m.onnx")
    assert refused.code == 1 and "expected a file or folder, found an address; download it first" in refused.error
    refused = penstock("serve", ".")
    assert refused.code == 1 and "'.': no model's name follows from this path; write NAME=." in refused.error


@pytest.mark.parametrize(
    "command",
    ["build", "verify", "bench", "run", "explain", "show", "split", "plan", "serve", "token", "costs", "up", "down"],
)
def test_what_is_missing_is_described_with_an_example(penstock, command):
    refused = penstock(command)
    assert refused.code == 2
    assert " is missing: expected " in refused.error
    assert f", as in 'penstock {command} " in refused.error
