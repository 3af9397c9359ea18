"""Checks sizes, names and words: what ruff, rustfmt and clippy do not.

`python3 ci/tidy.py [--warn]`, a step of `make check`. The rules and their numbers are in STYLE.md.
Function length and arguments of Rust are clippy's part (clippy.toml), of Python this file's.
An exception is a line in ci/tidy-exceptions.txt with its reason; one without use is an error.
"""

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOP = ("llmd_ctl", "crates", "fuzz", "ci", "tests", "benchmarks", "guides", "images", "docs")
CODE = {".py", ".rs"}
TEXT = CODE | {".md", ".pyi", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}
SKIPPED_FOLDERS = {"__pycache__", "target", "golden", "corpus", "node_modules"}

# kind of file -> (warn, fail) in lines
FILE_LINES = {"rust": (400, 600), "python": (300, 500), "test": (600, 1000)}
FUNCTION_LINES = (50, 70)
ARGUMENTS = (6, 8)
FOLDER_DEPTH = 2
LINE_COLUMNS = 100

BANNED_NAMES = {
    *("utils", "util", "common", "helpers", "helper", "misc", "base", "manager", "managers"),
    *("core", "data", "types"),
}
BANNED_TYPE = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))? )?(?:class|struct|enum|trait) "
    r"((?:Utils?|Common|Helpers?|Misc|Base|Core|Data)\b|\w*(?:Manager|Helpers?|Utils?)\b)"
)
# Words that say nothing, tell history, or name a place that readers do not have.
BANNED_PHRASES = re.compile(
    r"\b(blazing(?:ly)?|cutting[- ]edge|game[- ]chang\w+|world[- ]class|state[- ]of[- ]the[- ]art"
    r"|seamless(?:ly)?|leverag(?:e|es|ing)|utiliz(?:e|es|ing)|effortless(?:ly)?|battle[- ]tested"
    r"|production[- ]ready|coming soon|for now|work in progress|was renamed|was moved|formerly"
    r"|FIXME|XXX|HACK)\b|(?<![\w.~-])/(?:work|root)/|\.\./shared\b|\bfacts/\w+\.md",
    re.IGNORECASE,
)
TODO = re.compile(r"\bTODO\b(?!\(#\d+\))")
ALLOWED_SIZES = re.compile(r"allow\(.*clippy::(?:too_many_lines|too_many_arguments)")
SILENCED_PYTHON = re.compile(
    r"#\s*(?:(?:ruff:\s*)?noqa\b(?::\s*[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)?"
    r"|type:\s*ignore\b(?:\[[^\]]*\])?)"
)
SILENCED_RUST = re.compile(r"#!?\[(?:cfg_attr\([^\]]*)?\b(?:allow|expect)\([^\]]*\]")
SPEAKS_OF_RULES = {"STYLE.md", "ci/tidy.py", "tests/house/test_tidy.py"}


@dataclass(frozen=True, order=True)
class Finding:
    """One broken rule at one place. A warning does not fail the check."""

    path: str
    line: int
    rule: str
    message: str
    warning: bool = False

    def __str__(self) -> str:
        level = "warning" if self.warning else "error"
        return f"{self.path}:{self.line}: {level}[{self.rule}]: {self.message}"


@dataclass(frozen=True)
class Source:
    """One file of the tree."""

    root: Path
    path: Path

    @cached_property
    def name(self) -> str:
        """The path as findings and exceptions write it."""
        return self.path.relative_to(self.root).as_posix()

    @cached_property
    def text(self) -> str:
        """The whole text."""
        return self.path.read_text()

    @cached_property
    def lines(self) -> list[str]:
        """The text, line by line."""
        return self.text.splitlines()

    @property
    def kind(self) -> str:
        """Which limits hold: rust, python or test."""
        parts = self.path.relative_to(self.root).parts
        stem = self.path.stem
        if "tests" in parts or "benches" in parts or stem.endswith("tests"):
            return "test"
        return "rust" if self.path.suffix == ".rs" else "python"


def sources(root: Path) -> Iterator[Source]:
    """All text files of the project, its top folders and the files beside them."""
    beside = [p for p in sorted(root.iterdir()) if p.is_file() and not p.name.startswith(".")]
    below = [p for top in TOP for p in sorted((root / top).rglob("*")) if p.is_file()]
    for path in (*beside, *below):
        inside = set(path.relative_to(root).parts[:-1])
        if path.suffix in TEXT and not inside & SKIPPED_FOLDERS and path.suffix != ".lock":
            yield Source(root, path)


def graded(
    source: Source, line: int, rule: str, found: tuple[int, str], limits: tuple[int, int]
) -> Iterator[Finding]:
    """A finding when a measured number is above the aim (warning) or the limit (error)."""
    number, what = found
    warn, fail = limits
    if number > warn:
        limit = fail if number > fail else warn
        message = f"{what}: {number}, more than {limit}"
        yield Finding(source.name, line, rule, message, warning=number <= fail)


def file_size(source: Source) -> Iterator[Finding]:
    """Lines of a file; a Rust file's own test module does not count."""
    if source.path.suffix in CODE:
        text = source.text.split("#[cfg(test)]\nmod tests {")[0]
        count = len(text.splitlines())
        yield from graded(source, 1, "file-size", (count, "lines"), FILE_LINES[source.kind])


def python_functions(source: Source) -> Iterator[Finding]:
    """Lines and arguments of functions; a docstring does not count, `self` and `cls` neither."""
    if source.path.suffix != ".py":
        return
    for node in ast.walk(ast.parse(source.text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        count = (node.end_lineno or node.lineno) - node.lineno + 1
        count -= len((ast.get_docstring(node, clean=False) or "").splitlines())
        yield from graded(
            source, node.lineno, "function-size", (count, f"{node.name} has lines"), FUNCTION_LINES
        )
        if source.kind == "test":
            continue  # fixtures are arguments
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = sum(a.arg not in {"self", "cls"} for a in arguments)
        yield from graded(
            source, node.lineno, "arguments", (count, f"{node.name} takes arguments"), ARGUMENTS
        )


def rust_sizes_allowed(source: Source) -> Iterator[Finding]:
    """Clippy's size lints are not switched off by the way."""
    if source.path.suffix == ".rs":
        for number, line in enumerate(source.lines, 1):
            if ALLOWED_SIZES.search(line):
                message = "split the function instead of allowing its size"
                yield Finding(source.name, number, "function-size", message)


def silenced(source: Source) -> Iterator[Finding]:
    """What switches off another check says why: `noqa: X1 - why`, `reason = "why"` in Rust."""
    found: list[int] = []
    if source.path.suffix in {".py", ".pyi", ""} and source.name not in SPEAKS_OF_RULES:
        for number, line in enumerate(source.lines, 1):
            _, *after = SILENCED_PYTHON.split(line)
            if after and not re.search(r"\w", after[-1]):
                found.append(number)
    if source.path.suffix == ".rs":
        for match in SILENCED_RUST.finditer(source.text):
            if "reason =" not in match[0]:
                found.append(source.text.count("\n", 0, match.start()) + 1)
    for number in found:
        yield Finding(source.name, number, "silenced", "say why this check is switched off")


def line_length(source: Source) -> Iterator[Finding]:
    """Columns of code; ruff does Python, rustfmt leaves long comments and strings."""
    if source.path.suffix in {".rs", ".sh", ""}:
        for number, line in enumerate(source.lines, 1):
            if len(line) > LINE_COLUMNS and source.path.name not in {"LICENSE"}:
                message = f"{len(line)} columns, more than {LINE_COLUMNS}"
                yield Finding(source.name, number, "line-length", message)


def names(source: Source) -> Iterator[Finding]:
    """No module, folder or type has a name that says nothing."""
    if source.path.suffix not in CODE:
        return
    for part in (*source.path.relative_to(source.root).parts[1:-1], source.path.stem):
        if part in BANNED_NAMES:
            message = f"`{part}` says nothing: name the module by what is in it"
            yield Finding(source.name, 1, "module-name", message)
    for number, line in enumerate(source.lines, 1):
        if match := BANNED_TYPE.match(line):
            message = f"`{match[1]}` says nothing: name the type by what it is"
            yield Finding(source.name, number, "type-name", message)


def words(source: Source) -> Iterator[Finding]:
    """No empty or historical phrase, no place of one machine, no TODO without its issue."""
    if source.name in SPEAKS_OF_RULES or source.path.name == "LICENSE":
        return
    for number, line in enumerate(source.lines, 1):
        if match := BANNED_PHRASES.search(line):
            yield Finding(source.name, number, "phrase", f"say it without `{match[0]}`")
        if TODO.search(line):
            yield Finding(source.name, number, "todo", "write TODO(#issue), or do it")


def folder_depth(source: Source) -> Iterator[Finding]:
    """Two folders below a package or a crate's src are enough."""
    parts = source.path.relative_to(source.root).parts
    above = {"llmd_ctl": 1, "crates": 3}.get(parts[0])
    if above is not None and len(parts) - 1 - above > FOLDER_DEPTH:
        message = f"more than {FOLDER_DEPTH} folders below the package or crate"
        yield Finding(source.name, 1, "folder-depth", message)


def opening(source: Source) -> Iterator[Finding]:
    """Modules open with what they are; a Rust unit test is introduced by what it tests."""
    if source.path.suffix == ".py" and not ast.get_docstring(ast.parse(source.text)):
        yield Finding(source.name, 1, "opening", "open the module with a docstring")
    is_rust = source.path.suffix == ".rs" and source.kind == "rust"
    if is_rust and not source.text.lstrip().startswith("//!"):
        yield Finding(source.name, 1, "opening", "open the module with `//!`")


RULES: tuple[Callable[[Source], Iterator[Finding]], ...] = (
    *(file_size, python_functions, rust_sizes_allowed, line_length, names),
    *(words, folder_depth, opening, silenced),
)


def dead_modules(tree: list[Source]) -> Iterator[Finding]:
    """Every module of the package is imported by it, or started by its dotted name."""
    package = [s for s in tree if s.name.startswith("llmd_ctl/")]
    named: dict[str, set[str]] = {s.name: set(dotted_names(s)) for s in package}
    for source in package:
        if source.path.suffix != ".py" or source.path.stem in {"__init__", "__main__"}:
            continue
        module = source.name.removesuffix(".py").replace("/", ".")
        if not any(module in names for other, names in named.items() if other != source.name):
            yield Finding(source.name, 1, "dead-module", f"nothing in llmd_ctl imports {module}")


def dotted_names(source: Source) -> Iterator[str]:
    """All dotted names that a module imports, or that it or a data file holds as a string."""
    if source.path.suffix == ".yaml":
        yield from re.findall(r"\bllmd_ctl(?:\.\w+)+", source.text)
    if source.path.suffix != ".py":
        return
    for node in ast.walk(ast.parse(source.text)):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases):
                yield module
                yield from (f"{module}.{alias.name}" for alias in aliases)
            case ast.Constant(value=str(text)) if text.startswith("llmd_ctl."):
                yield text.partition(":")[0]


def dead_rust_files(tree: list[Source]) -> Iterator[Finding]:
    """Every source file of a crate is declared by a `mod`: rustc does not see the others."""
    rust = [s for s in tree if s.path.suffix == ".rs" and "/src/" in s.name]
    for source in rust:
        stem = source.path.parent.name if source.path.stem == "mod" else source.path.stem
        if stem in {"lib", "main"} or "/src/bin/" in source.name:
            continue
        crate = source.name.split("/src/")[0]
        declared = re.compile(rf"^\s*(?:pub(?:\([^)]*\))? )?mod {stem}\s*[;{{]", re.MULTILINE)
        others = (s for s in rust if s.name.startswith(crate + "/") and s is not source)
        if not any(declared.search(other.text) for other in others):
            yield Finding(source.name, 1, "dead-module", f"no `mod {stem}` in {crate}")


def check(root: Path) -> list[Finding]:
    """All findings of a tree, without looking at exceptions."""
    tree = list(sources(root))
    found = [finding for source in tree for rule in RULES for finding in rule(source)]
    return sorted([*found, *dead_modules(tree), *dead_rust_files(tree)])


def without_exceptions(findings: list[Finding], listed: str, name: str) -> list[Finding]:
    """Drops what the exceptions allow; an exception without reason or use is itself a finding."""
    kept, used = findings, []
    for number, line in enumerate(listed.splitlines(), 1):
        entry, _, reason = line.partition("#")
        if not entry.strip():
            continue
        rule, _, path = entry.strip().partition(" ")
        allowed = [f for f in findings if (f.rule, f.path) == (rule, path.strip())]
        if not reason.strip():
            used.append(Finding(name, number, "exception", "give a reason: RULE PATH  # reason"))
        elif not allowed:
            used.append(Finding(name, number, "exception", "is not needed any more, remove it"))
        kept = [f for f in kept if f not in allowed]
    return [*kept, *used]


def main() -> None:
    """Prints the findings; exit code 1 when one is an error."""
    parser = argparse.ArgumentParser(prog="ci/tidy.py", description="Checks sizes, names, words.")
    parser.add_argument("--warn", action="store_true", help="show what is above the aim as well")
    show_warnings = parser.parse_args().warn
    exceptions = ROOT / "ci" / "tidy-exceptions.txt"
    name = exceptions.relative_to(ROOT).as_posix()
    findings = without_exceptions(check(ROOT), exceptions.read_text(), name)
    for finding in findings:
        if show_warnings or not finding.warning:
            print(finding)
    sys.exit(1 if any(not finding.warning for finding in findings) else 0)


if __name__ == "__main__":
    main()
