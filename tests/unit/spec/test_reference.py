"""The reference files against the types: every key is in them, and what they say of it is true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_snake

import llmd_ctl
from llmd_ctl.errors import SpecInvalid
from llmd_ctl.spec import LoadedFleet, load_fleets
from llmd_ctl.spec.fleet import ApiName, Fleet
from llmd_ctl.spec.not_yet import NOT_YET, NOT_YET_WORDS
from llmd_ctl.spec.shape import SHAPE, FieldShape, keys_of, pattern

REFERENCE = resources.files("llmd_ctl") / "spec" / "reference"
# Sections that several levels have: inside, they are explained where they first stand.
OWNERS = (
    "spec.targets[]", "spec.defaults", "spec.models[]", "spec.models[].variants[]", "spec.router",
)  # fmt: skip
SHARED = re.compile(r"(engine|resources|tolerations|secretRefs|cache|autoscale)(\[\])?\.")
FIRST = {
    "engine": "spec.defaults", "resources": "spec.targets[]", "tolerations": "spec.targets[]",
    "secretRefs": "spec.targets[]", "cache": "spec.defaults", "autoscale": "spec.defaults",
    "cache.claim": "spec.models[]", "cache.size": "spec.models[].variants[]",
}  # fmt: skip
LEFT_OUT = {
    "spec.inventory[].target",
    "spec.models[].variants[].name",
    "spec.models[].variants[].target",
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedFleet:
    """The reference, in a folder that holds the files that it names."""
    folder = tmp_path_factory.mktemp("reference")
    (folder / "certs").mkdir()
    for name in ("ca.crt", "router.crt", "router.key"):
        (folder / "certs" / name).touch()
    (folder / "fleet.yaml").write_text((REFERENCE / "fleet.yaml").read_text("utf-8"), "utf-8")
    (one,) = load_fleets([str(folder / "fleet.yaml")])
    return one


@pytest.fixture(scope="module")
def comments(loaded: LoadedFleet) -> dict[str, str]:
    """The comment right above each key, where the key first stands."""
    lines = loaded.source.lines
    out: dict[str, str] = {}
    for path, _ in loaded.document.root.walk():
        if isinstance(path[-1], int) or pattern(path) in out:
            continue
        key = loaded.document.mark(path, key=True)
        if lines[key.line - 1][: key.column - 1].strip(" -"):
            continue  # inside braces: explained where the section first stands
        above = key.line - 2
        said: list[str] = []
        while above >= 0 and lines[above].strip().startswith("#"):
            said.insert(0, lines[above].strip().lstrip("# "))
            above -= 1
        out[pattern(path)] = " ".join(said)
    return out


EVERY_FIELD = pytest.mark.parametrize("field", SHAPE.values(), ids=SHAPE)


@EVERY_FIELD
def test_every_key_is_shown_and_explained(field: FieldShape, comments: dict[str, str]) -> None:
    """An engine and a percentile are explained once, where they first stand."""
    assert len(comments[_first(field.path)]) > 20


def _first(path: str) -> str:
    path = path.replace("spec.models[].slo.itl.", "spec.models[].slo.ttft.")
    for owner in sorted(OWNERS, key=len, reverse=True):
        key = path.removeprefix(f"{owner}.")
        if key != path and (section := SHARED.match(key)):
            return f"{FIRST.get(key) or FIRST[section[1]]}.{key}"
    return path


@EVERY_FIELD
def test_the_stated_default_is_the_types(field: FieldShape, comments: dict[str, str]) -> None:
    said = comments[_first(field.path)]
    if field.info.is_required():
        assert said.endswith("Required.")
    else:
        assert f"Default: {_written(field.default)}" in said
    assert ("May be left out" in said) == (field.path in LEFT_OUT)


def _written(default: object) -> str:
    if default is None:
        return "none"
    if default in ([], {}) or isinstance(default, BaseModel):
        return "empty"
    return f"{str(default).lower()}."


@pytest.mark.parametrize("field", [f for f in SHAPE.values() if f.words])
def test_every_allowed_word_is_listed(field: FieldShape, comments: dict[str, str]) -> None:
    said = comments[_first(field.path)]
    assert all(word in said for word in field.words)


def test_every_limit_is_stated(comments: dict[str, str]) -> None:
    checked = 0
    for path, said in comments.items():
        field = SHAPE.get(path)
        for bound in _limits(field) if field else ():
            assert f"{bound}" in said, path
            checked += 1
    assert checked >= 20


def _limits(field: FieldShape) -> list[int]:
    return [*_bounds(field.info), *_bounds(field.info.annotation)]


def _bounds(part: object) -> Iterator[int]:
    """Yield the limits anywhere in an annotation."""
    for limit in ("ge", "le"):
        bound = getattr(part, limit, None)
        if bound is not None:
            yield bound
    for inner in (*get_args(part), *getattr(part, "metadata", ())):
        yield from _bounds(inner)


ROUTER = Path(llmd_ctl.__file__).parents[1] / "crates" / "llmd-router" / "src"
OF_THE_ROUTER = ("spec.router.resilience", "spec.models[].multimodal")
UNITS = {
    "s": ("_ms", 1_000),
    "m": ("_ms", 60_000),
    "h": ("_ms", 3_600_000),
    "Mi": ("_bytes", 1 << 20),
}
RUST_DEFAULT = re.compile(r"(\w+): ([0-9_]+)(?: << ([0-9]+))?,?")


def test_the_routers_own_defaults_are_stated(comments: dict[str, str]) -> None:
    """They are written twice, since a router also runs without a fleet."""
    text = "".join((ROUTER / f"config{name}.rs").read_text() for name in ("", "/resilience"))
    written: dict[str, set[int]] = {}
    for name, number, shift in RUST_DEFAULT.findall(text):
        written.setdefault(name, set()).add(int(number) << int(shift or 0))
    checked = 0
    for field in SHAPE.values():
        home, _, key = field.path.rpartition(".")
        said = re.search(r"Default: none \(([0-9]+)(s|m|h|Mi)?\)", comments[_first(field.path)])
        if not home.startswith(OF_THE_ROUTER) or said is None:
            continue
        suffix, factor = UNITS.get(said[2], ("", 1))
        assert int(said[1]) * factor in written[to_snake(key) + suffix], field.path
        checked += 1
    assert checked == 27


def test_the_apis_are_those_of_the_router() -> None:
    names = re.findall(r'^        name: "([a-z-]+)"', (ROUTER / "api.rs").read_text(), re.MULTILINE)
    assert list(get_args(ApiName)) == names


def test_nothing_unknown_to_the_types_is_shown(comments: dict[str, str]) -> None:
    free = ("engineArgs.",)
    shown = {path for path in comments if not any(word in f"{path}" for word in free)}
    assert shown <= set(SHAPE)
    assert set(keys_of(Fleet)) <= shown


def test_the_not_yet_file_holds_exactly_the_not_yet_table() -> None:
    file = str(REFERENCE / "not-yet.yaml")
    with pytest.raises(SpecInvalid) as refused:
        load_fleets([file])
    problems = refused.value.problems
    places = [p.place for p in problems if p.place is not None]
    assert {p.code for p in problems} == {"LC1050", "LC1051"}
    keys = {_pattern(p.path) for p in places if p.path and not p.path.startswith("spec.targets[")}
    keys |= {_pattern(p.path) for p in places if p.path.startswith("spec.targets[0]")}
    assert keys == {f"{home}.{key}" for home, table in NOT_YET.items() for key in table}
    words = {p.found for p in problems if p.code == "LC1051"}
    assert words == set(NOT_YET_WORDS["spec.targets[].kind"])
    assert len(problems) == len(keys) + len(words)


def _pattern(path: str) -> str:
    return "".join("[]" if part.isdigit() else part for part in path.replace("]", "[").split("["))


def test_the_not_yet_file_says_what_each_key_will_do() -> None:
    text = (REFERENCE / "not-yet.yaml").read_text("utf-8")
    for table in [*NOT_YET.values(), *NOT_YET_WORDS.values()]:
        for key, what in table.items():
            assert any(f"{key}" in line and f"# {what}" in line for line in text.splitlines()), key


def test_no_key_is_both_built_and_not_yet() -> None:
    later = {f"{home}.{key}" for home, table in NOT_YET.items() for key in table}
    assert not later & set(SHAPE)
    assert all(home.removesuffix("[]") in SHAPE for home in NOT_YET)


def test_design_fields_are_built_or_known() -> None:
    known = {key for table in NOT_YET.values() for key in table}
    known |= {path.rpartition(".")[2] for path in SHAPE}
    assert known >= {
        "role", "policies", "kind", "mode", "replicas", "flowControl", "env",
        "resources", "nodeSelector", "tolerations", "imagePullSecrets", "secretRefs", "cache",
        "lora", "chatTemplate", "speculative", "kvOffload", "disaggregation", "prefixRouting",
        "autoscale", "rollout", "queueName", "region", "equivalence", "timeSlicing", "topology",
        "context", "namespace", "hosts",
    }  # fmt: skip
