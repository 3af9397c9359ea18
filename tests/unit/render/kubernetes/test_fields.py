"""Nothing that a place says is lost: each field, changed alone, changes what is rendered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.plan.place import Cache, Image, Place, PlannedRouter, Secret, Transfer
from tests.unit.render.kubernetes.clusters import FULL, cluster, engine, scaled, texts

ANOTHER: Mapping[str, Any] = {
    "image.digest": None,
    "image.user": "2000",
    "container.seccomp": "RuntimeDefault",
    "container.groups": ("108",),
    "nodes.tolerations.operator": "Exists",
    "hosts": 3,
    "autoscale.min": 2,
    "autoscale.scaler": "hpa",
    "transfer": Transfer("NixlConnector", capabilities=("IPC_LOCK",)),
    "cache.claim": "models",
    "cache.size_bytes": 1 << 30,
}


def leaves(record: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Each field of a record and of those in it, with another value than it has."""
    for name in record.__struct_fields__:
        path, value = f"{above}{name}", getattr(record, name)
        if path in ANOTHER:
            yield path, ANOTHER[path]
        elif isinstance(value, Struct):
            yield from leaves(value, f"{path}.")
        elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
            yield from leaves(value[0], f"{path}.")
        else:
            yield path, other(value, path)


def other(value: Any, path: str) -> Any:
    if value is None:
        return "other"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 2
    if isinstance(value, Mapping):
        return {**value, "other": "one"}
    if isinstance(value, tuple):
        return (*value, "/other" if path.endswith(("devices", "mounts")) else "other")
    return f"{value}x"


def changed(record: Any, path: str, value: Any) -> Any:
    """The record with one field changed; in lists, of the first entry."""
    name, _, rest = path.partition(".")
    now = getattr(record, name)
    if not rest:
        return replace(record, **{name: value})
    if isinstance(now, tuple):
        return replace(record, **{name: (changed(now[0], rest, value), *now[1:])})
    return replace(record, **{name: changed(now, rest, value)})


def rendered(place: Place) -> dict[str, str]:
    return texts(cluster(engine(place=place)))


# A cache is one of three: each is looked at where it is the one.
PLACE = scaled(FULL)
FIELDS = [(path, value) for path, value in leaves(PLACE) if not path.startswith("cache.")]


@pytest.mark.parametrize(("path", "value"), FIELDS, ids=[path for path, _ in FIELDS])
def test_each_field_of_a_place_changes_what_is_rendered(path: str, value: Any) -> None:
    assert rendered(changed(PLACE, path, value)) != rendered(PLACE)


@pytest.mark.parametrize(
    "cache",
    [
        Cache(path="/a"), Cache(path="/b"), Cache(claim="a"), Cache(claim="b"),
        Cache(size_bytes=1 << 30), Cache(size_bytes=2 << 30), Cache(),
        Cache(variables={"HF_HOME": "hf"}),
    ],
)  # fmt: skip
def test_each_cache_is_another(cache: Cache) -> None:
    assert rendered(replace(PLACE, cache=cache)) != rendered(PLACE)


VARIANT: dict[str, Any] = {
    "replicas": 3, "command": ("vllm", "x"), "env": {"A": "b"}, "startup_seconds": 40,
    "role": "prefill", "engine": "other", "engine_version": "2", "accelerator": "other",
    "vendor": "other", "max_model_len": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANT)
def test_each_field_of_a_variant_changes_what_is_rendered(name: str) -> None:
    now = engine(place=FULL)
    assert texts(cluster(replace(now, **{name: VARIANT[name]}))) != texts(cluster(now))


def test_each_field_of_the_router_changes_what_is_rendered() -> None:
    whole = cluster()
    router = whole.router
    assert router is not None
    assert router.place is not None
    place = replace(router.place, image=Image("r:1", user="7"), nodes=FULL.nodes)
    place = replace(
        place,
        secrets=(Secret("a", "A", "k"),),
        container=replace(place.container, cpu=1, memory_bytes=1 << 30, shm_bytes=1 << 30),
    )
    router = PlannedRouter("llmd-ctl", router.target, 2, {"A": "b"}, place)
    base = texts(replace(whole, router=router))
    said = [("replicas", 3), ("env", {"B": "c"})]
    said += [
        (f"place.{path}", value)
        for path, value in leaves(place)
        if path.startswith(("image", "nodes", "secrets"))
        or path in ("container.cpu", "container.memory_bytes", "container.shm_bytes")
        if path != "nodes.joined_by"  # a router is one host
    ]
    for path, value in said:
        if path == "place.image.digest":
            value = "sha256:" + "1" * 64
        found = texts(replace(whole, router=changed(router, path, value)))
        assert found != base, path
