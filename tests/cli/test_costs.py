"""penstock costs: what was measured, shown, copied and forgotten."""

import json
import os
import sqlite3
import stat
import time

import pytest

PART = {
    "model": "feedbeef0123",
    "structure": "beef",
    "inputs": "f32[1,8]",
    "precision": "f32",
    "backend": "acme",
    "engine": "1.0",
    "device": "machine/1k0/1cores",
    "threads": 1,
    "condition": "alone",
    "options": "",
    "name": "nodes 0-3",
    "seconds": 0.00125,
    "low": 0.00124,
    "high": 0.00126,
    "runs": 800,
    "failure": None,
    "message": None,
    "measured_at": 1700000000,
}
CRASH = PART | {
    "model": "0badcafe",
    "structure": "cafe",
    "backend": "acme+zenith",
    "seconds": None,
    "low": None,
    "high": None,
    "runs": 0,
    "failure": "crash",
    "message": "killed by SIGSEGV while it ran",
}
PLAN = {
    "plan": "feed",
    "device": "machine",
    "engines": "acme 1.0",
    "frames_per_second": "100.5 101",
    "text": "",
    "measured_at": 1700000000,
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "cache" / "costs.db"


@pytest.fixture
def costs(penstock, file):
    """Runs `penstock costs` over a file of the test's own."""
    return lambda *arguments: penstock("costs", *arguments, env={"PENSTOCK_COSTS": str(file)})


def test_files_of_costs_are_refused_with_what_to_do(costs, tmp_path):
    (tmp_path / "notes.txt").write_text("notes")
    assert costs("import", "notes.txt").error.endswith("not JSON; expected what 'penstock costs export' writes")
    assert costs("export", "away/costs.json").error.endswith("; make the folder 'away' first")


@pytest.fixture
def exported(tmp_path, costs):
    """A file with two parts and a plan, imported."""
    path = tmp_path / "exported.json"
    path.write_text(json.dumps({"version": 1, "parts": [PART, CRASH], "plans": [PLAN]}))
    assert costs("import", path).code == 0
    return path


def test_who_looks_before_anything_is_measured_makes_no_database(costs, file):
    outcome = costs("list")
    assert outcome.code == 0, outcome
    assert outcome.out == f"no such costs in {file}\n"
    assert costs("list", "--json").json["file"] == str(file)
    assert costs("export").json["parts"] == []
    assert costs("forget", "--all").out == "0 forgotten\n"
    assert not file.parent.exists()


@pytest.mark.parametrize("command", [["list"], ["export"], ["forget", "--all"]])
def test_a_misspelt_database_is_refused_and_not_made(costs, tmp_path, command):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/costs.db").touch()
    outcome = costs(*command, "--database", "mine/cots.db")
    told = "--database 'mine/cots.db': no such file; expected a database of costs; did you mean 'costs.db'?"
    assert (outcome.code, outcome.error) == (1, told)
    assert costs(*command, "--database", "away/costs.db").code == 1
    assert sorted(os.listdir(tmp_path / "mine")) == ["costs.db"] and not (tmp_path / "away").exists()


@pytest.mark.parametrize("command", [["list"], ["export"], ["forget", "--all"]])
def test_an_empty_file_is_no_database_and_stays_empty(costs, file, tmp_path, command):
    (tmp_path / "notes.db").touch()
    outcome = costs(*command, "--database", "notes.db")
    told = "--database 'notes.db': an empty file; expected a database of costs"
    assert (outcome.code, outcome.error) == (1, told)
    file.parent.mkdir()
    file.touch()
    assert costs(*command).code == 0
    assert file.stat().st_size == (tmp_path / "notes.db").stat().st_size == 0


def test_a_file_where_none_goes_is_answered_with_the_option(costs):
    assert "list: takes no FILE; --database names another database" in costs("list", "costs.db").error


def test_an_import_makes_the_database_that_it_names(costs, exported, tmp_path):
    assert costs("import", exported, "--database", "new/costs.db").code == 0
    assert "1.25 ms" in costs("list", "--database", "new/costs.db").out
    assert costs("export", "--database", "new/costs.db").code == 0


def test_list_shows_times_and_failures(costs, exported):
    text = costs("list").out
    assert "feedbeef0123" in text and "1.25 ms" in text and "acme 1.0" in text
    assert "crash: killed by SIGSEGV while it ran" in text
    assert "100.5 101" in text


def test_list_says_how_old_and_how_sure_a_figure_is(costs, exported, tmp_path):
    part = PART | {"model": "abcd", "measured_at": int(time.time()) - 3 * 86400 - 10, "low": 0.0010, "high": 0.0015}
    path = tmp_path / "older.json"
    path.write_text(json.dumps({"version": 1, "parts": [part], "plans": []}))
    assert costs("import", path).code == 0
    lines = costs("list", "--model", "abcd").out.splitlines()
    header, row = (line for line in lines if "abcd" in line or "age" in line)
    assert "sure" in header and "+-20 %" in row and " 3 d" in row


def test_list_as_json_has_every_column(costs, exported, file):
    shown = costs("list", "--json").json
    assert shown["parts"] == [PART, CRASH]
    assert shown["plans"] == [PLAN]
    assert shown["file"] == str(file)


@pytest.mark.parametrize(
    ("filters", "models"),
    [
        (["--backend", "acme"], ["feedbeef0123", "0badcafe"]),
        (["--backend", "zenith"], ["0badcafe"]),
        (["--backend", "acm"], []),
        (["--model", "feed"], ["feedbeef0123"]),
        (["--failed"], ["0badcafe"]),
        (["--failed", "--model", "feed"], []),
    ],
)
def test_filters(costs, exported, filters, models):
    assert [part["model"] for part in costs("list", "--json", *filters).json["parts"]] == models


def test_an_export_is_what_import_reads(costs, exported, penstock, tmp_path):
    text = costs("export").out
    assert costs("export", tmp_path / "again.json").code == 0
    assert (tmp_path / "again.json").read_text() == text
    other = {"PENSTOCK_COSTS": str(tmp_path / "other.db")}
    assert penstock("costs", "import", tmp_path / "again.json", "--json", env=other).json == {"added": 3, "kept": 0}
    assert penstock("costs", "export", env=other).out == text
    assert penstock("costs", "import", tmp_path / "again.json", env=other).out == "0 added, 3 were there already\n"


def test_forget_takes_a_filter_or_all(costs, exported):
    assert costs("forget", "--failed", "--json").json == {"forgotten": 1}
    assert costs("forget", "--all").out == "2 forgotten\n"
    assert costs("list", "--json").json["parts"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["forget"],
        ["forget", "--all", "--failed"],
        ["import"],
        ["list", "x.json"],
        ["import", "x", "--failed"],
        ["drop"],
        [],
    ],
)
def test_a_wrong_command_line(costs, arguments):
    outcome = costs(*arguments)
    assert outcome.code == 2, outcome
    assert "see 'penstock costs --help'" in outcome.error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[]", "penstock costs export"),
        ('{"version": 7}', "update Penstock"),
        (
            json.dumps({"version": 1, "parts": [PART | {"seconds": -1}]}),
            "parts[0]: parts.seconds: expected a number from 0",
        ),
        (json.dumps({"version": 1, "parts": [PART | {"model": None}]}), "parts[0]: parts.model: expected a text"),
        (json.dumps({"version": 1, "parts": {}}), "parts: expected a list"),
    ],
)
def test_what_is_no_export_is_refused_and_nothing_added(costs, tmp_path, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text)
    outcome = costs("import", path)
    assert outcome.code == 1
    assert message in outcome.error and str(path) in outcome.error
    assert costs("list", "--json").json["parts"] == []


def test_a_file_that_is_no_database_is_left_alone(costs, file):
    file.parent.mkdir()
    file.write_text("my diary\n" * 1000)
    outcome = costs("list")
    assert outcome.code == 1
    assert "not a cost database, or damaged" in outcome.error and "PENSTOCK_COSTS" in outcome.error
    assert file.read_text().startswith("my diary")


def test_a_newer_database_is_refused(costs, exported, file):
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()
    assert "of version 9" in costs("list").error


def test_the_default_is_in_the_users_cache(penstock, tmp_path):
    environment = {"PENSTOCK_COSTS": "", "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    exported = tmp_path / "exported.json"
    exported.write_text(json.dumps({"version": 1, "parts": [PART]}))
    assert penstock("costs", "import", exported, env=environment).code == 0
    assert (tmp_path / "xdg/penstock/costs.db").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(costs, file, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    file.parent.mkdir()
    file.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    exported = tmp_path / "exported.json"
    exported.write_text(json.dumps({"version": 1, "parts": [PART]}))
    outcome = costs("import", exported)
    assert outcome.code == 1
    assert "cannot be opened or written" in outcome.error


def test_the_measuring_program_is_no_command(program):
    import subprocess

    measure = program.parent / "penstock-measure"
    if not measure.exists():
        measure = program.parent.parent / "libexec/penstock/penstock-measure"
    done = subprocess.run([measure], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 2
    assert "is started by penstock" in done.stderr
