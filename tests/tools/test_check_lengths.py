"""tools/check_lengths.py: what it counts, and when it fails, on small trees."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import check_lengths  # noqa: E402


def counted(source: str) -> list[tuple[int, int]]:
    return list(check_lengths.functions_of(source))


def test_this_tree_keeps_its_lengths():
    done = subprocess.run([sys.executable, ROOT / "tools/check_lengths.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_function_is_counted_from_its_first_line_to_its_brace():
    assert counted("namespace a {\n\n// Why.\nint f(int x,\n      int y) {\n  return x;\n}\n\n}  // namespace a\n") == [
        (4, 4)
    ]


def test_members_and_functions_of_any_kind_are_counted():
    source = """struct A final : B {
  A() : b_{1, 2}, c_(3) {
    go();
  }
  int get() const { return b_; }
 private:
  int b_{0};
  enum class Kind { kOne, kTwo };
  bool operator==(const A&) const {
    return true;
  }
};
template <typename T>
Result<T> A::of(T t) {
  return t;
}
extern "C" {
int open_it(void) {
  return 1;
}
}
"""
    assert counted(source) == [(2, 3), (5, 1), (9, 3), (13, 4), (18, 3)]


def test_lambdas_loops_and_types_within_belong_to_their_function():
    source = """void f() {
  struct Local { int get() { return 1; } };
  const auto g = [&](int x) {
    return x;
  };
  for (;;) {
    if (g(1)) { break; }
  }
}
"""
    assert counted(source) == [(1, 9)]


@pytest.mark.parametrize(
    "text",
    ['"}{"', "'{'", "/* { */ 1", 'R"x(\n}\n)x"', "1'000"],
    ids=["string", "character", "comment", "raw", "separator"],
)
def test_braces_in_text_mean_nothing(text: str):
    source = f"auto f() {{\n  return {text};\n}}\nint g() {{ return 2; }}\n"
    lines = source.count("\n", 0, source.index("int g"))
    assert counted(source) == [(1, lines), (lines + 1, 1)]


def test_values_and_declarations_are_no_functions():
    assert (
        counted("const int a[] = {1, 2};\nint f(int x);\nconstexpr auto kMost = most({3, 4});\nenum B { kC };\n") == []
    )


def tree(folder: Path, lengths: list[int]) -> Path:
    (folder / "src").mkdir()
    for index, lines in enumerate(lengths):
        body = "".join("  go();\n" for _ in range(lines - 2))
        (folder / f"src/a{index}.cc").write_text(f"void f() {{\n{body}}}\n")
    return folder


def check(folder: Path, *most: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools/check_lengths.py", folder, "--most", *most]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def test_one_of_twenty_may_be_longer(tmp_path: Path):
    done = check(tree(tmp_path, [10] * 19 + [90]), 10, 0, 10)
    assert done.returncode == 0, done.stdout
    assert "functions: 95 % of 20 have at most 10 lines (allowed: 10)" in done.stdout


def test_two_of_twenty_are_too_many_and_are_named(tmp_path: Path):
    done = check(tree(tmp_path, [10] * 18 + [90, 80]), 10, 0, 100)
    assert done.returncode == 1
    assert "functions: 95 % of 20 have at most 80 lines (allowed: 10)" in done.stdout
    assert "make the longest shorter: src/a18.cc:1 (90), src/a19.cc:1 (80)" in done.stdout


def test_tests_do_not_count(tmp_path: Path):
    folder = tree(tmp_path, [10])
    (folder / "src/a_test.cc").write_text("int x;\n" * 500)
    assert check(folder, 10, 0, 10).returncode == 0
