"""Checks the arrows between crates, the purity of the pure ones, and who may import _native.

`python3 ci/layers.py`, a step of `make check`. Cargo forbids cycles but not a wrong arrow, clippy
sees one crate at a time, and import-linter does not see the compiled module: what they cannot see
is checked here. import-linter's contracts are in pyproject.toml. Prints one line a finding.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# crate -> the workspace crates it may name in [dependencies]
ARROWS: dict[str, set[str]] = {
    "llmd-types": set(),
    "llmd-perf": {"llmd-types"},
    "llmd-sched": {"llmd-perf", "llmd-types"},
    "llmd-discovery": {"llmd-types"},
    "llmd-router": {"llmd-discovery", "llmd-perf", "llmd-sched", "llmd-types"},
    "llmd-sim": {"llmd-perf", "llmd-sched", "llmd-types"},
    "llmd-engine": {"llmd-perf", "llmd-sched", "llmd-sim", "llmd-types"},
    "llmd-py": {"llmd-engine", "llmd-perf", "llmd-router", "llmd-sim", "llmd-types"},
    "llmd-testkit": {"llmd-types"},
    "llmd-bench": set(),
}
DEV_ONLY = {"llmd-testkit", "llmd-bench"}
# pure crate -> the crates from outside that it may use
PURE: dict[str, set[str]] = {
    "llmd-types": {"serde"},
    "llmd-perf": set(),
    "llmd-sched": {"hashbrown", "smallvec", "xxhash-rust"},
}
IMPURE_PATHS = {
    "std::time": "time is an argument, in whole microseconds",
    "std::env": "configuration is an argument",
    "std::fs": "no I/O",
    "std::io": "no I/O",
    "std::net": "no I/O",
    "std::os": "no I/O",
    "std::process": "no I/O",
    "std::thread": "one writer, no threads",
    "std::sync::mpsc": "one writer, no threads",
    "std::collections::HashMap": "its order is random",
    "std::collections::HashSet": "its order is random",
    "std::collections::hash_map": "its order is random",
    "std::hash::RandomState": "random seed",
    "tokio": "no runtime",
    "rand": "randomness is an argument",
}
# what only one file of the router may do: (pattern, file, why)
ROUTER_ONLY = (
    (re.compile(r"\b(?:tokio::(?:task::)?)spawn\("), "tasks.rs", "tasks are started in tasks.rs"),
    (re.compile(r"\bunbounded_channel\b"), None, "every channel has a bound"),
)
NATIVE_USERS = {"perf", "router", "sim"}
USE = re.compile(r"\buse\s+([^;]+);")
COMMENT = re.compile(r"//[^\n]*")


def cargo_metadata(root: Path) -> dict[str, Any]:
    """The workspace's crates and what they name, without resolving anything."""
    argv = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    done = subprocess.run(argv, cwd=root, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ci/layers: {done.stderr.strip()}")
    metadata: dict[str, Any] = json.loads(done.stdout)
    return metadata


def check_arrows(metadata: dict[str, Any]) -> Iterator[str]:
    """Every crate is known, and points only where it may."""
    names = {package["name"] for package in metadata["packages"]}
    for name in sorted(names ^ ARROWS.keys()):
        yield f"{name}: crates and the table ARROWS in ci/layers.py must be the same"
    for package in metadata["packages"]:
        name = package["name"]
        for dependency in package["dependencies"]:
            target, is_dev = dependency["name"], dependency["kind"] == "dev"
            if is_dev:
                continue
            if target in DEV_ONLY:
                yield f"{name}: {target} is for tests only, make it a dev-dependency"
            elif target in names and target not in ARROWS.get(name, names):
                yield f"{name}: must not depend on {target}"
            elif target not in names and name in PURE and target not in PURE[name]:
                yield f"{name}: is pure and must not depend on {target}"


def use_paths(tree: str) -> Iterator[str]:
    """The paths of one `use` statement: `std::{fmt, time::Instant}` gives two."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        yield re.sub(r"\s+as\s+\w+$", "", tree)
        return
    depth, start = 0, 0
    inner = rest.rpartition("}")[0] + ","
    for position, character in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            part = inner[start:position].strip()
            start = position + 1
            if part:
                yield from (head + path for path in use_paths(part))


def named_paths(source: str) -> Iterator[tuple[int, str]]:
    """(line, path) of everything a Rust source imports or spells out."""
    source = COMMENT.sub("", source)
    for match in USE.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        yield from ((line, path) for path in use_paths(match[1]))
    for number, text in enumerate(source.splitlines(), 1):
        yield from ((number, path) for path in re.findall(r"(?<![\w:])\w+(?:::\w+)+", text))


def is_test(path: Path) -> bool:
    """Whether a Rust source is only compiled for tests."""
    return path.stem.endswith("tests") or "tests" in path.parts or "benches" in path.parts


def rust_sources(root: Path, crate: str) -> Iterator[tuple[Path, str]]:
    """The crate's sources without its tests."""
    for path in sorted((root / "crates" / crate / "src").rglob("*.rs")):
        if not is_test(path.relative_to(root)):
            yield path, path.read_text().split("#[cfg(test)]\nmod tests {")[0]


def check_purity(root: Path) -> Iterator[str]:
    """No source of a pure crate names a clock, I/O, a thread or a random order."""
    for crate in PURE:
        for path, source in rust_sources(root, crate):
            for line, named in sorted(set(named_paths(source))):
                for impure, why in IMPURE_PATHS.items():
                    if named == impure or named.startswith(impure + "::"):
                        yield f"{path.relative_to(root)}:{line}: {named} in a pure crate: {why}"


def check_clippy_files(root: Path) -> Iterator[str]:
    """The pure crates ban the same things, and keep the thresholds of the root file."""
    shared = tomllib.loads((root / "clippy.toml").read_text())
    files = {crate: root / "crates" / crate / "clippy.toml" for crate in PURE}
    texts = {c: tomllib.loads(p.read_text()) if p.exists() else {} for c, p in files.items()}
    wanted = texts["llmd-sched"]
    for crate, found in texts.items():
        for key in ("disallowed-types", "disallowed-methods"):
            if not found.get(key) or found[key] != wanted.get(key):
                yield f"crates/{crate}/clippy.toml: {key} must be as in crates/llmd-sched"
        for key, value in shared.items():
            if found.get(key) != value:
                yield f"crates/{crate}/clippy.toml: {key} must be as in the root clippy.toml"


def check_router(root: Path) -> Iterator[str]:
    """Tasks start in one file, and no channel is unbounded."""
    for path, source in rust_sources(root, "llmd-router"):
        for number, text in enumerate(COMMENT.sub("", source).splitlines(), 1):
            for pattern, only, why in ROUTER_ONLY:
                if path.name != only and pattern.search(text):
                    yield f"{path.relative_to(root)}:{number}: {why}"


def imports_native(node: ast.AST) -> bool:
    """Whether a statement imports llmd_ctl._native, in any spelling."""
    match node:
        case ast.Import(names=names):
            return any(a.name.startswith("llmd_ctl._native") for a in names)
        case ast.ImportFrom(module=module, names=names):
            from_package = module == "llmd_ctl" and any(a.name == "_native" for a in names)
            return from_package or (module or "").startswith("llmd_ctl._native")
    return False


def check_native(root: Path) -> Iterator[str]:
    """Only perf, router and sim know the compiled module."""
    package = root / "llmd_ctl"
    for path in sorted(package.rglob("*.py")):
        part = path.relative_to(package).parts[0]
        if part in NATIVE_USERS:
            continue
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if imports_native(node):
                where = f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}"
                yield f"{where}: only {', '.join(sorted(NATIVE_USERS))} may import _native"


def check_all(root: Path) -> list[str]:
    """All findings of a tree."""
    return [
        *check_arrows(cargo_metadata(root)),
        *check_purity(root),
        *check_clippy_files(root),
        *check_router(root),
        *check_native(root),
    ]


def main() -> None:
    """Prints the findings."""
    findings = check_all(ROOT)
    print(*findings, sep="\n", end="\n" if findings else "")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
