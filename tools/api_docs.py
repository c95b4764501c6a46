#!/usr/bin/env python3
"""Writes docs/python_api.md from the signatures and docstrings of the package `penstock`.

    tools/api_docs.py [--check]

It reads sources and stubs: nothing needs to be built. `--check` writes nothing, and fails where the page
is not what it would write. Public is what `penstock` and `penstock.io` import, and all of `penstock.types`,
`penstock.ray` and `penstock.ready`.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/python_api.md"
PACKAGE = ROOT / "python/penstock"
HEAD = "# Python API\n\nWritten by `tools/api_docs.py` from the docstrings; `docs/python.md` is where to begin.\n"
SECTIONS = {
    "": ["__init__.py"],
    "Making pipelines": ["make.py", "connecting.py", "judge.py"],
    "Pipelines and their results": ["pipeline.py", "_core.pyi", "stream.py", "watching.py", "tuning.py"],
    "Serving": ["serving.py"],
    "Applications": ["app.py"],
    "Ready-made functions": ["ready.py"],
    "Sources and sinks": ["io/__init__.py", "io/sources.py", "io/sinks.py", "io/pictures.py"],
    "Ray": ["ray.py"],
    "Errors": ["errors.py"],
    "Types": ["types.py"],
}
PRIVATE_BASES = ("ABC", "Closing", "Generic", "Live")
WIDTH = 110  # A longer signature has a line for each argument.

Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> int:
    text = page()
    if missing := [name for name in public_names() if f"### penstock.{name}\n" not in text]:
        print(f"tools/api_docs.py: of penstock.__all__ in no section: {', '.join(missing)}")
        return 1
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.relative_to(ROOT)}: differs from the docstrings; run tools/api_docs.py")
        return 1
    return 0


def page() -> str:
    parts = [HEAD]
    for heading, files in SECTIONS.items():
        parts += [f"## {heading}"] if heading else []
        for file in files:
            parts += module(file)
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def module(file: str) -> Iterator[str]:
    """The package's text, and what of the module's own definitions is public."""
    tree = parse(file)
    if file.endswith("__init__.py"):
        yield prose(ast.get_docstring(tree) or "")
        return
    prefix = "penstock." + {"io/": "io.", "typ": "types.", "ray": "ray.", "rea": "ready."}.get(file[:3], "")
    public = imported(file)
    for node, text in documented(tree.body):
        name = name_of(node)
        of_its_own = file in ("ray.py", "ready.py") and not name.startswith("_")
        if name not in public and not of_its_own and (file != "types.py" or isinstance(node, Function)):
            continue
        yield f"### {prefix}{name}"
        if isinstance(node, ast.ClassDef):
            yield from of_class(node, prefix)
        else:
            yield code(signature(node, prefix) if isinstance(node, Function) else prefix + ast.unparse(node))
            yield prose(text)


def of_class(node: ast.ClassDef, prefix: str) -> Iterator[str]:
    members = [(member, text) for member, text in documented(node.body) if not name_of(member).startswith("_")]
    made = next((member for member in node.body if isinstance(member, Function) and member.name == "__init__"), None)
    bases = ", ".join(base for base in map(ast.unparse, node.bases) if not base.startswith(PRIVATE_BASES))
    lines = [f"class {prefix}{node.name}" + (f"({bases})" if bases else "")]
    lines += [f"    {ast.unparse(member)}" for member, _ in members if isinstance(member, ast.AnnAssign | ast.Assign)]
    yield code("\n".join(lines))
    yield prose(ast.get_docstring(node) or "")
    if made is not None and is_for_users(made):
        yield code(signature(made, prefix, node.name)) + "\n\n" + prose(ast.get_docstring(made) or "")
    for member, text in members:
        if isinstance(member, Function) and text:  # What overrides another's says nothing.
            is_property = any(ast.unparse(one) == "property" for one in member.decorator_list)
            shown = f"{member.name}: {ast.unparse(member.returns)}" if is_property and member.returns else None
            yield code(shown or signature(member)) + "\n\n" + prose(text)
        elif text:
            yield f"`{name_of(member)}`: {prose(text)}"


def is_for_users(made: Function) -> bool:
    """Whether a constructor is no business of the package alone."""
    taken, text = ast.unparse(made.args), ast.get_docstring(made)
    return (
        "_core." not in taken
        and not (text or "").startswith("Made by")
        and (text is not None or "ipeline" not in taken)
    )


def parse(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"), file)


def imported(file: str) -> set[str]:
    """What the package imports of a module of its own."""
    package = "io/__init__.py" if file.startswith("io/") else "__init__.py"
    module = "penstock." + file.rpartition(".")[0].replace("/", ".")
    nodes = [node for node in parse(package).body if isinstance(node, ast.ImportFrom) and node.module == module]
    return {alias.name for node in nodes for alias in node.names if alias.asname is None}


def public_names() -> list[str]:
    """penstock.__all__ but for the version and the modules in it."""
    tree = parse("__init__.py")
    names = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and name_of(node) == "__all__"
    )
    return [
        name
        for name in names
        if name != "__version__" and not (PACKAGE / name).is_dir() and not (PACKAGE / f"{name}.py").exists()
    ]


def documented(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Each definition, with its docstring or the text that stands behind it."""
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(node, Function | ast.ClassDef):
            yield node, ast.get_docstring(node) or ""
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            text = after.value if isinstance(after, ast.Expr) else None
            yield node, str(text.value) if isinstance(text, ast.Constant) else ""


def name_of(node: ast.stmt) -> str:
    if isinstance(node, Function | ast.ClassDef):
        return node.name
    return ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)  # type: ignore[attr-defined]


def signature(node: Function, prefix: str = "", made: str = "") -> str:
    """`made`: of the class that this is the constructor of."""
    arguments = list(each_argument(node.args))
    returned = f" -> {ast.unparse(node.returns)}" if node.returns and not made else ""
    name = f"{prefix}{made or node.name}"
    text = f"{name}({', '.join(arguments)}){returned}"
    if len(text) <= WIDTH:
        return text
    return f"{name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){returned}"


def each_argument(arguments: ast.arguments) -> Iterator[str]:
    """As they are written; `self` left out."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    yield from (with_default(*one) for one in zip(plain, defaults, strict=True) if one[0].arg != "self")
    if arguments.vararg:
        yield f"*{ast.unparse(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    yield from map(with_default, arguments.kwonlyargs, arguments.kw_defaults)
    if arguments.kwarg:
        yield f"**{ast.unparse(arguments.kwarg)}"


def with_default(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")


def code(text: str) -> str:
    return f"```\n{text}\n```"


def prose(text: str) -> str:
    """Markdown of a docstring: what it says of arguments as a list, its examples as Python."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=\n\n)((?: {4}.*\n|\n(?= {4}))+(?: {4}.*)?)", example, text + "\n")
    text = re.sub(r"^([a-z]\w*(?:, [a-z]\w*)*): (.+(?:\n {4}.+)*)", r"- *\1*: \2", text, flags=re.MULTILINE)
    return re.sub(r"^(- .+(?:\n {4}.+)*\n)(?=[^-\s])", r"\1\n", text, flags=re.MULTILINE).strip()


def example(found: re.Match[str]) -> str:
    lines = [line[4:] for line in found[1].rstrip("\n").split("\n")]
    return "```python\n" + "\n".join(lines) + "\n```\n"


if __name__ == "__main__":
    sys.exit(main())
