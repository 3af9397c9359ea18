"""ci/tidy.py: each rule sees its planted violation, and lets good code pass."""

from pathlib import Path

import pytest

from ci import tidy

DOC = '"""What it is."""\n'
RUST = "//! What it is.\n"


def findings(root: Path, files: dict[str, str]) -> list[tuple[str, str, bool]]:
    """(rule, path, whether it is only a warning) of a tree made of these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [(f.rule, f.path, f.warning) for f in tidy.check(root)]


def function(lines: int, arguments: str = "") -> str:
    """A Python function of so many lines."""
    return f"def long({arguments}):\n" + "    pass\n" * (lines - 1)


CLEAN = {
    "llmd_ctl/__init__.py": DOC + "from llmd_ctl.spec import fleet, silent\n",
    "llmd_ctl/spec/fleet.py": DOC + function(50, "a, b, c, d, e, f"),
    "llmd_ctl/spec/silent.py": DOC + "x = 1  # noqa: E501 - why\ny = x  # type: ignore[a]  # why\n",
    "crates/llmd-x/src/lib.rs": RUST + "mod pick;\nmod pick_tests;\n",
    "crates/llmd-x/src/pick.rs": RUST + '#[allow(dead_code, reason = "why")]\n' + "\n" * 299,
    "crates/llmd-x/src/pick_tests.rs": RUST + "\n" * 599,
    "guides/start.md": "Start with this. TODO(#12) is an issue.\n",
}

PLANTED = {
    "long Rust file": ("crates/x/src/lib.rs", RUST + "\n" * 600, "file-size"),
    "long Python file": ("ci/long.py", DOC + "\n" * 500, "file-size"),
    "long test file": ("tests/test_long.py", DOC + "\n" * 1000, "file-size"),
    "long function": ("ci/long.py", DOC + function(71), "function-size"),
    "long async function": ("ci/long.py", DOC + "async " + function(71), "function-size"),
    "many arguments": (
        "ci/many.py",
        DOC + function(2, "a, b, c, d, e, f, g, *, h, i"),
        "arguments",
    ),
    "allowed function size": (
        "crates/x/src/lib.rs",
        RUST + "#[allow(clippy::too_many_lines)]\nfn f() {}\n",
        "function-size",
    ),
    "noqa without a reason": ("ci/good.py", DOC + "x = 1  # noqa: E501, D1\n", "silenced"),
    "bare noqa": ("ci/good.py", DOC + "x = 1  # noqa\n", "silenced"),
    "noqa of a file": ("ci/good.py", DOC + "# ruff: noqa: D1\n", "silenced"),
    "type: ignore without a reason": (
        "ci/good.py",
        DOC + "x = 1  # type: ignore[misc]  # noqa: E501\n",
        "silenced",
    ),
    "allow without a reason": (
        "crates/x/src/lib.rs",
        RUST + "#[cfg_attr(test, allow(dead_code))]\nfn f() {}\n",
        "silenced",
    ),
    "expect without a reason": (
        "crates/x/src/lib.rs",
        RUST + "#![expect(\n    dead_code,\n    clippy::panic\n)]\n",
        "silenced",
    ),
    "long line in Rust": ("crates/x/src/lib.rs", RUST + "// " + "x" * 98, "line-length"),
    "long line in a script": ("ci/step", "# " + "x" * 99, "line-length"),
    "module named utils": ("tests/utils.py", DOC, "module-name"),
    "Rust module named types": ("crates/x/src/types.rs", RUST, "module-name"),
    "folder named common": ("llmd_ctl/common/__init__.py", DOC, "module-name"),
    "class named Manager": ("ci/good.py", DOC + "class PoolManager:\n    pass\n", "type-name"),
    "struct named Helper": ("crates/x/src/lib.rs", RUST + "pub struct Helper;\n", "type-name"),
    "empty phrase": ("README.md", "Blazingly fast.\n", "phrase"),
    "history": ("ci/good.py", DOC + "# This was renamed in spring.\n", "phrase"),
    "place of one machine": ("docs/a.md", "See /root/notes.\n", "phrase"),
    "TODO without issue": ("ci/good.py", DOC + "# TODO: later\n", "todo"),
    "deep folder": ("llmd_ctl/a/b/c/__init__.py", DOC, "folder-depth"),
    "deep folder in a crate": ("crates/x/src/a/b/c/d.rs", RUST, "folder-depth"),
    "Python module without opening": ("ci/bare.py", "X = 1\n", "opening"),
    "Rust module without opening": ("crates/x/src/lib.rs", "fn f() {}\n", "opening"),
    "dead Python module": ("llmd_ctl/plan/dead.py", DOC, "dead-module"),
    "dead Rust file": ("crates/x/src/dead.rs", RUST, "dead-module"),
}


def test_clean_code_has_no_findings(tmp_path: Path) -> None:
    assert findings(tmp_path, CLEAN) == []


@pytest.mark.parametrize(("path", "text", "rule"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_is_found(tmp_path: Path, path: str, text: str, rule: str) -> None:
    assert (rule, path, False) in findings(tmp_path, {path: text})


def test_above_the_aim_is_only_a_warning(tmp_path: Path) -> None:
    found = findings(tmp_path, {"ci/long.py": DOC + function(51) + "\n" * 300})
    assert found == [("file-size", "ci/long.py", True), ("function-size", "ci/long.py", True)]


def test_a_docstring_and_a_test_module_do_not_count_as_length(tmp_path: Path) -> None:
    documented = 'def long():\n    """' + "words\n" * 60 + '    """\n' + "    pass\n" * 20
    tested = RUST + "\n" * 350 + "#[cfg(test)]\nmod tests {\n" + "\n" * 400 + "}\n"
    files = {"ci/long.py": DOC + documented, "crates/x/src/lib.rs": tested}
    assert findings(tmp_path, files) == []


def test_a_module_started_by_its_dotted_name_is_not_dead(tmp_path: Path) -> None:
    files = {
        "llmd_ctl/__init__.py": DOC + 'ARGV = ["-m", "llmd_ctl.apply.server"]\n',
        "llmd_ctl/apply/server.py": DOC,
        "llmd_ctl/profiles/sim.yaml": "launch: [-m, llmd_ctl.sim.engine]\n",
        "llmd_ctl/sim/engine.py": DOC,
    }
    assert findings(tmp_path, files) == []


def test_an_exception_needs_a_reason_and_a_use() -> None:
    found = [tidy.Finding("ci/a.py", 1, "file-size", "lines: 501, more than 500")]

    def rules(listed: str) -> list[str]:
        return [f.rule for f in tidy.without_exceptions(found, listed, "list")]

    assert rules("# nothing\n") == ["file-size"]
    assert rules("file-size ci/a.py  # one table, split it and it is harder to read\n") == []
    assert rules("file-size ci/a.py\n") == ["exception"]
    assert rules("file-size ci/b.py  # gone\n") == ["file-size", "exception"]


@pytest.mark.slow  # ci/lint asks the same
def test_this_tree_is_tidy(repo_root: Path) -> None:
    listed = (repo_root / "ci" / "tidy-exceptions.txt").read_text()
    found = tidy.without_exceptions(tidy.check(repo_root), listed, "ci/tidy-exceptions.txt")
    assert [str(f) for f in found if not f.warning] == []
