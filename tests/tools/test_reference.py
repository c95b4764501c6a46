"""The pages of reference hold what the headers, the schema and the program say, and no more."""

import json
import re
import stat
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import reference  # noqa: E402

HEADERS = [file for files in reference.by_folder().values() for file in files]
SHAPE = """// A shape.
#pragma once
namespace penstock::shapes {

class State;  // Private.

/// How it ends. \\error kNotFound  there is no a*b<c>. \\pre ok()
enum class End { kOpen, kClosed };

/// One shape.
template <typename T>
class Shape : public Base {
 public:
  explicit Shape(int corners) : corners_(corners) { check(); }
  /// How many. `a*b` stays.
  [[nodiscard]] int corners() const { return corners_; }
  std::function<bool()> stopped = [] { return false; };
  struct Point {
    int x = 0;  ///< To the right.
    int sum() const {
      if (x > 0) { return x; }
      return 0;
    }
  };

 private:
  void hide();
  int corners_ = 0;
};

/// Text of it.
std::string to_string(const Shape<int>& shape);
std::string to_string(End end);
inline constexpr const char* kName = "a { brace";

inline int twice(int x) {
  return 2 * x;
}

}  // namespace penstock::shapes
"""


def blocks(text: str) -> list[str]:
    return re.findall(r"^```cpp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "shape.h").write_text(SHAPE)
    monkeypatch.setattr(reference, "SOURCES", tmp_path)
    return reference.page_of_folder("shapes", ["shape.h"])


def test_a_page_shows_declarations_without_what_is_private(page: str) -> None:
    assert re.findall(r"^### (.*)", page, re.MULTILINE) == ["End", "Shape", "to_string()", "kName", "twice()"]
    assert blocks(page) == [
        "enum class End { kOpen, kClosed };\n",
        "template <typename T>\nclass Shape : public Base {\n public:\n  explicit Shape(int corners);\n"
        "  /// How many. `a*b` stays.\n  [[nodiscard]] int corners() const;\n"
        "  std::function<bool()> stopped = [] { return false; };\n"
        "  struct Point {\n    int x = 0;  ///< To the right.\n    int sum() const;\n  };\n};\n",
        "std::string to_string(const Shape<int>& shape);\nstd::string to_string(End end);\n",
        'inline constexpr const char* kName = "a { brace";\n',
        "inline int twice(int x);\n",
    ]


def test_what_is_said_becomes_text(page: str) -> None:
    assert page.startswith("# C++: shapes\n\n## penstock/shape.h\n\nA shape.\n\nNamespace `penstock::shapes`.\n")
    assert "How it ends.\n\n**Errors:** `kNotFound`  there is no a\\*b\\<c>.\n\n**Before the call:** `ok()`" in page


@pytest.mark.parametrize("file", HEADERS)
def test_every_installed_header_is_whole(file: str) -> None:
    page = reference.page_of_folder(file.partition("/")[0], [file])
    code = "\n".join(map(reference.code_of, blocks(page)))
    assert code.count("{") == code.count("}") and code.count("(") == code.count(")")
    assert not re.search(r"\w_;|\bprivate:|\breturn\b(?! false; \})", code)
    text = (reference.SOURCES / file).read_text()
    for kind in re.findall(r"^(?:class|struct|enum class)(?: \[\[\w+\]\])? (\w+)[^;]*\{", text, re.MULTILINE):
        assert f"### {kind}\n" in page


def test_the_page_of_c_has_every_function() -> None:
    page = reference.page_of_c()
    declared = re.findall(r"(penstock_\w+)\(", (reference.SOURCES / "c/penstock.h").read_text().partition("#ifndef")[2])
    assert len(declared) > 50 and [name for name in declared if f"{name}(" not in page] == []
    assert "PENSTOCK_API" not in page and "#include" not in page


def test_the_page_of_the_schema_has_every_field() -> None:
    page = reference.page_of_schema(json.loads(reference.SCHEMA.read_text()))
    assert "| `nodes` | Needed. " in page
    for link in re.findall(r"\]\(#(\w+)\)", page):
        assert f"\n## {link}\n" in page
    cells = [line.replace("\\|", "").count("|") for line in page.splitlines() if line.startswith("| ")]
    assert set(cells) == {3}


def test_the_page_of_help_has_every_command(tmp_path: Path) -> None:
    program = tmp_path / "penstock"
    program.write_text(
        "#!/bin/sh\n"
        'test "$1" != --help && echo "Help of $1" && exit\n'
        r'printf "Usage\n\nSubcommands:\n  run   Runs.\n  top   Shows.\n\nMore\n"'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    page = reference.page_of_help(program)
    assert re.findall(r"^## (.*)", page, re.MULTILINE) == ["penstock", "penstock run", "penstock top"]
    assert "```text\nHelp of top\n```" in page
    assert "no program was built" in reference.page_of_help(None)
