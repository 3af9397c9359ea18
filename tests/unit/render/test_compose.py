"""compose.yaml: a service for each replica, and nothing of its place is lost."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from llmd_ctl.plan import HOST, PORT, RouterTls
from llmd_ctl.plan.place import HostDevices, Place, PlannedTarget, Secret
from llmd_ctl.render.compose import render
from tests.unit.controller.plans import real_variant, variant
from tests.unit.render.hostile import ENV, WORDS
from tests.unit.render.places import BASE, DEVICES, HOST_DEVICES, changed, rendered, whole

BOX = PlannedTarget("box", "compose")
NOTHING_OF_DEVICES = {"classes"}  # for units


def services(files: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(files["compose.yaml"])["services"]
    return found


def engine(place: Place = BASE, devices: HostDevices | None = DEVICES) -> dict[str, Any]:
    found: dict[str, Any] = services(rendered(BOX, place, devices))["chat-a-0"]
    return found


def read_back(text: str) -> str:
    """As compose does: $$ is $, and a lone $ would be a variable."""
    assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", text)
    return text.replace("$$", "$")


@pytest.mark.parametrize(("name", "place"), [*changed()])
def test_nothing_of_a_place_is_lost(name: str, place: Place) -> None:
    assert rendered(BOX, place) != rendered(BOX), name


@pytest.mark.parametrize("name", HOST_DEVICES)
def test_nothing_of_how_devices_are_dealt_out_is_lost(name: str) -> None:
    if name == "count":  # it decides who finds room: tests/unit/plan/test_dealing.py
        return
    other = replace(DEVICES, **{name: HOST_DEVICES[name]})
    same = rendered(BOX, devices=other) == rendered(BOX)
    assert same == (name in NOTHING_OF_DEVICES)


def test_every_word_and_variable_is_read_back() -> None:
    made = replace(real_variant("a"), command=("run", *WORDS, HOST, PORT), env=ENV, place=BASE)
    files = {file.path: file.text for file in render(whole(BOX, made), BOX)}
    found = services(files)["chat-a-0"]
    assert list(map(read_back, found["entrypoint"])) == ["run", *WORDS, "0.0.0.0", "8000"]
    env = {name: read_back(value) for name, value in found["environment"].items()}
    assert {name: env[name] for name in ENV} == dict(ENV)


@pytest.mark.parametrize(
    ("devices", "env", "request_"),
    [
        (HostDevices(8, "V"), {"V": "0,1"}, None),
        (HostDevices(8, "V", container_variable="R"), {"R": "0,1"}, None),
        (
            HostDevices(8, "V", driver="nvidia"),
            {},
            {"driver": "nvidia", "device_ids": ["0", "1"], "capabilities": ["gpu"]},
        ),
    ],
)
def test_devices_are_given_as_the_runtime_takes_them(
    devices: HostDevices, env: dict[str, str], request_: dict[str, Any] | None
) -> None:
    found = engine(devices=devices)
    assert {name: found["environment"].get(name) for name in ("V", "R")} == {
        "V": env.get("V"), "R": env.get("R"),
    }  # fmt: skip
    asked = found.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices")
    assert asked == (None if request_ is None else [request_])


def test_secrets_are_files_that_nothing_is_expanded_in() -> None:
    found = engine(replace(BASE, secrets=(Secret("hf"),)))
    assert found["env_file"] == [
        {"path": "./secrets/hf.env", "required": True, "format": "raw"},
    ]  # fmt: skip


def test_the_router_finds_replicas_by_the_names_of_services() -> None:
    made = whole(BOX, real_variant("x", replicas=2), replace(variant("sim"), place=BASE))
    files = {file.path: file.text for file in render(made, BOX)}
    assert sorted(files) == ["compose.yaml", "engines/chat-sim-0.json", "router.yaml"]
    config = yaml.safe_load(files["router.yaml"])
    endpoints = config["models"][0]["sources"][0]["endpoints"]
    found = services(files)
    assert [(e["address"], e["port"]) for e in endpoints] == [
        ("chat-x-0", 8000), ("chat-x-1", 8000), ("chat-sim-0", 8000),
    ]  # fmt: skip
    assert {e["address"] for e in endpoints} | {"router"} == set(found)
    assert config["listen"] == {"data": "0.0.0.0:8000", "admin": "0.0.0.0:9090"}
    assert found["router"]["ports"] == ["8000:8000", "127.0.0.1:9090:9090"]
    assert found["chat-sim-0"]["entrypoint"][:2] == ["llmd-engine", "--config"]
    mounted = found["chat-sim-0"]["volumes"][0]
    assert mounted["source"] == "./engines/chat-sim-0.json"
    assert found["chat-sim-0"]["entrypoint"][2] == mounted["target"]


def test_certificates_are_mounted_where_the_router_reads_them() -> None:
    made = replace(whole(BOX), router_tls=RouterTls("/c/a$.crt", "/c/a.key"))
    files = {file.path: file.text for file in render(made, BOX)}
    tls = yaml.safe_load(files["router.yaml"])["listen"]["tls"]
    mounts = {each["target"]: each["source"] for each in services(files)["router"]["volumes"]}
    assert mounts[tls["certFile"]] == "/c/a$$.crt"
    assert mounts[tls["keyFile"]] == "/c/a.key"
