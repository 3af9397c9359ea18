"""The command line and environment of a replica, byte for byte the same from the same plan.

What stands in it is data of the engine profile; this fills in the model, the served names and the
settings. `{host}`, `{port}`, `{python}` and `{config}` stay open for whoever starts it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from llmd_ctl.profiles.accelerator import EngineOn
from llmd_ctl.profiles.engine import Engine
from llmd_ctl.profiles.several import Several

HUGGING_FACE = "hf://"


class Served(Struct, frozen=True):
    """The model a replica serves: what the engine loads, and under which names it answers."""

    model: str
    names: tuple[str, ...]
    local: bool


def command_of(
    engine: Engine,
    executable: str | None,
    served: Served,
    settings: Sequence[str],
    *,
    in_image: bool = False,
) -> tuple[str, ...]:
    """Return the argv of a replica."""
    launch = (in_image and engine.spec.image_launch) or engine.spec.launch
    if executable is not None:
        launch = (executable,)
    fills = {
        "{engine}": launch,
        "{model}": (served.model,),
        "{names}": served.names,
        "{name}": served.names[:1],
        "{nameList}": (",".join(served.names),),
    }
    start = tuple(word for part in engine.spec.command for word in fills.get(part, (part,)))
    return (*start, *settings)


def environment_of(engine: Engine, on: EngineOn, served: Served, hosts: int = 1) -> dict[str, str]:
    """Return the environment variables of a replica, sorted; the accelerator's win."""
    local = engine.spec.local_model_env if served.local else {}
    merged = {**engine.spec.env, **local, **on.env}
    several = several_of(engine, on)
    joined = several.env if several is not None and hosts > 1 else {}
    return dict(sorted({**{name: each.value for name, each in merged.items()}, **joined}.items()))


def several_of(engine: Engine, on: EngineOn) -> Several | None:
    """Return how a replica spans hosts: the accelerator's way, else the engine's own."""
    return on.several or engine.spec.several


def on_hosts(words: Sequence[str], command: tuple[str, ...], hosts: int) -> tuple[str, ...]:
    """Return the argv of one host of a replica that spans several."""
    fills = {"{command}": command, "{hosts}": (str(hosts),)}
    return tuple(word for part in words for word in fills.get(part, (part,)))
