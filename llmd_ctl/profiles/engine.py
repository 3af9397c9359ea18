"""What is known of an engine: its flags, what they mean to a plan, and its own overheads.

The types of `kind: EngineProfile`. The flag table of vLLM is generated from its own parser and lies
beside the profile. `roles` ties what the plan decides (`maxModelLen`, `tensor`, …) to flags, so
that no flag's name stands in code.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from llmd_ctl.profiles import number
from llmd_ctl.profiles.accelerator import EnvironmentSetting, PluginFlag, Scalar
from llmd_ctl.profiles.inside import Inside, Variable
from llmd_ctl.profiles.kernel import Kernel
from llmd_ctl.profiles.several import Several

ROLES = (
    "tensor", "pipeline", "data", "expert", "maxModelLen", "maxSequences", "maxBatchedTokens",
    "blockSize", "dtype", "kvDtype", "kvBytes", "utilization", "prefixCaching", "revision",
    "windowKvWhole", "kvTransfer",
)  # fmt: skip
Role = Annotated[str, number.Words(ROLES)]
FlagType = Literal["str", "int", "float", "bool", "json"]


class Flag(Struct, frozen=True):
    """One flag as the engine's parser knows it. `nargs` as in argparse."""

    type: FlagType
    choices: tuple[str, ...] = ()
    nargs: str | None = None
    aliases: tuple[str, ...] = ()
    negatable: bool = False  # whether --no-… exists
    opposites: tuple[str, ...] = ()  # other names that turn it off
    suffixes: bool = False  # whether 16k is 16,000 and 16K 16,384
    auto: bool = False  # whether `auto` is -1


class EngineOverhead(Struct, frozen=True):
    """Time an engine's own code takes on the host."""

    step_us: number.Duration
    sequence_us: number.Duration
    request_us: number.Duration


class Breaking(Struct, frozen=True):
    """Why the router or a plan could not work with a flag; `values`: only with these."""

    reason: str
    values: tuple[Scalar, ...] = ()


class EngineSpec(Struct, frozen=True):
    """The body of an engine profile."""

    version: str
    description: str
    launch: tuple[str, ...]  # how it is started, unless an executable is given
    command: tuple[str, ...]  # what follows, before the settings; see `plan.command`
    overhead: EngineOverhead
    flags: Mapping[str, Flag] = field(default_factory=dict)
    inside: Mapping[str, Inside] = field(default_factory=dict)  # flag to what its value may hold
    removed: Mapping[str, str] = field(default_factory=dict)  # flag that is gone to what to do
    variables: Mapping[str, Variable] = field(default_factory=dict)  # of the environment: read
    attention: Mapping[str, tuple[Kernel, ...]] = field(default_factory=dict)  # by backend
    roles: Mapping[Role, str] = field(default_factory=dict)  # what a plan decides, to its flag
    defaults: Mapping[str, Scalar] = field(default_factory=dict)  # of flags a plan reads
    unlimited: Mapping[Role, int] = field(default_factory=dict)  # the number that means no limit
    assumed: Mapping[Role, Scalar] = field(default_factory=dict)  # of roles without a flag
    beside_flags: str = ""  # what else it can be told, and where: a hint where a flag is not known
    reserved: Mapping[str, str] = field(default_factory=dict)  # flag to why it is not the user's
    uncounted: Mapping[str, str] = field(default_factory=dict)  # flag to what no plan counts of it
    breaks: Mapping[str, Breaking] = field(default_factory=dict)  # flags that would break serving
    inert: Mapping[str, Scalar] = field(default_factory=dict)  # of those two: what changes nothing
    not_yet: Mapping[str, str] = field(default_factory=dict)  # flag to what has to be built first
    env: Mapping[str, EnvironmentSetting] = field(default_factory=dict)
    prefill_env: Mapping[str, EnvironmentSetting] = field(default_factory=dict)  # of that role
    local_model_env: Mapping[str, EnvironmentSetting] = field(default_factory=dict)
    image_launch: tuple[str, ...] = ()  # in its image; empty: as anywhere
    caches: Mapping[str, str] = field(default_factory=dict)  # variable to a folder of the cache
    several: Several | None = None  # None: one replica stays on one host
    auto_dtype: Mapping[number.Dtype, number.Dtype] = field(
        default_factory=dict
    )  # what "auto" makes
    apis: tuple[str, ...] = ()  # all that it speaks, in the words of a fleet; none said: not known
    stands_for: str | None = None  # simulated: the engine whose place on an accelerator it takes
    weights: Literal["huggingface", "gguf"] = "huggingface"
    completes: bool = False  # a flag's beginning stands for it while no other begins so
    dotted: bool = False  # --a.b is a key inside the JSON of --a
    not_on: Mapping[str, str] = field(default_factory=dict)  # vendor to why it does not run there
    share_of: Literal["all", "static", "free"] = "all"  # what utilization is a share of: `plan.fit`
    lifts_context: tuple[str, ...] = ()  # variables and flags: the model's length is no limit then
    states_fill_blocks: bool = False  # a state takes a whole block of KV, which is made that long
    context_times_sequences: bool = False  # the context role holds maxModelLen times maxSequences


class Engine(Struct, frozen=True, dict=True):
    """An engine profile."""

    name: str
    origin: str
    spec: EngineSpec

    @cached_property
    def by_argument(self) -> dict[str, str]:
        """The flags by the camelCase names they have in `engineArgs`."""
        return {argument_name(flag): flag for flag in self.spec.flags}

    @cached_property
    def by_spelling(self) -> dict[str, str]:
        """The flags by every spelling that names them, `--no-…` apart."""
        spelt = {flag: flag for flag in self.spec.flags}
        for flag, known in self.spec.flags.items():
            spelt.update(dict.fromkeys(known.aliases, flag))
        return spelt

    @cached_property
    def by_opposite(self) -> dict[str, str]:
        """The flags by the names that turn them off, `--no-…` apart."""
        return {name: flag for flag, each in self.spec.flags.items() for name in each.opposites}

    @cached_property
    def json_flags(self) -> frozenset[str]:
        """The flags whose values are JSON."""
        return frozenset(flag for flag, each in self.spec.flags.items() if each.type == "json")

    def with_flags(self, flags: Mapping[str, PluginFlag]) -> Engine:
        """The same with flags that an accelerator's plugin adds."""
        more = {name: Flag(kind, negatable=kind == "bool") for name, kind in flags.items()}
        return replace(self, spec=replace(self.spec, flags={**self.spec.flags, **more}))

    def kernel(self, backend: str, architecture: str) -> Kernel | None:
        """What an attention backend can do on an architecture; None: it does not run there."""
        rows = self.spec.attention.get(backend, ())
        return next((row for row in rows if row.runs_on(architecture)), None)


def argument_name(flag: str) -> str:
    """Return the name of a flag in `engineArgs`: --max-num-seqs, or --max_num_seqs: maxNumSeqs."""
    first, *rest = flag.lstrip("-").replace("_", "-").split("-")
    return first + "".join(word.capitalize() for word in rest)


def flag_name(argument: str) -> str:
    """Return the flag of a name in `engineArgs`: maxNumSeqs is --max-num-seqs."""
    return "--" + "".join(
        f"-{letter.lower()}" if letter.isupper() else letter for letter in argument
    )
