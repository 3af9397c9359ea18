"""The command line and environment of a replica, byte for byte the same from the same plan.

What stands in it is data of the engine profile; this fills in the model, the served names and the
settings. `{host}`, `{port}`, `{python}` and `{config}` stay open for whoever starts it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmd_ctl.profiles.accelerator import EngineOn
from llmd_ctl.profiles.engine import Engine

HUGGING_FACE = "hf://"


@dataclass(frozen=True)
class Served:
    """The model a replica serves: what the engine loads, and under which names it answers."""

    model: str
    names: tuple[str, ...]
    local: bool


def command_of(
    engine: Engine, executable: str | None, served: Served, settings: Sequence[str]
) -> tuple[str, ...]:
    """Return the argv of a replica."""
    launch = (executable,) if executable is not None else engine.spec.launch
    fills = {
        "{engine}": launch,
        "{model}": (served.model,),
        "{names}": served.names,
        "{name}": served.names[:1],
        "{nameList}": (",".join(served.names),),
    }
    start = tuple(word for part in engine.spec.command for word in fills.get(part, (part,)))
    return (*start, *settings)


def environment_of(engine: Engine, on: EngineOn, served: Served) -> dict[str, str]:
    """Return the environment variables of a replica, sorted; the accelerator's win."""
    local = engine.spec.local_model_env if served.local else {}
    merged = {**engine.spec.env, **local, **on.env}
    return {name: merged[name].value for name in sorted(merged)}
