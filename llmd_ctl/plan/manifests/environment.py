"""The variables of a container: which are known, which are set to what nobody can tell here.

Called by `judge`. Config maps of the same folder are read; secrets, fields of the pod and what is
elsewhere stay unknown. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from llmd_ctl.errors import Place
from llmd_ctl.plan.manifests.manifest import Manifest, Path, items, look, text, texts

# What controllers set in the pods that they make.
INJECTED: Mapping[str, tuple[str, ...]] = {
    "LeaderWorkerSet": ("LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"),
    "LLMInferenceService": ("LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"),
    "Job": ("JOB_COMPLETION_INDEX",),
    "CronJob": ("JOB_COMPLETION_INDEX",),
}


class Environment(Struct):
    """By name: the values that are known, and where each stands. `twice`: names set again."""

    values: dict[str, str] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    at: dict[str, Place] = field(default_factory=dict)
    twice: list[tuple[str, Place, Place]] = field(default_factory=list)
    open: bool = False  # whether more may be set than is seen


def environment_of(
    manifest: Manifest, container: Path, everything: Iterable[Manifest]
) -> Environment:
    """The variables of the container at a path of an object."""
    maps = {one.name: one for one in everything if one.kind == "ConfigMap"}
    found = Environment()
    found.opaque.update(INJECTED.get(manifest.kind, ()))
    for each in items(manifest.data, *container, "envFrom"):
        name = text(each, "configMapRef", "name")
        if name is None or name not in maps:
            found.open = True
            continue
        prefix = text(each, "prefix") or ""
        for key, value in texts(maps[name].data, "data").items():
            found.values[prefix + key] = value
            found.at[prefix + key] = maps[name].place(("data", key))
    own: set[str] = set()
    for index, each in enumerate(items(manifest.data, *container, "env")):
        name = text(each, "name")
        if name:
            path = (*container, "env", index)
            if name in own:
                found.twice.append((name, manifest.place((*path, "name")), found.at[name]))
            own.add(name)
            _put(found, manifest, path, name, maps)
    return found


def _put(
    found: Environment, manifest: Manifest, path: Path, name: str, maps: Mapping[str, Manifest]
) -> None:
    each = look(manifest.data, *path)
    found.values.pop(name, None)
    found.opaque.discard(name)
    value = look(each, "value")
    if look(each, "valueFrom") is None:
        found.values[name] = value if isinstance(value, str) else ""
        at = "name" if value is None else "value"
        found.at[name] = manifest.place((*path, at))
        return
    found.at[name] = manifest.place((*path, "name"))
    key = text(each, "valueFrom", "configMapKeyRef", "key")
    source = maps.get(text(each, "valueFrom", "configMapKeyRef", "name") or "")
    known = None if source is None or key is None else text(source.data, "data", key)
    if known is None:
        found.opaque.add(name)
    else:
        found.values[name] = known
