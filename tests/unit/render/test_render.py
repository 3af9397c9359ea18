"""Rendering is a pure function of plan, ports and paths."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from llmd_ctl.plan import (
    EndpointTls,
    Multimodal,
    PlannedVariant,
    Resilience,
    RouterTls,
    Slo,
    Traces,
)
from llmd_ctl.plan.resilience import Breaker, Checks, Limits
from llmd_ctl.render import Layout, RouterPlace, render_router, replica_specs
from tests.unit.controller.plans import external, model, plan, real_variant, variant

LAYOUT = Layout("prod", "/state/prod")
PLACE = RouterPlace(8000, 9090)
GOLDEN = """\
# Written by llmd-ctl from the plan; the router reloads it. Edits are overwritten.
version: 1
fleet: prod
listen:
  data: 127.0.0.1:8000
  admin: 127.0.0.1:9090
adminKeyFile: /state/prod/admin.key
traces:
  otlp: http://collector:4318
  protocol: http/protobuf
  sampleRatio: 0.5
models:
- name: chat
  aliases:
  - assistant
  objective: latency
  scheduler: expected-finish
  usage: exact
  slo:
    ttftUs: 800000
    itlUs: 40000
  variants:
  - name: a
    accelerator: nvidia-h100
    engine: vllm
    simulated: true
    facts:
      speed: 1.0
  - name: old
    accelerator: nvidia-h100
    engine: vllm
    simulated: false
    servedName: other
  sources:
  - kind: static
    endpoints:
    - name: chat-old
      address: 10.0.0.7
      port: 8100
      variant: old
  - kind: process
    path: /state/prod/replicas.json
"""


def test_the_router_configuration_as_a_whole() -> None:
    old = replace(external("old", "http://10.0.0.7:8100"), served_name="other")
    slo = Slo(ttft_us=800000, itl_us=40000)
    chat = model("chat", variant("a"), old, aliases=("assistant",), slo=slo, usage="exact")
    whole = replace(plan(chat), traces=Traces("http://collector:4318", "http/protobuf", 0.5))
    assert render_router(whole, PLACE, LAYOUT) == GOLDEN


def test_a_name_that_looks_like_a_number_is_written_as_text() -> None:
    named = model("chat", variant("a"), aliases=("1e3", "0o7", "12", "1.5e-3", "x1e3"))
    text = render_router(plan(named), PLACE, LAYOUT)
    assert "  - '1e3'\n  - '0o7'\n  - '12'\n  - '1.5e-3'\n  - x1e3\n" in text


def test_of_resilience_only_what_the_fleet_says_is_written() -> None:
    quiet = render_router(plan(model("chat", variant("a"))), PLACE, LAYOUT)
    assert not {"limits", "retry", "resilience"} & set(yaml.safe_load(quiet))
    said = Resilience(
        breaker=Breaker(open_max_ms=5000),
        slow_start_ms=0,
        checks=Checks(failures=0, path="/ready"),
        limits=Limits(body_bytes=1 << 20),
    )
    whole = replace(plan(model("chat", variant("a"))), resilience=said)
    document = yaml.safe_load(render_router(whole, PLACE, LAYOUT))
    assert document["resilience"] == {
        "breaker": {"openMaxMs": 5000},
        "slowStartMs": 0,
        "checks": {"failures": 0, "path": "/ready"},
    }
    assert document["limits"] == {"bodyBytes": 1 << 20}
    assert "retry" not in document


def test_what_the_router_shows_its_clients_is_written_and_makes_its_url_https() -> None:
    tls = RouterTls("/c/a.crt", "/c/a.key")
    whole = replace(plan(model("chat", variant("a"))), router_tls=tls)
    listen = yaml.safe_load(render_router(whole, PLACE, LAYOUT))["listen"]
    assert listen["tls"] == {"certFile": "/c/a.crt", "keyFile": "/c/a.key"}
    asking = replace(whole, router_tls=replace(tls, client_ca_file="/c/ca.crt"))
    listen = yaml.safe_load(render_router(asking, PLACE, LAYOUT))["listen"]
    assert listen["tls"]["clientCaFile"] == "/c/ca.crt"
    assert (PLACE.url, replace(PLACE, tls=True).url) == (
        "http://127.0.0.1:8000",
        "https://127.0.0.1:8000",
    )
    assert PLACE.admin_url == replace(PLACE, tls=True).admin_url == "http://127.0.0.1:9090"


def test_apis_and_counts_of_parts_are_written_where_the_fleet_says_them() -> None:
    parts = Multimodal(image_tokens=256, video_tokens=0)
    speaks = replace(variant("a"), apis=("chat", "embeddings"))
    chat = model("chat", speaks, variant("b"), multimodal=parts)
    (document,) = yaml.safe_load(render_router(plan(chat), PLACE, LAYOUT))["models"]
    assert document["multimodal"] == {"imageTokens": 256, "videoTokens": 0}
    assert [v.get("apis") for v in document["variants"]] == [["chat", "embeddings"], None]


FILES = EndpointTls("/c/ca.crt", "/c/own.crt", "/c/own.key", "engine.example")


@pytest.mark.parametrize(
    ("url", "tls", "port", "written"),
    [
        ("http://gpu.lan", None, 80, None),
        ("https://gpu.lan", None, 443, {}),
        ("https://gpu.lan:8443", EndpointTls(), 8443, {}),
        (
            "https://gpu.lan",
            FILES,
            443,
            {
                "caFile": "/c/ca.crt",
                "certFile": "/c/own.crt",
                "keyFile": "/c/own.key",
                "serverName": "engine.example",
            },
        ),
    ],
)
def test_an_endpoint_has_the_port_and_the_tls_of_its_url(
    url: str, tls: EndpointTls | None, port: int, written: dict[str, str] | None
) -> None:
    old = replace(external("old", url), endpoint_tls=tls)
    text = render_router(plan(model("chat", old)), PLACE, LAYOUT)
    endpoint = yaml.safe_load(text)["models"][0]["sources"][0]["endpoints"][0]
    assert (endpoint["address"], endpoint["port"]) == ("gpu.lan", port)
    assert endpoint.get("tls") == written


def test_a_leaving_variant_stays_until_it_is_gone() -> None:
    now = plan(model("chat", variant("a")))
    gone = model("chat", variant("b"))
    lost = model("code", variant("c"))
    leaving = [(gone, gone.variants[0]), (lost, lost.variants[0])]
    document = yaml.safe_load(render_router(now, PLACE, LAYOUT, leaving))
    names = {m["name"]: [v["name"] for v in m["variants"]] for m in document["models"]}
    assert names == {"chat": ["a", "b"], "code": ["c"]}


def test_a_replica_has_a_command_without_open_places() -> None:
    (spec,) = replica_specs(plan(model("chat", real_variant("a"))), LAYOUT, "/bin/python")
    assert spec.argv(18000) == (
        "vllm", "serve", "m", "--host", "127.0.0.1", "--port", "18000", "--max-num-seqs", "8",
    )  # fmt: skip
    assert spec.engine_config(18000) is None


def test_a_simulated_engine_gets_its_facts_as_a_file() -> None:
    chat = model("chat", variant("a", 2), aliases=("assistant",))
    first, second = replica_specs(plan(chat), LAYOUT, "/bin/python")
    config = f"/state/prod/engines/{first.name}.json"
    assert first.argv(1) == ("/bin/python", "-m", "llmd_ctl.sim", "--config", config)
    document = json.loads(first.engine_config(18000) or b"")
    seed = document.pop("seed")
    assert document == {
        "version": 1,
        "name": first.name,
        "model": "chat",
        "aliases": ["assistant"],
        "accelerator": "nvidia-h100",
        "listen": "127.0.0.1:18000",
        "facts": {"speed": 1.0},
        "accessLog": f"/state/prod/access/{first.name}.jsonl",
    }
    assert seed != json.loads(second.engine_config(18001) or b"")["seed"]


def test_a_name_depends_on_all_that_the_process_depends_on_and_on_nothing_else() -> None:
    def name(*variants: PlannedVariant, **fields: Any) -> str:
        made = plan(model("chat", *variants, **fields))
        return replica_specs(made, LAYOUT, "python")[0].name

    base = name(variant("a"))
    assert base.startswith("chat-a-0-")
    assert len(base.rpartition("-")[2]) == 6
    assert name(variant("a"), variant("b")) == base
    assert name(variant("a", 5)) == base
    assert name(variant("a"), scheduler="random") == base
    assert name(variant("a", speed=2.0)) != base
    assert name(variant("a", env={"X": "1"})) != base
    assert name(variant("a"), aliases=("x",)) != base
    assert name(real_variant("a", "1")) != name(real_variant("a", "2"))
    assert name(real_variant("a")) == name(replace(real_variant("a"), facts={"speed": 9.0}))
