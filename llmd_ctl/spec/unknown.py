"""What an unknown key was most likely meant to be: for hints.

Called by `translate`. It knows the words that people bring from other tools. It judges nothing:
what it is asked about was refused already. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from llmd_ctl.errors import closest
from llmd_ctl.spec import not_yet, shape
from llmd_ctl.spec.kinds import written
from llmd_ctl.spec.nodes import Node
from llmd_ctl.spec.spacing import slip

_DEGREES = {
    "tensor": ("tensor", "tensorparallel", "tensorparallelsize", "tp", "tpsize"),
    "pipeline": ("pipeline", "pipelineparallel", "pipelineparallelsize", "pp", "ppsize"),
    "data": ("data", "dataparallel", "dataparallelsize", "dp", "dpsize"),
    "expert": ("expert", "expertparallel", "expertparallelsize", "ep", "epsize"),
}
_COUNTS = ("gpu", "gpus", "gpucount", "numgpus", "devices", "tpus", "chips")
_DEGREE_OF = {word: degree for degree, words in _DEGREES.items() for word in words}
_DEGREE_OF |= dict.fromkeys(_COUNTS, "tensor")
_KIND = "accelerator: and the name of a profile, such as nvidia-h100"
_PORT = (
    "Remove the key: no port can be set. The router takes 8000 or the next free one, and "
    "`llmd-ctl status` says which."
)
_PERCENTILES = {
    **dict.fromkeys(("p75", "p80", "p90"), "Write p95: {value}."),
    **dict.fromkeys(("p999", "max"), "Write p99: {value}."),
    **dict.fromkeys(("mean", "avg", "average", "median"), "Write p50: {value}."),
}

# Map by map: what people write, without case, - and _, and what to do.
SYNONYMS: dict[str, dict[str, str]] = {
    "spec.models[].variants[]": {
        **{
            word: f"Write parallelism: {{{{{degree}: {{value}}}}}}."
            for word, degree in _DEGREE_OF.items()
        },
        **dict.fromkeys(("device", "hardware", "gputype", "accelerators"), f"Write {_KIND}."),
        **dict.fromkeys(("count", "instances", "replicacount"), "Write replicas: {value}."),
        **dict.fromkeys(("args", "flags", "extraflags"), "Write extraArgs: [--FLAG, VALUE]."),
    },
    "spec.models[].variants[].parallelism": {
        word: f"Write {degree}: {{value}}." for word, degree in _DEGREE_OF.items()
    },
    "spec.inventory[]": {
        **dict.fromkeys(
            ("count", "quantity", "total", "number", "size", *_COUNTS),
            "Write devicesPerNode for the devices of one machine, and nodes for the machines.",
        ),
        **dict.fromkeys(("gpuspernode", "gpuspermachine"), "Write devicesPerNode: {value}."),
        **dict.fromkeys(("machines", "hosts", "servers"), "Write nodes: {value}."),
        **dict.fromkeys(("price", "cost", "priceperhour"), "Write pricePerDeviceHour: {value}."),
    },
    "spec.models[].slo": {
        **dict.fromkeys(("tpot", "tbt", "intertokenlatency", "timeperoutputtoken"), "Write itl."),
        **dict.fromkeys(("timetofirsttoken", "firsttoken"), "Write ttft."),
        "latency": "Write ttft for the first token, itl for the time between tokens.",
    },
    "spec.models[].slo.ttft": _PERCENTILES,
    "spec.models[].slo.itl": _PERCENTILES,
    "spec.models[]": {
        **dict.fromkeys(("model", "id", "path", "source", "repo"), "Write uri: {value}."),
        **dict.fromkeys(("contextlength", "maxlen", "maxcontext"), "Write maxModelLen: {value}."),
        **dict.fromkeys(_COUNTS, "Write parallelism: {{tensor: {value}}} in each variant."),
    },
    "spec.router": dict.fromkeys(("port", "host", "listen", "address"), _PORT),
    "spec": {"port": _PORT},
}


class Meant(Struct, frozen=True):
    """What to write instead of a key; `key` is the one of the same map that it stands for."""

    hint: str | None
    key: str | None = None


def meant(key: str, home: str, beside: Mapping[str, Node], line: str) -> Meant:
    """Say what a key of the map at `home` may be meant for, which holds `beside`.

    `line` is the line of the file, from the key on.

    Where nothing is near it is said where such a key belongs, if it is known elsewhere.
    """
    allowed, value = shape.keys_at(home), beside.get(key)
    slipped = slip(key if value is None or value.value is None else line)
    if slipped is not None and (not slipped.key or slipped.key in allowed):
        return Meant(slipped.hint, slipped.key or None)
    word = key.casefold().replace("-", "").replace("_", "")
    synonym = SYNONYMS.get(home, {}).get(word)
    if word == "gpu" and "accelerator" in allowed and value and isinstance(value.value, str):
        synonym = f"Write {_KIND}."
    if synonym is not None:
        hint = synonym.format(value=written(value) or "…")
        if hint.startswith("Write parallelism: ") and "parallelism" in beside:
            hint = f"Write {hint.partition('{')[2].rstrip('}.')} under parallelism."
        first = hint.removeprefix("Write ").partition(":")[0].rstrip(".")
        return Meant(hint, first if first in allowed else None)
    near = closest(key, allowed)
    if near is not None:
        return Meant(f"Write {near}, or remove the key.", near)
    homes = sorted({*shape.HOMES.get(key, ()), *not_yet.homes_of(key)})
    if not homes:
        return Meant(None)
    return Meant(f"{key} belongs in {' or '.join(home or 'the top' for home in homes)}.")
