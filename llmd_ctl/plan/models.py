"""The model of a fleet as numbers: found by its uri, read once, problems placed at the uri.

Called by `variant`. A Hugging Face model is known by a profile; a local one by what the caller read
of it (`Observed.models`). A profile of the user's that has the model's name comes first. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from llmd_ctl.plan.command import HUGGING_FACE, Served
from llmd_ctl.plan.observed import Observed
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.profiles.catalog import Catalog, UnknownProfile
from llmd_ctl.profiles.engine import Engine
from llmd_ctl.profiles.model import ConfigError, LocalModel, ModelSpec
from llmd_ctl.profiles.rules.line import version_of
from llmd_ctl.profiles.shape import DTYPES, ModelShape, read_shape
from llmd_ctl.spec import fleet as spec
from llmd_ctl.spec.json_text import read_json

OWN_DTYPES = frozenset({"auto", ""})
Shapes = dict[tuple[str, int, bool, str], ModelShape]
"""Models that were read, by uri, engine (the catalog has each once), exact or not, and type."""


class ModelReader:
    """Reads one model for its variants."""

    def __init__(
        self,
        catalog: Catalog,
        observed: Observed,
        report: Report,
        model: spec.Model,
        path: Path,
        known: Shapes,
    ) -> None:
        """`known`: what was read for other models of the fleet, which may be the same weights."""
        self._known = known
        self._catalog = catalog
        self._report = report
        self._model = model
        self._path: Path = (*path, "uri")
        self._local = observed.models.get(model.uri)
        self._shapes: dict[tuple[str, str], ModelShape | None] = {}

    @property
    def is_local(self) -> bool:
        """Whether the model lies on this machine."""
        return not self._model.uri.startswith(HUGGING_FACE)

    def shape(self, engine: Engine, dtype: str, *, exact: bool) -> ModelShape | None:
        """Return the model's numbers for an engine; None is reported.

        `exact`: the engine will load the weights, so they must be there in its form.
        """
        key = (engine.name if exact else "", dtype)
        if key not in self._shapes:
            try:
                self._shapes[key] = self._read(engine, dtype, exact=exact)
            except ConfigError as error:
                self._shapes[key] = None
                self._say(error)
        return self._shapes[key]

    def served(self, engine: Engine) -> Served:
        """Return what an engine loads and the names it answers to."""
        names = (self._model.name, *self._model.aliases)
        local = self._local or LocalModel()
        path = local.gguf_path if engine.spec.weights == "gguf" else local.path
        name = self._model.uri.removeprefix(HUGGING_FACE) if not self.is_local else path
        return Served(name or self._model.uri, names, self.is_local)

    def _say(self, error: ConfigError) -> None:
        self._report.add(
            error.code, f"{self._model.name}: {error}", self._path,
            found=error.found, allowed=error.allowed, hint=error.hint,
        )  # fmt: skip

    def _read(self, engine: Engine, dtype: str, *, exact: bool) -> ModelShape:
        key = (self._model.uri, id(engine), exact, dtype)
        if key not in self._known:
            self._known[key] = self._read_anew(engine, dtype, exact=exact)
        return self._known[key]

    def _read_anew(self, engine: Engine, dtype: str, *, exact: bool) -> ModelShape:
        config, weight_bytes = self._config(engine, exact=exact)
        families = self._catalog.families
        asked = None if dtype in OWN_DTYPES else DTYPES.get(dtype)
        shape = read_shape(config, families, dtype=asked, weight_bytes=weight_bytes)
        made = engine.spec.auto_dtype.get(shape.dtype)
        if asked is None and made is not None and made != shape.dtype:
            shape = read_shape(config, families, dtype=made, weight_bytes=weight_bytes)
        return replace(shape, notes=(*shape.notes, *self._doubts()))

    def _doubts(self) -> tuple[str, ...]:
        """What a profile says is not confirmed of the model's config."""
        spec = self._spec()
        if spec is None or not spec.unconfirmed:
            return ()
        return (f"not confirmed of the model's config ({spec.confidence}): {spec.unconfirmed}",)

    def _config(self, engine: Engine, *, exact: bool) -> tuple[Mapping[str, Any], float | None]:
        """Return the config.json's content, and the bytes of the weights where they are known."""
        local = self._local
        gguf = engine.spec.weights == "gguf"
        if exact or (gguf and not self.is_local):
            self._check_form(engine, local)
        if local is not None and local.gguf_config and (gguf or not local.config):
            config = _parsed(local.gguf_config)
            return config, float(config["weight_bytes"]) if "weight_bytes" in config else None
        spec = self._spec()
        if spec is not None:
            return spec.config, spec.weight_bytes.value if spec.weight_bytes else None
        if local is not None and local.config is not None:
            return _parsed(local.config), None
        raise self._unknown()

    def _spec(self) -> ModelSpec | None:
        try:
            return self._catalog.model(self._model.uri.removeprefix(HUGGING_FACE)).spec
        except UnknownProfile:
            return None

    def check_version(self, engine: Engine, version: str, path: Path) -> bool:
        """Report an engine that is older than the first one that knows the model."""
        spec = self._spec()
        first = spec.min_version.get(engine.name) if spec is not None else None
        if first is None or version_of(version) >= version_of(first):
            return True
        self._report.add(
            "LC3029", f"{engine.name} {version} does not know {self._model.uri}", path,
            found=version, allowed=(f"{first} or newer",),
        )  # fmt: skip
        return False

    def _check_form(self, engine: Engine, local: LocalModel | None) -> None:
        """The weights must be in the form that the engine reads."""
        if engine.spec.weights == "gguf":
            if local is None or local.gguf_path is None:
                raise ConfigError(
                    "LC2034",
                    f"{engine.name} reads a GGUF file, and this model has none here",
                    found=(local.problem if local else None) or self._model.uri,
                    hint="Give the path of a .gguf file, or of a folder that holds one.",
                )
        elif self.is_local and (local is None or local.path is None):
            raise ConfigError(
                "LC2034",
                f"{engine.name} reads a folder with config.json and weights, and none is there",
                found=(local.problem if local else None) or self._model.uri,
                hint="Give the path of the model's folder.",
            )

    def _unknown(self) -> ConfigError:
        if self.is_local:
            problem = self._local.problem if self._local else None
            return ConfigError(
                "LC2034", "the model cannot be read", found=problem or self._model.uri,
                hint="Give the path of a folder with a config.json, or of a GGUF file.",
            )  # fmt: skip
        name = self._model.uri.removeprefix(HUGGING_FACE)
        return ConfigError(
            "LC2012",
            f"nothing is known of {name}, so its fit cannot be told",
            found=name,
            allowed=self._catalog.names("ModelProfile"),
            hint="Give a ModelProfile with its config.json (spec.profiles), or a local folder.",
        )


def _parsed(text: str) -> Mapping[str, Any]:
    if not text.strip():
        hint = "Download the model again; `git lfs pull` fetches what a clone left out."
        raise ConfigError("LC2034", "the model's config.json is empty", hint=hint)
    try:
        config = read_json(text)
    except ValueError as error:
        raise ConfigError("LC2034", f"the model's config.json is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError("LC2034", "the model's config.json holds no JSON object")
    return config
