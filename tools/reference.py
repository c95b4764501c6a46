"""The pages of reference that the site has beside the documents: of the headers that are installed, of the program's
help, and of the schema of applications. Made from their sources each time, and kept nowhere (tools/site_hooks.py)."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src/penstock"
LIST = ROOT / "cmake/penstock_install.cmake"
C_HEADERS = ["c/penstock.h", "function/penstock_function.h"]
SCHEMA = ROOT / "docs/app.schema.json"
MARKS = {"error": "Errors", "pre": "Before the call", "returns": "Gives", "threads": "Threads", "param": "Argument"}


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    found = {f"headers/{folder}.md": page_of_folder(folder, files) for folder, files in by_folder().items()}
    found |= {"headers/c.md": page_of_c(), "help.md": page_of_help(program())}
    return found | {"app_schema.md": page_of_schema(json.loads(SCHEMA.read_text("utf-8")))}


def by_folder() -> dict[str, list[str]]:
    """The installed headers in C++ of each folder."""
    listed = re.search(r"set\(PENSTOCK_PUBLIC_HEADERS\s+(.*?)\)", LIST.read_text("utf-8"), re.DOTALL)
    assert listed, f"{LIST}: no PENSTOCK_PUBLIC_HEADERS"
    folders: dict[str, list[str]] = {}
    for file in listed[1].split():
        if file not in C_HEADERS:
            folders.setdefault(file.partition("/")[0], []).append(file)
    return folders


# ------------------------------------------------------------------------------------------------ C++


def page_of_folder(folder: str, files: list[str]) -> str:
    parts = [f"# C++: {folder}"]
    for file in files:
        text = (SOURCES / file).read_text("utf-8")
        text = re.sub(r"^namespace [\w:]+ \{\n(?:(?:class|struct) \w+;.*\n)+\}.*\n", "", text, flags=re.MULTILINE)
        intro = re.match(r"(?://.*\n)*", text)
        assert intro
        parts += [f"## penstock/{file}", prose(re.sub(r"^// ?", "", intro[0], flags=re.MULTILINE))]
        parts += [f"Namespace `{space[1]}`." for space in [re.search(r"^namespace ([\w:]+) \{", text, re.M)] if space]
        for said, declared in declarations(text[intro.end() :]):
            heading = f"### {name_of(declared)}"
            if not said and parts[-1].startswith("```") and heading in parts[-3:-1]:  # One more of the name.
                parts[-1] = parts[-1].removesuffix("```") + f"{declared}\n```"
                continue
            parts += [heading] if heading != "### " else []
            parts += [prose(said)] if said else []
            parts += [f"```cpp\n{declared}\n```"]
    return "\n\n".join(part for part in parts if part) + "\n"


def declarations(text: str) -> Iterator[tuple[str, str]]:
    """What is said of each declaration of a namespace, and the declaration as users see it."""
    said: list[str] = []
    taken: list[str] = []
    for line in without_macros(text).splitlines():
        stripped = line.strip()
        if not taken:
            if stripped.startswith("///"):
                said.append(stripped[3:].removeprefix(" "))
                continue
            if not stripped or stripped.startswith(("//", "namespace ", "}  // namespace")):
                said = []
                continue
        taken.append(line)
        whole = code_of("\n".join(taken))
        if whole.count("{") == whole.count("}") and re.search(r"[;}]\s*$", whole):
            declared = shown("\n".join(taken))
            if not re.fullmatch(r"(class|struct) \w+;( *//.*)?", declared):
                yield "\n".join(said), declared
            said, taken = [], []


def without_macros(text: str) -> str:
    """Without the lines of the preprocessor but definitions of macros that users write, which lose their bodies."""
    lines = re.sub(r"\\\n", "", text).splitlines()
    kept = []
    for line in lines:
        found = re.match(r"#define (PENSTOCK_(?:TRY|CHECK_OK|PLUGIN)\([^)]*\))", line)
        kept += [found[1] + ";"] if found else [] if line.startswith("#") else [line]
    return "\n".join(kept)


def code_of(text: str) -> str:
    """Without comments and the contents of literals."""
    return re.sub(r"//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'", "", text)


def shown(text: str) -> str:
    """A declaration without bodies and without what is private."""
    lines = text.splitlines()
    if not re.match(r"\s*(template\s*<.*>\s*)?(class|struct|union|enum)\b", text) or "{" not in code_of(text):
        return bodyless(text)
    head = next(i for i, line in enumerate(lines) if "{" in code_of(line))
    opening = "\n".join(lines[: head + 1])
    if head == len(lines) - 1 or re.search(r"\benum\b", opening):
        return text
    kept, member, hidden = [opening], list[str](), bool(re.search(r"^\s*class\b", opening, re.MULTILINE))
    for line in lines[head + 1 : -1]:
        stripped = line.strip()
        if not member and stripped in ("public:", "private:", "protected:"):
            hidden = stripped == "private:"
            kept += [] if hidden else [line]
        elif hidden:
            continue
        elif not member and (not stripped or stripped.startswith("//")):
            kept += [line] if not stripped or stripped.startswith("///") else []
        else:
            member.append(line)
            code = code_of("\n".join(member))
            if code.count("{") == code.count("}") and re.search(r"[;}]\s*$", code):
                kept.append(shown("\n".join(member)) if not re.match(r"\s*friend class", line) else "")
                member = []
    body = re.sub(r"\n\s*\n(\s*\n)+", "\n\n", "\n".join(kept)).rstrip()
    return body + "\n" + lines[-1]


def bodyless(text: str) -> str:
    """A function's declaration without what it does; of anything else, the text."""
    found = re.search(r"\)\s*(?:const|noexcept|override|final|&&?|\s)*(?:->\s*[\w:<>*& ]+?)?\s*(?P<body>\{|:\s)", text)
    if not found or "=" in re.sub(r"operator[^\w(]*", "", text[: found.start() + 1]).partition("(")[0]:
        return text
    return text[: found.start("body")].rstrip() + ";"


def name_of(declared: str) -> str:
    """What a heading calls it."""
    text = re.sub(r"^\s*template\s*<.*?>\n", "", declared)
    if found := re.match(r"\s*(?:class|struct|enum class|enum|union)\s+(?:\[\[\w+\]\]\s+)?(\w+)", text):
        return found[1]
    if found := re.match(r"\s*using (\w+)", text):
        return found[1]
    if found := re.match(r"[^(=]*?(operator\S*?|[\w~]+)\s*\(", text):
        return f"{found[1]}()"
    if found := re.match(r"[^=;]*?(\w+)\s*(?:=|;|\{)", text):
        return found[1]
    return ""


def prose(text: str) -> str:
    """A comment as a page's text: what is marked begins a paragraph; names that are code look so."""
    text = re.sub(
        r"\s*\\(error|pre|returns|threads|param)\b\s*", lambda found: f"\n\n{MARKS[found[1]]}: ", text.strip()
    )
    parts = re.split(r"(`[^`]*`)", text)
    for i in range(0, len(parts), 2):
        plain = re.sub(r"([*<\[\]])", r"\\\1", parts[i])
        plain = re.sub(r"(?<![\w:])((?:\w+::)+\w+(?:\(\))?|\w+\(\)|k[A-Z]\w+)", r"`\1`", plain)
        parts[i] = re.sub(r"^(Errors|Before the call|Gives|Threads|Argument): ", r"**\1:** ", plain, flags=re.MULTILINE)
    return "".join(parts).strip()


# -------------------------------------------------------------------------------------------------- C


def page_of_c() -> str:
    parts = ["# C: all functions", "How they are used: [C](../c.md)."]
    for file in C_HEADERS:
        text = (SOURCES / file).read_text("utf-8")
        intro = re.match(r"/\*(.*?)\*/\n", text, re.DOTALL)
        assert intro, file
        parts += [f"## {file.rpartition('/')[2]}", re.sub(r"^ \* ?", "", intro[1].strip(), flags=re.MULTILINE)]
        rest = re.sub(r"^#(?!define PENSTOCK_(?:\w*VERSION|DROP)).*(?:\\\n.*)*\n", "", text[intro.end() :], flags=re.M)
        rest = re.sub(r"^extern \"C\" \{\n|^\}.*extern.*\n", "", rest, flags=re.MULTILINE)
        rest = re.sub(
            r"^PENSTOCK_API (.*(?:\n {20,}.*)*)", lambda found: re.sub(r"\n {13}", "\n", found[1]), rest, flags=re.M
        )
        sections = re.split(r"^/\* -{10,} (.*?) ?-* ?\*/\n", rest, flags=re.MULTILINE)
        for title, body in zip(["", *sections[1::2]], sections[0::2], strict=True):
            body = re.sub(r"\n{3,}", "\n\n", body).strip().removesuffix("}").strip() if title == "" else body.strip()
            parts += [f"### {title}"] if title else []
            parts += [f"```c\n{body}\n```"] if body else []
    return "\n\n".join(parts) + "\n"


# ----------------------------------------------------------------------------------------------- help


def program() -> Path | None:
    """PENSTOCK_BIN, or the program of a preset that is built."""
    named = os.environ.get("PENSTOCK_BIN")
    places = [Path(named)] if named else [ROOT / f"build/{preset}/bin/penstock" for preset in ("release", "dev")]
    return next((place for place in places if place.exists()), None)


def page_of_help(program: Path | None) -> str:
    """What every command says of itself."""
    parts = ["# What each command says", "What they are for, and what they write: [the program](cli.md)."]
    if program is None:
        return (
            "\n\n".join([*parts, "This site was made where no program was built: ask `penstock COMMAND --help`."])
            + "\n"
        )
    whole = said_by(program)
    listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", whole, re.MULTILINE)
    assert listed, f"{program}: --help lists no commands"
    commands = re.findall(r"^  (\w+) ", listed[1], re.MULTILINE)
    for command in ["", *commands]:
        parts += [
            f"## penstock {command}".rstrip(),
            f"```text\n{(said_by(program, command) if command else whole).strip()}\n```",
        ]
    return "\n\n".join(parts) + "\n"


def said_by(program: Path, *command: str) -> str:
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout


# --------------------------------------------------------------------------------------------- schema


def page_of_schema(schema: dict[str, Any]) -> str:
    parts = [
        "# Fields of an application",
        "From [the schema](app.schema.json); [composition](composition.md) explains.",
    ]
    parts += ["## The file", table_of(schema)]
    for name, entry in schema["$defs"].items():
        parts += [f"## {name}"]
        parts += [entry["description"]] if "description" in entry and "properties" in entry else []
        parts += [table_of(entry) if "properties" in entry else sentence(entry)]
    return "\n\n".join(parts) + "\n"


def table_of(entry: dict[str, Any], path: str = "") -> str:
    return "| field | what it is |\n|---|---|\n" + "\n".join(rows_of(entry, path))


def rows_of(entry: dict[str, Any], path: str) -> Iterator[str]:
    needed = entry.get("required", [])
    for name, field in entry.get("properties", {}).items():
        words = "Needed. " * (name in needed) + sentence(field)
        yield f"| `{path}{name}` | {words.replace('|', chr(92) + '|')} |"
        inner = field.get("items", field)
        if "properties" in inner:
            yield from rows_of(inner, f"{path}{name}[]." if inner is not field else f"{path}{name}.")


def sentence(field: dict[str, Any]) -> str:
    words = [field["description"].rstrip(".") + "."] if "description" in field else []
    words += [kind_of(field)] if kind_of(field) else []
    words += [f"Default: `{json.dumps(field['default'])}`."] if "default" in field else []
    return " ".join(words)


def kind_of(field: dict[str, Any]) -> str:
    """Its type, as a sentence; empty where it says none."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"A [{name}](#{name})."
    if "const" in field:
        return f"`{json.dumps(field['const'])}`."
    if "enum" in field:
        return "One of " + ", ".join(f"`{json.dumps(value)}`" for value in field["enum"]) + "."
    if "oneOf" in field:
        return "Either: " + " ".join(filter(None, map(kind_of, field["oneOf"])))
    if field.get("type") == "array" and "properties" not in field.get("items", {}):
        return f"A list of: {kind_of(field.get('items', {}))}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"An object; each value: {kind_of(field['additionalProperties'])}"
    kinds = field.get("type", [])
    words = " or ".join(kinds if isinstance(kinds, list) else [kinds])
    limits = [f"{word} {field[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in field]
    pattern = f", of the form `{field['pattern']}`" if "pattern" in field else ""
    return f"{words.capitalize()}{' ' + ' '.join(limits) if limits else ''}{pattern}." if words else ""
