"""The grid: accelerator × engine version × KV type × attention backend × class of model.

All of it is half a million lines. What is made here covers every two values together, on each
accelerator: every backend with every KV type, and with each of the two every class of model and
every version.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from llmd_ctl.profiles import Catalog
from llmd_ctl.profiles.accelerator import Accelerator
from llmd_ctl.profiles.rules import Line, check
from llmd_ctl.profiles.shape import ModelShape, read_shape

CATALOG = Catalog()
MODELS = {
    "dense": "Qwen/Qwen3-8B",
    "sinks": "openai/gpt-oss-20b",
    "mla": "deepseek-ai/DeepSeek-V3",
    "dsa": "deepseek-ai/DeepSeek-V3.2",
    "deepseek-v4": "deepseek-ai/DeepSeek-V4-Flash",
    "hybrid": "Qwen/Qwen3.5-27B",
}
BEST = CATALOG.engine("vllm")
VERSIONS = tuple(
    sorted(
        name.partition("@")[2]
        for name in CATALOG.names("EngineProfile")
        if name.startswith("vllm@")
    )
)
ENGINES = {version: CATALOG.engine("vllm", version) for version in VERSIONS}
BACKENDS: tuple[str | None, ...] = (None, *sorted(BEST.spec.attention))
KV_TYPES = BEST.spec.flags["--kv-cache-dtype"].choices
ACCELERATORS = tuple(
    name
    for name in CATALOG.names("AcceleratorProfile")
    if "vllm" in CATALOG.accelerator(name).spec.engines
)


@dataclass(frozen=True)
class Cell:
    """One line of the grid, and the rules that refuse it."""

    accelerator: Accelerator
    version: str
    kind: str
    backend: str | None
    kv_type: str
    rules: tuple[str, ...]


def shapes() -> dict[str, ModelShape]:
    """A model of each class."""
    return {
        kind: read_shape(CATALOG.model(name).spec.config, CATALOG.families)
        for kind, name in MODELS.items()
    }


def versions_of(accelerator: Accelerator) -> tuple[str, ...]:
    """The versions of the engine that go with an accelerator: that of its port, or all."""
    own = accelerator.spec.engines["vllm"].version
    return VERSIONS if own is None else (own,)


def cells(name: str, models: dict[str, ModelShape]) -> Iterator[Cell]:
    """The cells of one accelerator."""
    accelerator = CATALOG.accelerator(name)
    kinds, versions = list(models), versions_of(accelerator)
    for row, backend in enumerate(BACKENDS):
        for column, kv_type in enumerate(KV_TYPES):
            kind = kinds[(row + column) % len(kinds)]
            version = versions[(row - column) % len(versions)]
            rules = refusing(accelerator, version, models[kind], backend, kv_type)
            yield Cell(accelerator, version, kind, backend, kv_type, rules)


def refusing(
    accelerator: Accelerator, version: str, shape: ModelShape, backend: str | None, kv_type: str
) -> tuple[str, ...]:
    """The rules that refuse a cell."""
    on = accelerator.spec.engines["vllm"]
    # A block is as the plan would choose it: what the backend takes (`plan.line.choose_blocks`).
    own = {f: s.value for f, s in on.settings.items() if f != "--block-size" or s.must}
    named = {} if backend is None else {"--attention-backend": backend}
    engine = ENGINES.get(version, BEST)
    choices = engine.spec.flags["--kv-cache-dtype"].choices  # none: its parser takes any
    read = not choices or kv_type in choices
    said = {} if kv_type == "auto" or not read else {"--kv-cache-dtype": kv_type}
    line = Line(
        engine=engine,
        on=on,
        version=version,
        accelerator=accelerator,
        model_uri="hf://a/model",
        model=shape,
        given={**own, **named, **said},
        env={variable: each.value for variable, each in on.env.items()},
    )
    refused = (found.rule for found in check(line) if found.rule.severity == "error")
    rules = tuple(sorted(rule.id for rule in refused if not rule.sized))
    if not read:
        rules = (*rules, "LC2021")
    if on.kv_dtypes and kv_type not in on.kv_dtypes:
        rules = (*rules, "LC3017")
    return rules
