"""Units: who runs where, with what; that systemd reads them so is tests/e2e/render's to show."""

from __future__ import annotations

import re

import pytest
import yaml
from msgspec.structs import replace

from llmd_ctl.plan import EndpointTls, Resilience, RouterTls
from llmd_ctl.plan.place import Container, HostDevices, Place, PlannedTarget
from llmd_ctl.plan.resilience import Limits
from llmd_ctl.render.systemd import render
from llmd_ctl.render.unit import command_line, word
from tests.unit.controller.plans import external, real_variant, variant
from tests.unit.render.places import BASE, DEVICES, HOST_DEVICES, changed, rendered, whole

RACK = PlannedTarget("rack", "systemd", hosts=("a", "b"))
HERE = PlannedTarget("here", "systemd")
SYSTEM = "etc/systemd/system"
# A program's host has these as they are, or the fleet was refused.
NOTHING_OF = {
    "container.shm_bytes",  # warned of where it is said; units share the machine's
    "container.devices",  # opened by their classes
    "container.mounts",
    "container.runtime",
    "image.digest",
    "image.reference",
}
# Those are for containers.
NOTHING_OF_DEVICES = {"container_variable", "driver", "privileged", "paths"}


def settings(text: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


@pytest.mark.parametrize(("name", "place"), [*changed()])
def test_nothing_of_a_place_is_lost(name: str, place: Place) -> None:
    assert (rendered(HERE, place) == rendered(HERE)) == (name in NOTHING_OF)


@pytest.mark.parametrize("name", HOST_DEVICES)
def test_nothing_of_how_devices_are_dealt_out_is_lost(name: str) -> None:
    if name == "count":  # it decides who finds room: tests/unit/plan/test_dealing.py
        return
    other = replace(DEVICES, **{name: HOST_DEVICES[name]})
    same = rendered(HERE, devices=other) == rendered(HERE)
    assert same == (name in NOTHING_OF_DEVICES)


def test_the_routers_place_is_carried_out() -> None:
    given = replace(BASE, container=Container(cpu=2, memory_bytes=1 << 30))
    text = rendered(HERE, router=given)[f"units/{SYSTEM}/llmd-prod-router.service"]
    assert settings(text, "CPUQuota") == ["200%"]
    assert settings(text, "MemoryMax") == [str(1 << 30)]
    assert settings(text, "Environment") == ["R=1"]


def test_each_host_has_its_units_and_the_first_the_router() -> None:
    made = whole(RACK, real_variant("x", replicas=3), variant("sim"))
    files = {file.path: file.text for file in render(made, RACK)}
    assert [path for path in files if path.endswith(".service")] == [
        f"a/{SYSTEM}/llmd-prod-chat-x-0.service",
        f"a/{SYSTEM}/llmd-prod-chat-x-2.service",
        f"a/{SYSTEM}/llmd-prod-router.service",
        f"b/{SYSTEM}/llmd-prod-chat-sim-0.service",
        f"b/{SYSTEM}/llmd-prod-chat-x-1.service",
    ]
    assert settings(files[f"b/{SYSTEM}/llmd-prod.target"], "Wants") == [
        "llmd-prod-chat-x-1.service",
        "llmd-prod-chat-sim-0.service",
    ]
    config = yaml.safe_load(files["a/etc/llmd-ctl/prod/router.yaml"])
    endpoints = config["models"][0]["sources"][0]["endpoints"]
    assert [(e["name"], e["address"], e["port"]) for e in endpoints] == [
        ("chat-x-0", "a", 18000),
        ("chat-x-1", "b", 18000),
        ("chat-x-2", "a", 18001),
        ("chat-sim-0", "b", 18001),
    ]
    router = files[f"a/{SYSTEM}/llmd-prod-router.service"]
    assert "llmd-prod-chat-x-2.service" in settings(router, "After")[0]
    assert "--host 0.0.0.0 --port 18001" in files[f"a/{SYSTEM}/llmd-prod-chat-x-2.service"]
    sim = files[f"b/{SYSTEM}/llmd-prod-chat-sim-0.service"]
    config_path = "etc/llmd-ctl/prod/chat-sim-0.json"
    assert settings(sim, "ExecStart") == [f"llmd-engine --config /{config_path}"]
    assert f"b/{config_path}" in files


def test_beside_the_router_alone_an_engine_listens_for_it_alone() -> None:
    text = rendered(HERE)[f"units/{SYSTEM}/llmd-prod-chat-a-0.service"]
    assert "--host 127.0.0.1 --port 18000" in text
    assert settings(text, "Environment") == [
        "HF_HOME=/var/cache/llmd-ctl/huggingface", "VISIBLE=0,1",
    ]  # fmt: skip


def test_a_unit_may_open_what_its_engine_needs_and_no_more() -> None:
    path = f"units/{SYSTEM}/llmd-prod-chat-a-0.service"
    assert settings(rendered(HERE)[path], "DeviceAllow") == ["char-gpu rw"]
    unknown = rendered(HERE, devices=HostDevices(8, "VISIBLE"))[path]
    assert settings(unknown, "DevicePolicy") == []
    none = rendered(HERE, devices=None)[path]
    assert (settings(none, "DevicePolicy"), settings(none, "DeviceAllow")) == (["closed"], [])


def test_a_stop_waits_for_what_drains() -> None:
    made = replace(
        whole(HERE, real_variant("a")), resilience=Resilience(limits=Limits(drain_ms=90_001))
    )
    for file in render(made, HERE):
        if file.path.endswith(".service"):
            assert settings(file.text, "TimeoutStopSec") == ["106"]


def test_certificates_are_handed_to_the_router_by_systemd() -> None:
    old = external("old", "https://gpu.lan")
    old = replace(old, endpoint_tls=EndpointTls(ca_file="/c/my ca.crt"))
    made = replace(whole(HERE), router_tls=RouterTls("/c/a.crt", "/c/a.key"))
    made = replace(made, models=(replace(made.models[0], variants=(old,)),))
    files = {file.path: file.text for file in render(made, HERE)}
    unit = files[f"units/{SYSTEM}/llmd-prod-router.service"]
    assert settings(unit, "LoadCredential") == [
        '"endpoint-0-0.ca.crt:/c/my ca.crt"', "tls.crt:/c/a.crt", "tls.key:/c/a.key",
    ]  # fmt: skip
    folder = "/run/credentials/llmd-prod-router.service"
    config = yaml.safe_load(files["units/etc/llmd-ctl/prod/router.yaml"])
    assert config["listen"]["tls"] == {
        "certFile": f"{folder}/tls.crt", "keyFile": f"{folder}/tls.key",
    }  # fmt: skip
    (endpoint,) = config["models"][0]["sources"][0]["endpoints"]
    assert endpoint["tls"]["caFile"] == f"{folder}/endpoint-0-0.ca.crt"


def test_huge_pages_of_all_replicas_of_a_host_are_set_aside() -> None:
    place = replace(BASE, container=Container(hugepages_bytes=3 << 21))
    made = whole(HERE, replace(real_variant("a", replicas=2), place=place))
    (file,) = (file for file in render(made, HERE) if "sysctl.d" in file.path)
    assert file.text.endswith("vm.nr_hugepages = 6\n")
    told = next(file.text for file in render(made, HERE) if file.path.endswith(".target"))
    apply, start = f"sysctl --load=/{file.path.removeprefix('units/')}", "systemctl enable --now"
    assert 0 < told.index(apply) < told.index(start)
    assert "sysctl" not in rendered(HERE)[f"units/{SYSTEM}/llmd-prod.target"]


def test_an_engine_may_pin_memory_and_is_not_killed_for_a_system_call() -> None:
    text = rendered(HERE)[f"units/{SYSTEM}/llmd-prod-chat-a-0.service"]
    assert settings(text, "LimitMEMLOCK") == ["infinity"]
    assert settings(text, "SystemCallErrorNumber") == ["EPERM"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain-1.2/x:y", "plain-1.2/x:y"),
        ("", '""'),
        ("a b", '"a b"'),
        ('say "x"', '"say \\"x\\""'),
        ("50%", '"50%%"'),
        ("a\\b", '"a\\\\b"'),
        ("a\nb\x01\x7f", '"a\\nb\\x01\\x7f"'),
        ("é", '"é"'),
        (";", '";"'),
    ],
)
def test_words_are_quoted_as_systemd_reads_them(value: str, expected: str) -> None:
    assert word(value) == expected


def test_a_dollar_is_doubled_in_arguments_and_not_in_the_programs_name() -> None:
    assert command_line(("/opt/$x/run", "$x", "a$")) == '"/opt/$x/run" "$$x" "a$$"'
