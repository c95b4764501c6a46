"""tools/check_docs.py: every path that the documents name exists, every header that they offer is installed, and each
source says in its first line what one finds there."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def check(tmp_path):
    """check(text) -> (exit code, output) of the script where ARCHITECTURE.md is `text`."""
    (tmp_path / "src/penstock/base").mkdir(parents=True)
    for name in ("error.h", "error.cc"):
        (tmp_path / "src/penstock/base" / name).write_text("// Errors as values.\n#pragma once\n")
    (tmp_path / "layers.txt").touch()

    def run(text: str) -> tuple[int, str]:
        (tmp_path / "ARCHITECTURE.md").write_text(text)
        script = ROOT / "tools/check_docs.py"
        done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize(
    "text",
    [
        "`src/penstock/base/error.{h,cc}`, [layers](layers.txt) and src/penstock/*/error.h.",
        "See [the standard](https://example.org/src/none.h), `plan.json`, and lib/src/none.h.",
    ],
)
def test_paths_that_exist_and_what_is_no_path_pass(check, text):
    assert check(text) == (0, "")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("`src/penstock/gone/x.h`", "src/penstock/gone/x.h"),
        ("in src/penstock/base/error.{h,inc}.", "src/penstock/base/error.inc"),
        ("[here](docs/gone.md)", "docs/gone.md"),
        ("`rules.txt`", "rules.txt"),
    ],
)
def test_a_path_that_is_gone_is_named(check, text, path):
    assert check(text) == (1, f"ARCHITECTURE.md names '{path}', which does not exist\n")


def test_a_header_that_is_offered_but_not_installed_is_named(check, tmp_path):
    for folder in ("docs", "cmake"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cmake/penstock_install.cmake").write_text("set(PUBLIC base/error.h\n  plan/plan.h)")
    page = tmp_path / "docs/cpp.md"
    page.write_text("`penstock/base/error.h`, `penstock/plan/plan.h`; inside: `src/penstock/base/secret.h`")
    assert check("") == (0, "")
    page.write_text("`penstock/base/secret.h`")
    expected = "docs/cpp.md offers 'penstock/base/secret.h', which cmake/penstock_install.cmake does not install\n"
    assert check("") == (1, expected)


def test_a_name_that_is_offered_but_not_installed_is_named(check, tmp_path):
    for folder in ("docs", "cmake"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cmake/penstock_install.cmake").write_text("set(PUBLIC base/error.h)")
    (tmp_path / "src/penstock/base/error.h").write_text("// Errors.\nclass Error;\n")
    (tmp_path / "src/penstock/base/secret.h").write_text("// Secrets.\nclass Secret;\n")
    page = tmp_path / "docs/cpp.md"
    page.write_text("`base::Error`, `std::vector`")
    assert check("") == (0, "")
    page.write_text("`base::Error`, `base::Secret`")
    told = "docs/cpp.md offers 'base::Secret', which no header declares that cmake/penstock_install.cmake installs\n"
    assert check("") == (1, told)


@pytest.mark.parametrize(
    ("first", "passes"),
    [
        ("// Errors as values.", True),
        ("/* Errors for C. */", True),
        ("// Errors as values, and what becomes", False),
        ("#include <vector>", False),
        ("", False),
    ],
)
def test_a_source_begins_with_a_line_that_stands_alone(check, tmp_path, first, passes):
    (tmp_path / "src/penstock/base/error.cc").write_text(f"{first}\n// of them.\n")
    sentence = "src/penstock/base/error.cc does not begin with a comment of one line that says what one finds there\n"
    assert check("") == ((0, "") if passes else (1, sentence))


def test_a_header_of_the_runtime_that_is_left_out_is_named(check, tmp_path):
    (tmp_path / "src/penstock/pipeline").mkdir()
    (tmp_path / "src/penstock/pipeline/edge.h").write_text("// Slots between stages.\n")
    code, output = check("`stage.h`")
    assert code == 1
    assert output == "ARCHITECTURE.md does not say what src/penstock/pipeline/edge.h is\n"
    assert check("`edge.h` | slots") == (0, "")


def test_this_tree_names_only_what_exists():
    done = subprocess.run([sys.executable, ROOT / "tools/check_docs.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
