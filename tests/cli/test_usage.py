"""Help, versions, exit codes, completion: what holds for every command."""

import shutil
import subprocess

import pytest

COMMANDS = ["show", "split", "plan", "run", "bench", "verify", "devices", "backends", "completion"]


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
        ["run", "a.onnx", "--rate", "nan"],
        ["run", "a.onnx", "--rate", "inf"],
        ["run", "a.onnx", "--in-flight", "0"],
        ["run", "a.onnx", "--seed", "-1"],
        ["bench", "a.onnx", "--seconds", "0"],
        ["verify", "a.pkg", "--frames", "0"],
        ["split", "a.onnx", "--devices", "", "-o", "b"],
        ["split", "a.onnx"],
        ["plan"],
        ["plan", "--workload", "a.json", "--goal", "beauty"],
        ["plan", "--workload", "a.json", "--cpus", "-1"],
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


def test_bash_completes_commands_and_options(well, tmp_path):
    script = tmp_path / "script"
    script.write_text(well("completion", "bash").out)
    ask = f"""source {script}
COMP_WORDS=(penstock sp); COMP_CWORD=1; _penstock; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(penstock split --rep); COMP_CWORD=2; _penstock; echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["split", "--replicas"]
