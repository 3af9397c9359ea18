"""Rules on what stands inside a flag: keys, types and limits, by the engine's own table (`inside`).

They ask what a configuration class of the engine would refuse by itself; what hangs together with
other flags stands in the tables beside this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llmd_ctl.errors import closest
from llmd_ctl.profiles.inside import Amiss, faults
from llmd_ctl.profiles.rules.adapters import OF_ADAPTERS
from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.multimodal import OF_IMAGES, takes_images
from llmd_ctl.profiles.rules.rule import Rule

ADDITIONAL = "--additional-config"


def _amiss(line: Line) -> list[tuple[str, Amiss]]:
    table = line.engine.spec.inside
    said = [
        (flag, each) for flag, each in line.given.items() if flag in table and _read(line, flag)
    ]
    return [(flag, fault) for flag, value in said for fault in faults(table[flag], value)]


def _read(line: Line, flag: str) -> bool:
    """Whether the engine makes the configuration that a flag is of: nothing else checks it."""
    if flag in OF_IMAGES:
        return takes_images(line)
    return line.on_by("--enable-lora") if flag in OF_ADAPTERS else True


def _keys(line: Line) -> list[tuple[str, Amiss]]:
    return [(flag, fault) for flag, fault in _amiss(line) if fault.unknown]


def _values(line: Line) -> list[tuple[str, Amiss]]:
    return [(flag, fault) for flag, fault in _amiss(line) if not fault.unknown]


def _unknown(line: Line) -> Mapping[str, object]:
    found = _keys(line)
    return {"flag": found[0][0], "names": ", ".join(fault.path for _, fault in found)}


def _wrong(line: Line) -> Mapping[str, object]:
    found = _values(line)
    told = [f"{_named(flag, fault)} is {fault.value}" for flag, fault in found]
    return {"flag": found[0][0], "told": "; ".join(told)}


def _named(flag: str, fault: Amiss) -> str:
    return f"{flag}.{fault.path}" if fault.path else flag


def _near(line: Line) -> tuple[str, ...]:
    fault = _keys(line)[0][1]
    near = closest(fault.path.rpartition(".")[2], fault.of)
    return (near,) if near is not None else fault.of


def _unread(line: Line) -> tuple[str, ...]:
    """Keys of --additional-config that the accelerator's plugin is known not to read."""
    known = line.on.additional.get(line.version, ())
    maps = {name.partition(".")[0] for name in known if "." in name}
    return tuple(key for key in _inside(line, maps) if key not in known)


def _inside(line: Line, maps: set[str]) -> Iterator[str]:
    """The keys of --additional-config; those inside these maps behind a dot."""
    said = line.given.get(ADDITIONAL)
    for key, value in said.items() if isinstance(said, Mapping) else ():
        if key not in maps:
            yield str(key)
        elif isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value)


def _near_read(line: Line) -> tuple[str, ...]:
    known = line.on.additional[line.version]
    near = closest(_unread(line)[0], known)
    return (near,) if near is not None else known


RULES = (
    Rule(
        "V55",
        "The keys inside a flag are the engine's",
        when=lambda line: line.is_tabled,
        require=lambda line: not _keys(line),
        message="{flag} has no key {names}",
        remedy="Correct the key, or leave it out: the engine refuses what it does not know.",
        allowed=_near,
        words=_unknown,
        at=("{flag}",),
        source="vLLM 0.32.0 config/utils.py:71: extra fields are forbidden",
    ),
    Rule(
        "V56",
        "Numbers and words inside a flag are such as the engine takes",
        when=lambda line: line.is_tabled,
        require=lambda line: not _values(line),
        message="{told}, which the engine refuses",
        remedy="Write one of the values that are allowed there, or leave it out.",
        allowed=lambda line: _values(line)[0][1].of,
        words=_wrong,
        at=("{flag}",),
        source="vLLM 0.32.0 config/*.py: types and limits of fields",
    ),
    Rule(
        "R15",
        "Keys of --additional-config are fields of Rebellions' configuration",
        when=lambda line: line.version in line.on.additional,
        require=lambda line: not _unread(line),
        message="{on.package} {version} refuses {names} of --additional-config",
        remedy="Correct the key, or leave it out.",
        allowed=_near_read,
        words=lambda line: {"names": ", ".join(_unread(line))},
        at=(ADDITIONAL,),
        source="vllm-rbln 0.12.0 config.py: _resolve",
        platforms=("rbln",),
    ),
    Rule(
        "V160",
        "Keys of --additional-config are ones that the plugin reads",
        when=lambda line: line.version in line.on.additional,
        require=lambda line: not _unread(line),
        message="{on.package} {version} reads no {names} of --additional-config",
        remedy="Correct the key, or leave it out.",
        allowed=_near_read,
        words=lambda line: {"names": ", ".join(_unread(line))},
        at=(ADDITIONAL,),
        severity="warning",
        source="tpu-inference 0.32.0, vllm-ascend 0.23.0.post1, vllm-gaudi 091bbad: what each gets;"
        " AWS Neuron docs 2.33.0",
        platforms=("tpu", "npu", "hpu", "neuron"),
    ),
)
