"""Command lines as rules see them, made from the words of an engine's own command line.

What a fleet may not say yet (`reserved`, `notYet`) is a matter of fleets, not of the engine: here
every flag of its parser is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml
from msgspec.structs import replace

from llmd_ctl.plan.flags import FlagReader
from llmd_ctl.plan.report import Report
from llmd_ctl.profiles.catalog import Catalog
from llmd_ctl.profiles.engine import Engine
from llmd_ctl.profiles.rules import Finding, Line, check, given_of
from llmd_ctl.profiles.shape import ModelShape, read_shape

CATALOG = Catalog.load()
MODELS: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[3] / "fixtures" / "truth_models.yaml").read_text()
)


@dataclass
class Heard:
    """What a reader of flags complains about."""

    problems: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def add(self, code: str, message: str, _path: object, **more: object) -> None:
        warns = more.get("severity") == "warning"
        (self.told if warns else self.problems).append(message if warns else f"{code}: {message}")


@dataclass(frozen=True)
class Judged:
    """What is found wrong with a line."""

    unread: list[str]
    findings: list[Finding]
    read: list[str] = field(default_factory=list)  # what the reader warned of

    @property
    def errors(self) -> list[str]:
        refused = [found for found in self.findings if found.rule.severity == "error"]
        return [*self.unread, *(f"{found.rule.id}: {found.message}" for found in refused)]

    @property
    def warnings(self) -> list[str]:
        told = [found for found in self.findings if found.rule.severity == "warning"]
        return [*self.read, *(f"{found.rule.id}: {found.message}" for found in told)]

    def says(self, rule: str) -> str | None:
        """What a rule says: error, warning, or nothing."""
        told = {"error": self.errors, "warning": self.warnings}
        found = (kind for kind, lines in told.items() for line in lines if _is_of(line, rule))
        return next(found, None)


def _is_of(line: str, rule: str) -> bool:
    return line.startswith(f"{rule}: ")


def judged(
    accelerator: str,
    model: str,
    argv: Sequence[Any],
    *,
    engine: str = "vllm",
    version: str | None = None,
    env: Mapping[str, str] | None = None,
    devices: int | None = None,
    config: Mapping[str, Any] | None = None,
) -> Judged:
    """Read the words of a command line and ask the rules."""
    if engine not in CATALOG.accelerator(accelerator).spec.engines:
        return Judged([f"LC2013: {engine} does not run on {accelerator}"], [])
    line, heard = line_of(
        accelerator, model, argv, engine=engine, version=version, env=env, devices=devices,
        config=config,
    )  # fmt: skip
    return Judged(heard.problems, check(line), heard.told)


def line_of(
    accelerator: str,
    model: str,
    argv: Sequence[Any],
    *,
    engine: str = "vllm",
    version: str | None = None,
    env: Mapping[str, str] | None = None,
    devices: int | None = None,
    config: Mapping[str, Any] | None = None,
    uri: str | None = None,
) -> tuple[Line, Heard]:
    """Read the words of a command line. `config`: what a model has otherwise in its config.json."""
    profile = CATALOG.accelerator(accelerator)
    has_own = f"{engine}@{version}" in CATALOG.names("EngineProfile")
    known = _engine(engine, version if has_own else None)
    known = known.with_flags(profile.spec.engines[engine].flags)
    heard = Heard()
    words = [str(word) for word in argv]
    given = FlagReader(known, cast(Report, heard)).raw(words, ())
    settings = {each.flag: each.value for each in given}
    line = Line(
        engine=known,
        on=profile.spec.engines[engine],
        version=version or known.spec.version,
        accelerator=profile,
        model_uri=uri or f"hf://{model}",
        model=_shape(model) if not config else _shape_of(_merged(_config(model), config)),
        devices=devices,
        given=given_of(settings, known.json_flags),
        env=env or {},
    )
    return line, heard


@cache
def _engine(name: str, version: str | None) -> Engine:
    engine = CATALOG.engine(name, version)
    return replace(engine, spec=replace(engine.spec, reserved={}, not_yet={}))


def knows(model: str) -> bool:
    """Whether rules can be asked about a model."""
    return model in MODELS or model in CATALOG.names("ModelProfile")


@cache
def _shape(name: str) -> ModelShape:
    return _shape_of(_config(name))


def _merged(config: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = {
        key: _merged(config.get(key, {}), value) if isinstance(value, Mapping) else value
        for key, value in more.items()
    }
    return {**config, **inner}


def _shape_of(config: Mapping[str, Any]) -> ModelShape:
    return read_shape(config, CATALOG.families)


def _config(name: str) -> Mapping[str, Any]:
    if name not in MODELS:
        return CATALOG.model(name).spec.config
    said = MODELS[name]
    config = dict(said["config"] if "config" in said else _config(said["like"]))
    config.pop("quantization_config", None)
    if "quantization" in said:
        config["quantization_config"] = said["quantization"]
    if not said.get("images"):
        return config
    tower = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16}
    return {"model_type": config["model_type"], "text_config": config, "vision_config": tower}
