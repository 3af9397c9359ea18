"""compose.yaml against its readers: the schema of the compose specification, and compose's loader.

The schema is the one that compose-go ships, read by a validator of its own here; what the loader
makes of files is that of `docker compose`, files of variables included.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from llmd_ctl.plan import HOST, PORT, Plan, RouterTls
from llmd_ctl.plan.place import Place, PlannedTarget, Secret
from llmd_ctl.render.targets import render_target
from tests.e2e.render.clients import Clients
from tests.unit.controller.plans import real_variant, variant
from tests.unit.render.hostile import ENV, WORDS
from tests.unit.render.places import BASE, DEVICES, HOST_DEVICES, changed, rendered, whole

pytestmark = pytest.mark.cluster

BOX = PlannedTarget("box", "compose")
# A file of variables holds a line each.
LINES = {name: word for name, word in ENV.items() if "\n" not in word}


@pytest.fixture(scope="session")
def schema(clients: Clients) -> Draft202012Validator:
    found = clients.decoded("compose-schema")
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def faults(schema: Draft202012Validator, text: str) -> list[str]:
    """What the schema has against a file, place by place."""
    return [f"{e.json_path}: {e.message}" for e in schema.iter_errors(yaml.safe_load(text))]


def files(made: Plan) -> dict[str, str]:
    return {file.path: file.text for file in render_target(made, BOX.name)}


def written(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "compose.yaml"


def rendered_files(repo_root: Path) -> Iterator[tuple[str, str]]:
    """Every kind of compose.yaml: of each vendor, with each thing that a place may say."""
    for file in sorted((repo_root / "tests/golden/render").glob("*/out/compose.yaml")):
        yield file.parent.parent.name, file.read_text()
    for name, place in changed():
        yield name, rendered(BOX, place)["compose.yaml"]
        yield f"router: {name}", rendered(BOX, router=place)["compose.yaml"]
    for name, value in HOST_DEVICES.items():
        if name == "count":  # decides who finds room, and is not rendered
            continue
        yield name, rendered(BOX, devices=replace(DEVICES, **{name: value}))["compose.yaml"]
    plain = whole(BOX, replace(variant("sim"), place=BASE), real_variant("x", replicas=2))
    yield "simulated", files(plain)["compose.yaml"]
    tls = replace(plain, router_tls=RouterTls("/c/a$.crt", "/c/a.key"))
    yield "certificates", files(tls)["compose.yaml"]


def test_every_file_is_one_of_the_schema(schema: Draft202012Validator, repo_root: Path) -> None:
    found = {name: faults(schema, text) for name, text in rendered_files(repo_root)}
    assert len(found) >= 40
    assert {name: said for name, said in found.items() if said} == {}


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("restrat", "always", "restrat"),
        ("cap_add", "SYS_NICE", "cap_add: 'SYS_NICE' is not of type 'array'"),
        ("shm_size", ["1g"], "shm_size: ['1g'] is not of type"),
    ],
)
def test_the_schema_refuses_what_is_none_of_compose(
    key: str, value: object, told: str, schema: Draft202012Validator
) -> None:
    document: dict[str, Any] = yaml.safe_load(rendered(BOX)["compose.yaml"])
    document["services"]["chat-a-0"][key] = value
    found = faults(schema, yaml.safe_dump(document))
    assert any(told in fault for fault in found), found


def test_every_word_variable_and_secret_arrives(clients: Clients, tmp_path: Path) -> None:
    """Environment and argv from the plan, and beside them files of variables, byte for byte."""
    place = replace(BASE, secrets=(Secret("first"), Secret("second")))
    made = replace(real_variant("a"), command=("run", *WORDS, HOST, PORT), env=ENV, place=place)
    file = written(tmp_path, files(whole(BOX, made, router=place)))
    first = {f"FIRST_{name}": word for name, word in LINES.items()}
    second = {"SECOND": "$HOME ${X:-y} {{ .z }} %n 'a' \"b\" # no comment", "ODD_0": "of the file"}
    for name, said in (("first", first), ("second", second)):
        lines = "".join(f"{key}={value}\n" for key, value in said.items())
        written(tmp_path, {f"secrets/{name}.env": f"# A comment.\n\n{lines}"})
    found = clients.decoded("compose", file, "HOME=/wrong", "X=wrong", "SECOND=wrong")
    engine, router = found["chat-a-0"], found["router"]
    assert engine["argv"] == ["run", *WORDS, "0.0.0.0", "8000"]
    caches = {"HF_HOME": "/var/cache/llmd/huggingface"}
    # What the plan says goes before a file of variables.
    assert engine["env"] == {**second, **first, **caches, **ENV}
    assert router["env"] == {**second, **first, "R": "1"}


def test_a_secret_that_is_not_there_is_an_error_of_compose(
    clients: Clients, tmp_path: Path
) -> None:
    place: Place = replace(BASE, secrets=(Secret("hf"),))
    written(tmp_path, rendered(BOX, place))
    with pytest.raises(AssertionError, match=r"hf\.env"):
        clients.decoded("compose", tmp_path / "compose.yaml")
