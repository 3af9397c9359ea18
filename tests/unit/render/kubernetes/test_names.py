"""Names are short enough, begin as they must, stay the same, and are nobody else's."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from llmd_ctl.plan import PlannedModel, PlannedVariant
from llmd_ctl.render.kubernetes.names import Names
from tests.unit.controller.plans import model, variant
from tests.unit.render.kubernetes.clusters import FULL, engine, objects, of

LONG = "a" * 62 + "b"
SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def named(fleet: str, *models: PlannedModel) -> list[str]:
    names = Names.of(replace(of(*models), fleet=fleet))
    return [names.engine(one, each) for one in models for each in one.variants]


def test_a_name_says_fleet_model_and_variant() -> None:
    assert named("prod", model("chat", variant("h100"))) == ["prod-chat-h100"]


@pytest.mark.parametrize("fleet", ["prod", "1st", LONG])
@pytest.mark.parametrize("name", ["chat", LONG, "9", "a" + "-" * 50 + "b"])
def test_every_name_is_one_that_a_cluster_takes(fleet: str, name: str) -> None:
    one = engine(name, FULL)
    whole = replace(of(model(name, one)), fleet=fleet)
    for kind, found in objects(whole):
        assert SERVICE.fullmatch(found), found
        assert len(found) <= (50 if kind == "LeaderWorkerSet" else 63)


def test_long_names_stay_apart_and_the_same() -> None:
    first, second = LONG, LONG[:-1] + "c"
    one = named("prod", model("chat", variant(first)), model("code", variant(first)))
    assert len(set(one)) == 2
    assert named("prod", model("chat", variant(first))) == one[:1]
    assert named("prod", model("chat", variant(second))) != one[:1]


def test_two_variants_that_would_share_a_name_do_not() -> None:
    names = named("prod", model("a-b", variant("c")), model("a", variant("b-c"), variant("d")))
    assert len(set(names)) == 3
    assert names[2] == "prod-a-d"


def test_labels_hold_whole_names_of_any_length() -> None:
    one: PlannedVariant = engine(LONG)
    chat = model(LONG, one)
    labels = Names.of(replace(of(chat), fleet=LONG)).engine_labels(chat, one)
    assert labels["llmd-ctl.dev/variant"] == labels["llmd-ctl.dev/model"] == LONG
    assert all(len(value) <= 63 for value in labels.values())
