"""An engine's command line as rules see it: what is said, on which accelerator, of which model.

Made by `plan.line` for a variant of a fleet and for a line that somebody else wrote; read by the
rules beside this file and by nobody else. It answers questions and judges nothing. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Literal

from msgspec import Struct, field

from llmd_ctl.profiles.accelerator import Accelerator, AcceleratorSpec, EngineOn
from llmd_ctl.profiles.engine import Engine
from llmd_ctl.profiles.kernel import Kernel
from llmd_ctl.profiles.shape import DTYPES, ModelShape
from llmd_ctl.spec.json_text import read_json

# What vLLM calls the ports of an engine to a vendor's accelerators.
Platform = Literal["cuda", "rocm", "tpu", "hpu", "xpu", "cpu", "npu", "rbln", "neuron"]
PLATFORMS: Mapping[str, Platform] = {
    "nvidia": "cuda", "amd": "rocm", "google": "tpu", "cpu": "cpu",
    "ascend": "npu", "rebellions": "rbln", "aws": "neuron", "intel": "xpu",
}  # fmt: skip
ON = frozenset({"1", "true", "t", "yes", "y", "on"})  # what is read as yes in a variable
DRAFT_FLAGS = {
    "--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens",
}  # fmt: skip
LATENT = frozenset({"mla", "dsa", "deepseek-v4"})


def platform_of(spec: AcceleratorSpec) -> Platform | None:
    """Return the port that an accelerator needs; None for a vendor that is not known."""
    return "hpu" if spec.architecture.startswith("gaudi") else PLATFORMS.get(spec.vendor)


@cache
def version_of(text: str) -> tuple[int, ...]:
    """Return a version as numbers; what is no number ends it."""
    words = (re.match(r"[0-9]{1,9}", word) for word in text.lstrip("v").split("."))
    return tuple(int(word[0]) for word in words if word is not None)


class Line(Struct, frozen=True, dict=True):
    """One command line. `given` holds flags that a user or a profile set, as the engine reads them.

    JSON is read, and what stands behind a dot (`--attention-config.backend`) is a key inside it.
    """

    engine: Engine
    on: EngineOn
    version: str
    accelerator: Accelerator
    model_uri: str  # as a fleet has it
    model: ModelShape
    devices: int | None = None  # of the replica; None: the plan has still to choose
    given: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    set_by: Mapping[str, str] = field(default_factory=dict)  # flags that no user wrote: who did

    # --- what is said ---

    def __getitem__(self, flag: str) -> Any:
        """The effective value of a flag: what is said, else the engine's default here, or None."""
        return self._effective.get(flag)

    @cached_property
    def _effective(self) -> Mapping[str, Any]:
        settings = {flag: setting.value for flag, setting in self.on.settings.items()}
        return {**self.engine.spec.defaults, **settings, **self.given}

    def says(self, *flags: str) -> bool:
        """Whether one of these flags is set, to whatever."""
        return not self.given.keys().isdisjoint(flags)

    def on_by(self, flag: str) -> bool:
        """Whether a switch is on."""
        return self[flag] is True

    def told(self, flag: str) -> int:
        """The whole number of a flag; 0 where nobody says one."""
        value = self[flag]
        return value if type(value) is int else 0

    def inside(self, flag: str, *keys: str) -> Any:
        """The value at a key inside a flag's JSON; None where nothing is said."""
        value = self.given.get(flag)
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def switched(self, variable: str) -> bool:
        """Whether a variable of the environment is on."""
        return self.env.get(variable, "").strip().lower() in ON

    @property
    def connector(self) -> str | None:
        """The connector that hands the KV cache over; None: none is named."""
        named = self.inside("--kv-transfer-config", "kv_connector")
        return None if named is None else str(named)

    @cached_property
    def draft(self) -> Mapping[str, Any]:
        """How tokens are drafted: --speculative-config, with what single flags say of it."""
        config = self.given.get("--speculative-config")
        made = dict(config) if isinstance(config, dict) else {}
        for flag, key in DRAFT_FLAGS.items():
            if flag in self.given:
                made.setdefault(key, self.given[flag])
        return made

    @property
    def draft_method(self) -> Any:
        """How tokens are drafted, where the line says it."""
        return self.draft.get("method")

    @cached_property
    def connectors(self) -> tuple[str, ...]:
        """The KV connectors in use, those inside a MultiConnector too."""
        config = self.transfer
        own = config.get("kv_connector")
        extra = config.get("kv_connector_extra_config")
        inner = extra.get("connectors") if isinstance(extra, dict) else None
        inside = inner if own == "MultiConnector" and isinstance(inner, list) else []
        names = [each.get("kv_connector") for each in inside if isinstance(each, dict)]
        return tuple(name for name in (own, *names) if isinstance(name, str))

    @cached_property
    def transfer(self) -> Mapping[str, Any]:
        """--kv-transfer-config as the engine has it: --kv-offloading-size overrules it."""
        config = self.given.get("--kv-transfer-config")
        made = dict(config) if isinstance(config, dict) else {}
        if self.given.get("--kv-offloading-size") is not None:
            simple = self.env.get("VLLM_USE_SIMPLE_KV_OFFLOAD", "0") not in ("", "0")
            native = "SimpleCPUOffloadConnector" if simple else "OffloadingConnector"
            lmcache = self["--kv-offloading-backend"] == "lmcache"
            made["kv_connector"] = "LMCacheMPConnector" if lmcache else native
            made["kv_role"] = "kv_both"
        return made

    def role(self, role: str) -> Any:
        """The effective value of what a plan calls by this name (`EngineSpec.roles`)."""
        flag = self.engine.spec.roles.get(role)
        return self.engine.spec.assumed.get(role) if flag is None else self[flag]

    def flag(self, role: str) -> str:
        """The flag of a role, for messages."""
        return self.engine.spec.roles.get(role, role)

    def _whole(self, role: str, default: int) -> int:
        value = self.role(role)
        return value if type(value) is int else default

    @property
    def tensor(self) -> int:
        """Devices that share each layer; 1 while nothing is said."""
        return self._whole("tensor", 1)

    @property
    def pipeline(self) -> int:
        """Stages of layers."""
        return self._whole("pipeline", 1)

    @property
    def data(self) -> int:
        """Copies of attention in one replica."""
        return self._whole("data", 1)

    @property
    def block_size(self) -> int | None:
        """Tokens of a KV block, where somebody says it."""
        value = self.given.get(self.flag("blockSize"))
        return value if type(value) is int else None

    @property
    def kv_dtype(self) -> str:
        """The type of the KV cache in the engine's words; auto is the model's."""
        return str(self.role("kvDtype") or "auto")

    @property
    def dtype(self) -> str:
        """What is computed with: bf16, fp16 or fp32."""
        said = str(self.role("dtype") or "auto")
        return DTYPES.get(said, self.model.dtype)

    @property
    def kind(self) -> str:
        """The class of the model; a latent can be turned into plain keys and values."""
        own = self.model.traits.kind
        off = self.env.get("VLLM_MLA_DISABLE", "0") not in ("", "0")
        return "dense" if off and own == "mla" else own

    @property
    def is_latent(self) -> bool:
        """Whether every layer of the model keeps one latent for all heads, as it was made."""
        return self.model.traits.kind in LATENT

    @property
    def latent(self) -> bool:
        """Whether dense attention over a latent is what the engine looks for a backend of."""
        held = any(group.what == "latent" for group in self.model.cache)
        return self.kind == "mla" or (held and self.kind == "hybrid")

    @property
    def images_see_whole(self) -> bool:
        """Whether tokens of an image attend both ways; not where no images are taken in."""
        return self.model.traits.images_see_whole and not self.on_by("--language-model-only")

    @property
    def is_tabled(self) -> bool:
        """Whether the engine's tables are of the very version that runs, and not of a near one."""
        return self.engine.spec.version == self.version

    def at_least(self, version: str) -> bool:
        """Whether the engine is of this version or a later one."""
        return version_of(self.version) >= version_of(version)

    # --- where it runs ---

    @cached_property
    def platform(self) -> Platform | None:
        """Which port of the engine runs here."""
        return platform_of(self.accelerator.spec)

    @property
    def architecture(self) -> str:
        """The accelerator's, as compilers call it: sm90, gfx942."""
        return self.accelerator.spec.architecture

    @property
    def title(self) -> str:
        """Engine and accelerator, for messages."""
        return f"{self.engine.name} {self.version} on {self.accelerator.name}"

    # --- attention ---

    @property
    def backend(self) -> str | None:
        """The attention backend that the line names; None: the engine chooses."""
        named = self.given.get("--attention-backend") or self.inside(
            "--attention-config", "backend"
        )
        return str(named).upper() if named else None

    @cached_property
    def kernel(self) -> Kernel | None:
        """What is known of the named backend on this architecture."""
        return self.engine.kernel(self.backend, self.architecture) if self.backend else None

    @cached_property
    def choices(self) -> tuple[tuple[str, Kernel], ...]:
        """The backends that the engine tries for this class of model, where that is known.

        Those that a variable of the environment switches on are tried where it does.
        """
        known = self.on.attention.get("mla" if self.latent else self.kind)
        names = known.order if known is not None else ()
        found = ((name, self.engine.kernel(name, self.architecture)) for name in names)
        return tuple(
            (name, kernel)
            for name, kernel in found
            if kernel is not None and (not kernel.env or self.switched(kernel.env))
        )


def given_of(settings: Mapping[str, Any], json_flags: frozenset[str]) -> dict[str, Any]:
    """Return settings with their JSON read and dotted keys put inside the flag that they are of."""
    out: dict[str, Any] = {}
    for flag in sorted(settings):  # a flag stands before its dotted keys
        base, _, inner = flag.partition(".")
        value = settings[flag]
        if base not in json_flags:
            out[flag] = value
        elif not inner:
            out[flag] = _read(value)
        else:
            _put(out.setdefault(base, {}), inner.split("."), _read(value))
    return out


def _put(under: Any, keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        if not isinstance(under, dict):
            return
        under = under.setdefault(key, {})
    if isinstance(under, dict):
        under[keys[-1]] = value


def _read(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return read_json(value)
    except ValueError:
        return value
