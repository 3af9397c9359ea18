"""ci/layers.py, the clippy files and import-linter: each rule sees its planted violation."""

import copy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ci import layers


@pytest.fixture(scope="session")
def metadata(repo_root: Path) -> dict[str, Any]:
    return layers.cargo_metadata(repo_root)


@pytest.fixture
def tree(tmp_path: Path, repo_root: Path) -> Path:
    """A copy of what the rules read."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    for name in ("crates", "llmd_ctl"):
        shutil.copytree(repo_root / name, tmp_path / name, ignore=ignored)
    for name in ("clippy.toml", "pyproject.toml"):
        shutil.copy(repo_root / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def skeleton(tmp_path: Path, repo_root: Path) -> Path:
    """The real contracts over a package of empty layers."""
    shutil.copy(repo_root / "pyproject.toml", tmp_path)
    (contract,) = (c for c in layer_contracts(repo_root) if c["type"] == "layers")
    for name in " | ".join(contract["layers"]).split(" | "):
        module = f"{name}.py" if name in {"errors", "__main__"} else f"{name}/__init__.py"
        plant(tmp_path / "llmd_ctl" / module, "")
    plant(tmp_path / "llmd_ctl" / "__init__.py", "")
    return tmp_path


def layer_contracts(root: Path) -> list[dict[str, Any]]:
    """import-linter's contracts."""
    pyproject = tomllib.loads((root / "pyproject.toml").read_text())
    contracts: list[dict[str, Any]] = pyproject["tool"]["importlinter"]["contracts"]
    return contracts


def plant(path: Path, text: str) -> None:
    """Appends to a file, or makes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("\n" + text + "\n")


@pytest.mark.slow  # ci/lint asks the same
def test_this_tree_keeps_its_layers(repo_root: Path) -> None:
    assert layers.check_all(repo_root) == []


@pytest.mark.parametrize(
    ("crate", "dependency", "kind", "finding"),
    [
        ("llmd-sched", "llmd-router", None, "must not depend on llmd-router"),
        ("llmd-sim", "llmd-router", None, "must not depend on llmd-router"),
        ("llmd-router", "llmd-sim", "build", "must not depend on llmd-sim"),
        ("llmd-router", "llmd-testkit", None, "is for tests only"),
        ("llmd-sched", "tokio", None, "is pure and must not depend on tokio"),
        ("llmd-types", "serde_json", None, "is pure and must not depend on serde_json"),
        ("llmd-perf", "serde", None, "is pure and must not depend on serde"),
    ],
)
def test_a_wrong_arrow_is_found(
    metadata: dict[str, Any], crate: str, dependency: str, kind: str | None, finding: str
) -> None:
    planted = copy.deepcopy(metadata)
    package = next(p for p in planted["packages"] if p["name"] == crate)
    package["dependencies"].append({"name": dependency, "kind": kind})
    found = list(layers.check_arrows(planted))
    assert len(found) == 1
    assert found[0].startswith(crate)
    assert finding in found[0]


def test_a_dev_dependency_on_the_testkit_is_fine(metadata: dict[str, Any]) -> None:
    planted = copy.deepcopy(metadata)
    package = next(p for p in planted["packages"] if p["name"] == "llmd-router")
    package["dependencies"].append({"name": "llmd-testkit", "kind": "dev"})
    assert list(layers.check_arrows(planted)) == []


def test_an_unknown_crate_is_found(metadata: dict[str, Any]) -> None:
    planted = copy.deepcopy(metadata)
    planted["packages"].append({"name": "llmd-new", "dependencies": []})
    assert [f.split(":")[0] for f in layers.check_arrows(planted)] == ["llmd-new"]


@pytest.mark.parametrize(
    "source",
    [
        "use std::time::Instant;",
        "use std::{fmt, time::{Duration, SystemTime as Clock}};",
        "fn f() { let _ = std::env::var(name); }",
        "use std::collections::{BTreeMap, HashMap};",
        "use std::fs;",
        "use std::thread;",
        "fn f() { tokio::spawn(g()); }",
        "use rand::Rng;",
    ],
)
@pytest.mark.parametrize("crate", layers.PURE)
def test_an_impure_source_is_found(tree: Path, crate: str, source: str) -> None:
    plant(tree / "crates" / crate / "src" / "planted.rs", source)
    found = list(layers.check_purity(tree))
    assert found
    assert all(f.startswith(f"crates/{crate}/src/planted.rs:2:") for f in found)


def test_comments_tests_and_pure_imports_may_say_anything(tree: Path) -> None:
    folder = tree / "crates" / "llmd-sched" / "src"
    plant(folder / "planted.rs", "// no std::time::Instant\nuse std::{fmt, sync::Arc};")
    plant(folder / "planted.rs", "#[cfg(test)]\nmod tests {\n    use std::fs;\n}")
    plant(folder / "planted" / "tests.rs", "use std::time::Instant;")
    assert list(layers.check_purity(tree)) == []


def test_a_clippy_file_that_bans_less_is_found(tree: Path) -> None:
    path = tree / "crates" / "llmd-perf" / "clippy.toml"
    path.write_text(path.read_text().replace("std::time::Instant::now", "std::time::Instant::new"))
    assert len(list(layers.check_clippy_files(tree))) == 1
    path.unlink()
    assert "too-many-lines-threshold" in " ".join(layers.check_clippy_files(tree))


def test_tasks_and_channels_of_the_router_are_watched(tree: Path) -> None:
    folder = tree / "crates" / "llmd-router" / "src"
    plant(folder / "planted.rs", "fn f() { tokio::spawn(g()); let c = unbounded_channel(); }")
    assert len(list(layers.check_router(tree))) == 2


@pytest.mark.parametrize(
    "source",
    [
        "from llmd_ctl import _native",
        "from llmd_ctl._native import perf",
        "import llmd_ctl._native",
        "def f():\n    from llmd_ctl import _native",
    ],
)
def test_only_three_packages_import_the_compiled_module(tree: Path, source: str) -> None:
    for package in ("plan", "perf", "cli"):
        plant(tree / "llmd_ctl" / package / "planted.py", source)
    found = [f.split(":")[0] for f in layers.check_native(tree)]
    assert found == ["llmd_ctl/cli/planted.py", "llmd_ctl/plan/planted.py"]


@pytest.mark.parametrize(
    ("path", "source", "broken"),
    [
        ("spec/planted.py", "from llmd_ctl import plan", "Layers"),
        ("router/planted.py", "from llmd_ctl import sim", "Layers"),
        ("surprise/__init__.py", '"""Not listed."""', "Layers"),
        ("plan/planted.py", "import subprocess", "Plan and render do no I/O"),
        ("render/planted.py", "from pathlib import Path", "Plan and render do no I/O"),
        ("errors.py", "", None),
    ],
)
def test_import_linter_finds_a_wrong_import(
    skeleton: Path, path: str, source: str, broken: str | None
) -> None:
    plant(skeleton / "llmd_ctl" / path, source)
    program = Path(sys.executable).with_name("lint-imports")
    argv = [str(program), "--no-logo", "--no-cache"]
    done = subprocess.run(argv, cwd=skeleton, check=False, capture_output=True, text=True)
    assert (done.returncode != 0) == (broken is not None), done.stdout
    if broken:
        assert f"{broken} BROKEN" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "pub fn f() { let _ = std::time::Instant::now(); }",
        "pub type T = std::collections::HashMap<u8, u8>;",
        'pub fn f() -> Option<String> { std::env::var("A").ok() }',
        "pub fn f() {}",
    ],
)
@pytest.mark.parametrize("crate", layers.PURE)
def test_clippy_keeps_a_crate_pure(
    tmp_path: Path, repo_root: Path, cargo: str, crate: str, source: str
) -> None:
    shutil.copy(repo_root / "crates" / crate / "clippy.toml", tmp_path)
    manifest = '[package]\nname = "planted"\nedition = "2024"\n[workspace]\n'
    (tmp_path / "Cargo.toml").write_text(manifest)
    plant(tmp_path / "src" / "lib.rs", source)
    argv = [cargo, "clippy", "--offline", "--quiet", "--", "-D", "warnings"]
    done = subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode == 0) == (source == "pub fn f() {}"), done.stderr
    if done.returncode:
        assert "disallowed" in done.stderr
