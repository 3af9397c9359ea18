"""The images: each Containerfile against what it promises, the profiles, and the matrix of tests.

Nothing is built here. The files are read by a parser of our own and by the shell (`sh -n`); the
linters of their readers are in tests/e2e/render.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci import images
from ci.images import Recipe
from llmd_ctl.errors import SpecInvalid
from llmd_ctl.plan.placement import OWN_USER, own_image
from llmd_ctl.profiles import Catalog

NAMES = ("amd", "gaudi", "nvidia", "tpu")
ROUTER = images.ROUTER
OF_VENDORS = {"nvidia": "nvidia", "amd": "amd", "google-tpu": "tpu", "intel-gaudi": "gaudi"}
KNOWN = {"ARG", "FROM", "RUN", "ENV", "USER", "ENTRYPOINT"}
ROOT = images.ROOT
CATALOG = Catalog.load()
ACCELERATORS = CATALOG.names("AcceleratorProfile")


def instructions(name: str) -> list[tuple[str, str]]:
    """What a Containerfile says: instruction and the rest, continued lines joined."""
    lines = (images.FOLDER / name / "Containerfile").read_text().splitlines()
    joined = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    found = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(word, rest.strip()) for word, _, rest in found]


def all_of(name: str, word: str) -> list[str]:
    return [rest for found, rest in instructions(name) if found == word]


def commands(name: str) -> Iterator[str]:
    """The single commands of all RUN instructions."""
    for body in all_of(name, "RUN"):
        yield from (command.strip() for command in body.split("&&"))


def is_sound_shell(text: str) -> bool:
    return subprocess.run(["sh", "-n", "-c", text], check=False).returncode == 0


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def recipe(name: str) -> Recipe:
    return images.recipe(name)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    document = yaml.safe_load(images.FILE.read_text())
    assert set(document) == {"fail-fast", "matrix"}
    found: list[dict[str, Any]] = document["matrix"]["include"]
    return found


# --- Containerfiles ---


def test_every_folder_is_an_image_that_is_whole() -> None:
    folders = {path.name for path in images.FOLDER.iterdir() if path.is_dir()}
    assert folders == {*NAMES, ROUTER}
    for folder in folders:
        files = {path.name for path in (images.FOLDER / folder).iterdir()}
        assert files == {"Containerfile", "README.md", "image.yaml", "lock.yaml"}


def test_it_starts_from_what_it_promises_and_the_lock_knows(name: str, recipe: Recipe) -> None:
    assert {word for word, _ in instructions(name)} <= KNOWN
    assert instructions(name)[:2] == [("ARG", f"BASE={recipe.base}"), ("FROM", "${BASE}")]
    assert set(images.lock(name)) == {recipe.base}
    for digest in images.lock(name).values():
        assert digest is None or re.fullmatch(r"sha256:[0-9a-f]{64}", digest)


def test_a_tag_that_moves_stands_behind_a_path_with_its_versions(recipe: Recipe) -> None:
    path, _, tag = recipe.base.rpartition(":")
    assert tag
    assert tag != "latest" or re.search(r"/\d+\.\d+\.\d+/", path)


def test_it_holds_the_versions_that_it_promises(name: str, recipe: Recipe) -> None:
    told = dict(rest.split("=", 1) for rest in all_of(name, "ARG"))
    assert told.get("NIXL") == recipe.contains.get("nixl")
    assert told.get("VLLM", recipe.version) == recipe.version
    unused = [arg for arg in told if not re.search(rf"\$\{{?{arg}\b", str(instructions(name)))]
    assert unused == []


def test_kv_is_handed_over_by_one_version_in_all_images() -> None:
    versions = {images.recipe(name).contains.get("nixl") for name in NAMES} - {None}
    assert versions == {"1.5.0"}


def test_it_runs_as_the_user_that_it_promises(name: str, recipe: Recipe) -> None:
    assert all_of(name, "USER")[-1] == recipe.user
    assert recipe.user_why


def test_its_caches_are_made_and_found_by_the_engine(name: str, recipe: Recipe) -> None:
    (made,) = (command for command in commands(name) if command.startswith("mkdir"))
    assert set(recipe.caches) == set(re.findall(r"/cache/\w+", made))
    told = " ".join(all_of(name, "ENV"))
    for cache in recipe.caches:
        assert re.search(rf"\w+={cache}(\s|$)", told), cache
    assert any(re.match(r"chmod -R g=u /cache\b", command) for command in commands(name))


def test_the_command_of_a_plan_is_run_as_it_stands(name: str) -> None:
    assert instructions(name)[-1] == ("ENTRYPOINT", "[]")


def test_what_it_installs_is_pinned_and_leaves_nothing_behind(name: str) -> None:
    for command in commands(name):
        if "apt-get install" in command:
            assert "--no-install-recommends" in command
            assert "rm -rf /var/lib/apt/lists/*" in commands(name)
        if "pip install" in command:
            assert "--no-cache-dir" in command
            asked = [word.strip('"') for word in command.split("install", 1)[1].split()]
            wanted = [word for word in asked if not word.startswith("-")]
            assert wanted
            assert all("==" in word or word.startswith("/src/") for word in wanted), command
        if command.startswith("git clone"):
            assert "--branch" in command


def test_its_commands_are_sound_shell(name: str, recipe: Recipe) -> None:
    for text in (*all_of(name, "RUN"), *(test.run for test in recipe.smoke)):
        assert is_sound_shell(text), text
    assert not is_sound_shell("if then")


def test_what_it_promises_is_asked_by_a_smoke_test(recipe: Recipe) -> None:
    by_name = {test.name: test for test in recipe.smoke}
    assert len(by_name) == len(recipe.smoke)
    assert recipe.version in by_name["engine"].run
    assert {name for name, test in by_name.items() if test.device} == {"device"}
    assert ("transfer" in by_name) == bool(recipe.contains)
    if recipe.contains:
        assert recipe.contains["nixl"] in by_name["transfer"].run


def test_a_promise_is_as_strict_as_a_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (images.FOLDER / "tpu" / "image.yaml").read_text()
    (tmp_path / "tpu").mkdir()
    (tmp_path / "tpu" / "image.yaml").write_text(text.replace("  user:", "  usr:"))
    monkeypatch.setattr(images, "FOLDER", tmp_path)
    with pytest.raises(SpecInvalid) as raised:
        images.recipe("tpu")
    assert {problem.code for problem in raised.value.problems} == {"LC2002", "LC2003"}


def test_the_routers_image_holds_our_programs_and_runs_as_who_is_rendered() -> None:
    made = images.recipe(ROUTER)
    told = dict(rest.split("=", 1) for rest in all_of(ROUTER, "ARG"))
    assert told == {"BUILD": made.build, "BASE": made.base}
    assert images.bases(ROUTER) == tuple(images.lock(ROUTER)) == (made.build, made.base)
    assert all_of(ROUTER, "FROM") == ["${BUILD} AS build", "${BASE}"]
    manifests = [tomllib.loads(path.read_text()) for path in ROOT.glob("crates/*/Cargo.toml")]
    packages = {manifest["package"]["name"] for manifest in manifests}
    *sources, last = all_of(ROUTER, "COPY")
    programs = re.findall(r"release/([\w-]+)", last)
    assert programs == re.findall(r"--package ([\w-]+)", " ".join(commands(ROUTER)))
    assert set(programs) <= packages
    assert all((ROOT / "crates" / name / "src" / "main.rs").exists() for name in programs)
    assert all((ROOT / word).exists() for source in sources for word in source.split()[:-1])
    toolchain = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    assert told["BUILD"].startswith(f"rust:{toolchain['rust-version']}-")
    assert own_image().reference.endswith(f"/router:{made.version}")
    assert all_of(ROUTER, "USER")[-1] == made.user
    assert made.user.partition(":")[0] == OWN_USER == own_image().user
    assert made.user_why
    assert instructions(ROUTER)[-1] == ("ENTRYPOINT", "[]")
    assert [(test.run, test.device) for test in made.smoke] == [
        (f"{name} --version", False) for name in programs
    ]
    assert not made.shell  # so each is a program and its words


# --- profiles ---


def test_every_profiles_image_is_a_folder_here_that_goes_with_it() -> None:
    used = set()
    for name in ACCELERATORS:
        spec = CATALOG.accelerator(name).spec
        for engine, on in spec.engines.items():
            for version, image in on.images.items():
                if not image.recipe:
                    continue
                used.add(image.recipe)
                made = images.recipe(image.recipe)
                assert (made.engine, made.version) == (engine, version), name
                assert image.reference in {None, made.base}, name
                assert set(spec.host_architectures) <= set(made.architectures), name
    assert used == set(NAMES)


def test_what_a_vendors_accelerator_runs_is_in_the_vendors_folder() -> None:
    newest = CATALOG.engine("vllm").spec.version
    for name in ACCELERATORS:
        for prefix, folder in OF_VENDORS.items():
            if name.startswith(f"{prefix}-"):
                image = images.chosen(CATALOG.accelerator(name).spec.engines["vllm"], newest)
                assert image is not None, name
                assert image.recipe == folder, name


def test_what_a_plan_runs_has_an_image_or_is_known_to_have_none() -> None:
    without = {
        name
        for name in ACCELERATORS
        for on in [CATALOG.accelerator(name).spec.engines["vllm"]]
        if not on.not_yet and images.chosen(on, CATALOG.engine("vllm").spec.version) is None
    }
    assert without == set()


# --- the matrix ---


def test_the_matrix_is_the_one_that_is_generated() -> None:
    assert images.FILE.read_text() == images.text(), "run `ci/generate`, or ci/images.py alone"


def test_the_matrix_is_one_that_github_actions_takes(rows: list[dict[str, Any]]) -> None:
    assert 0 < len(rows) <= 256
    keys = {tuple(row) for row in rows}
    assert len(keys) == 1
    for row in rows:
        for value in row.values():
            words = value if isinstance(value, list) else [value]
            assert all(isinstance(word, str | bool) for word in words)
            assert "${{" not in str(value)
        assert is_sound_shell(row["run"])
    found = [(row["accelerator"], row["platform"], row["smoke"]) for row in rows]
    assert len(set(found)) == len(found)


def test_every_accelerator_is_in_the_matrix_or_said_to_be_left_out(
    rows: list[dict[str, Any]],
) -> None:
    (left,) = re.findall(r"^# Left out, .*: (.*)\.$", images.FILE.read_text(), re.MULTILINE)
    there = {row["accelerator"] for row in rows} - {images.NO_ACCELERATOR}
    assert there | set(left.split(", ")) == set(ACCELERATORS)
    assert not there & set(left.split(", "))


def test_a_row_runs_where_it_can(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        name, (system, architecture) = row["accelerator"], row["platform"].split("/")
        assert system == "linux"
        if name == images.NO_ACCELERATOR:
            assert architecture in images.recipe(ROUTER).architectures
        else:
            assert architecture == CATALOG.accelerator(name).spec.host_architectures[0]
        if row["smoke"] == "device":
            assert row["runner"] == ["self-hosted", name]
        else:
            assert row["runner"] == [images.RUNNERS[architecture]]
        assert (row["smoke"] == "device") == bool(row["options"])
    arm = {row["accelerator"] for row in rows if row["platform"] == "linux/arm64"}
    assert arm == {"nvidia-gh200", "nvidia-gb200", "nvidia-gb300", "cpu-arm", images.NO_ACCELERATOR}


def test_a_row_builds_what_the_lock_says(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        named = dict(re.findall(r"--build-arg=(\w+)=(\S+)", row["build"]))
        assert row["pinned"] == all("@sha256:" in each for each in (row["image"], *named.values()))
        assert bool(row["context"]) == bool(row["containerfile"]) == bool(named)
        if not named:
            continue
        folder = Path(row["containerfile"]).parent.name
        assert row["containerfile"] == f"images/{folder}/Containerfile"
        assert row["context"] == ("." if folder == ROUTER else f"images/{folder}")
        assert row["shell"] == images.recipe(folder).shell
        assert named["BASE"] == row["image"]
        told = dict(rest.split("=", 1) for rest in all_of(folder, "ARG"))
        assert {key: value.partition("@")[0] for key, value in named.items()} == {
            key: told[key] for key in named
        }


def test_a_digest_of_a_lock_is_what_is_built_on(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = "sha256:" + "1" * 64
    monkeypatch.setattr(images, "lock", lambda name: dict.fromkeys(images.bases(name), digest))
    made = images.recipe(ROUTER)
    (row, *_) = images.router_rows()
    assert row["pinned"]
    assert row["build"] == (
        f"--build-arg=BASE={made.base}@{digest} --build-arg=BUILD={made.build}@{digest}"
    )


def test_a_container_gets_its_devices_as_the_profile_has_it(rows: list[dict[str, Any]]) -> None:
    options = {row["accelerator"]: row["options"] for row in rows if row["smoke"] == "device"}
    assert options["nvidia-h100"] == "--gpus=all"
    assert options["google-tpu-v6e"] == "--privileged"
    assert options["intel-gaudi3"] == "--cap-add=SYS_NICE --ipc=host --runtime=habana"
    assert options["amd-mi300x"] == (
        "--device=/dev/kfd --device=/dev/dri --group-add=video --group-add=render "
        "--cap-add=SYS_PTRACE --security-opt=seccomp=unconfined --ipc=host"
    )


def chosen_rows(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(ROOT / "ci" / "rows.py"), *words]
    return subprocess.run(argv, check=False, capture_output=True, text=True)


def test_rows_for_hardware_are_those_that_have_a_runner(rows: list[dict[str, Any]]) -> None:
    none, one = chosen_rows("[]"), chosen_rows('["amd-mi300x"]')
    found = [json.loads(done.stdout.removeprefix("matrix="))["include"] for done in (none, one)]
    assert [row for row in found[0] if row["smoke"] == "device"] == []
    assert [row["accelerator"] for row in found[1] if row["smoke"] == "device"] == ["amd-mi300x"]
    asked = [json.dumps({**row, "accelerator": ""}) for row in found[0]]
    assert len(set(asked)) == len(asked)
    assert {json.dumps({**row, "accelerator": ""}) for row in rows if row["smoke"] != "device"} == (
        set(asked)
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "list of JSON"),
        (("nvidia",), "list of JSON"),
        (('["nvidia-x"]',), "no test for nvidia-x"),
    ],
)
def test_accelerators_that_are_none_are_refused(words: tuple[str, ...], told: str) -> None:
    done = chosen_rows(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert told in done.stderr


def test_the_workflow_of_changes_takes_the_versions_of_this_tree() -> None:
    text = (ROOT / ".github" / "workflows" / "test.yaml").read_text()
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    (go,) = re.findall(r"^go (\d+\.\d+)", (ROOT / "ci/cluster/go.mod").read_text(), re.MULTILINE)
    assert f'go-version: "{go}"' in text
    assert f"toolchain install {cargo['rust-version']} " in text
    assert "bash .ci/run" in text
