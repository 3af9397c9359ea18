"""What a plan must not say, whoever wrote it: every wrong value at once, with its path.

`impossible` is for every document that is read: names by the rules of fleet files, and ranges.
`unusable` is for a plan file that somebody may have edited: facts, commands and the word
"simulated" have to go together. Called by `records` and by the command line. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from llmd_ctl import perf
from llmd_ctl.errors import Problem, codes
from llmd_ctl.spec import fields

if TYPE_CHECKING:
    from llmd_ctl.plan.records import Plan, PlannedVariant

CODE = "LC3001"
SIMULATED = "sim"
LATE = ConfigDict(defer_build=True)  # a plan that is made and not read needs none of them
NAME: TypeAdapter[str] = TypeAdapter(fields.Name, config=LATE)
SERVED: TypeAdapter[str] = TypeAdapter(fields.ServedName, config=LATE)
ENDPOINT: TypeAdapter[str] = TypeAdapter(fields.EndpointUrl, config=LATE)
COLLECTOR: TypeAdapter[str] = TypeAdapter(fields.CollectorUrl, config=LATE)
# As in fleet files: more is a slip of the finger, and would be started.
MOST_REPLICAS = 10_000
SIGNED = frozenset({"kv_bytes_free"})  # below 0 where the weights alone are too big


def impossible(plan: Plan) -> tuple[Problem, ...]:
    """Everything that no plan can say."""
    return tuple([*_names(plan), *_ranges(plan), *_values(plan, "", signed=False)])


def unusable(plan: Plan) -> tuple[Problem, ...]:
    """Everything for which a plan must not be carried out."""
    found: list[Problem] = []
    if not plan.summary.fits:
        found.append(_problem(".summary.fits", "the plan does not fit", "False"))
    for at, variant in _variants(plan):
        found += _external(variant, at) if not variant.managed else _managed(plan, variant, at)
        found += _facts(variant, at)
    return tuple(found)


# --- names ---


def _names(plan: Plan) -> Iterator[Problem]:
    yield from _of_kind(NAME, plan.fleet, ".fleet")
    if plan.traces is not None:
        yield from _of_kind(COLLECTOR, plan.traces.otlp, ".traces.otlp")
    served: list[tuple[str, str]] = []
    for i, model in enumerate(plan.models):
        at = f".models[{i}]"
        yield from _of_kind(NAME, model.name, f"{at}.name")
        served.append((f"{at}.name", model.name))
        for j, alias in enumerate(model.aliases):
            yield from _of_kind(SERVED, alias, f"{at}.aliases[{j}]")
            served.append((f"{at}.aliases[{j}]", alias))
        named = [(f"{at}.variants[{j}].name", v.name) for j, v in enumerate(model.variants)]
        yield from _repeated(named)
    yield from _repeated(served)
    for at, variant in _variants(plan):
        yield from _of_kind(NAME, variant.name, f"{at}.name")
        yield from _of_kind(NAME, variant.accelerator, f"{at}.accelerator")
        yield from _of_kind(NAME, variant.target, f"{at}.target")
        yield from _of_kind(ENDPOINT, variant.endpoint_url, f"{at}.endpointUrl")
        yield from _of_kind(SERVED, variant.served_name, f"{at}.servedName")


def _of_kind(kind: TypeAdapter[str], value: str | None, at: str) -> Iterator[Problem]:
    try:
        if value is not None:
            kind.validate_python(value)
    except ValidationError as error:
        yield _problem(at, error.errors(include_url=False)[0]["msg"], value)


def _repeated(named: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for at, name in named:
        if name in first:
            yield _problem(at, f"the name is already used in {first[name]}", name)
        first.setdefault(name, at)


# --- ranges ---


def _ranges(plan: Plan) -> Iterator[Problem]:
    if plan.simulate is not None and not plan.simulate.speed > 0:
        yield _problem(".simulate.speed", "a speed is above 0", str(plan.simulate.speed))
    if plan.traces is not None and not plan.traces.sample_ratio <= 1:
        ratio = str(plan.traces.sample_ratio)
        yield _problem(".traces.sampleRatio", "a ratio is from 0 to 1", ratio)
    for i, warning in enumerate(plan.warnings):
        if warning.code not in codes():
            yield _problem(f".warnings[{i}].code", "no such code is known", warning.code)
    for at, variant in _variants(plan):
        if variant.replicas > MOST_REPLICAS:
            message = f"there are at most {MOST_REPLICAS} replicas"
            yield _problem(f"{at}.replicas", message, str(variant.replicas))
        for name, ranks in asdict(variant.parallelism).items():
            if ranks == 0:
                yield _problem(f"{at}.parallelism.{name}", "parallelism is at least 1", "0")


def _values(value: Any, at: str, *, signed: bool) -> Iterator[Problem]:
    """Numbers below 0 where the record does not allow one, and text that is none."""
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            item, where = getattr(value, name), f"{at}.{to_camel(name)}"
            yield from _values(item, where, signed=name in SIGNED)
    elif isinstance(value, Mapping):  # engine flags, environments, facts: checked by their users
        for key, item in value.items():
            yield from _values(key, f"{at}.{key}", signed=True)
            yield from _values(item, f"{at}.{key}", signed=True)
    elif isinstance(value, tuple | list):
        for i, item in enumerate(value):
            yield from _values(item, f"{at}[{i}]", signed=signed)
    elif isinstance(value, str) and not _is_text(value):
        yield _problem(at, "this is no text that a system takes", repr(value))
    elif isinstance(value, int | float) and value < 0 and not signed:
        yield _problem(at, "the number is below 0", str(value))


def _is_text(value: str) -> bool:
    """No NUL, which ends a word for the system, and no half of a character."""
    return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


# --- what has to go together ---


def _managed(plan: Plan, variant: PlannedVariant, at: str) -> Iterator[Problem]:
    if not variant.command:
        yield _problem(f"{at}.command", "a variant that is started needs a command", "nothing")
    if variant.facts is None:
        yield _problem(f"{at}.facts", "a variant that is started needs facts", "nothing")
    if variant.simulated != (variant.engine == SIMULATED):
        message = f"exactly the engine {SIMULATED} is simulated; this one is {variant.engine}"
        yield _problem(f"{at}.simulated", message, str(variant.simulated))
    elif plan.simulate is not None and not variant.simulated:
        yield _problem(f"{at}.simulated", "the plan simulates every engine that it starts", "False")
    if variant.fit is not None and variant.fit.verdict != "fits":
        yield _problem(f"{at}.fit.verdict", "the variant does not fit", variant.fit.verdict)
    if any("=" in name or not name for name in variant.env):
        yield _problem(f"{at}.env", "this is no name of a variable", ", ".join(variant.env))


def _external(variant: PlannedVariant, at: str) -> Iterator[Problem]:
    if variant.simulated:
        yield _problem(f"{at}.simulated", "what runs already is not simulated", "True")
    if variant.command:
        message = "what runs already is not started, so it has no command"
        yield _problem(f"{at}.command", message, " ".join(variant.command))


def _facts(variant: PlannedVariant, at: str) -> Iterator[Problem]:
    try:
        if variant.facts is not None:
            perf.check(perf.ReplicaFacts.from_json(variant.facts))
    except ValueError as error:
        yield _problem(f"{at}.facts", str(error), None)


def _variants(plan: Plan) -> Iterator[tuple[str, PlannedVariant]]:
    for i, model in enumerate(plan.models):
        for j, variant in enumerate(model.variants):
            yield f".models[{i}].variants[{j}]", variant


def _problem(at: str, message: str, found: str | None) -> Problem:
    return Problem(CODE, f"the plan cannot be used: {at}: {message}", found=found)
