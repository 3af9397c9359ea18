"""What the caller saw of this machine, handed to `plan`, which itself looks at nothing.

`cli` fills it: `models` with `profiles.model_files.read_local_model` for each model whose uri is a
path (`LoadedFleet.resolve(uri)`). What was not looked at stays None or absent, which is not zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from llmd_ctl.profiles.model import LocalModel


class Observed(Struct, frozen=True):
    """This machine and the models on it."""

    accelerators: Mapping[str, int] = field(default_factory=dict)
    """Profile id to the number of such devices here; a machine is one `cpu-x86` or `cpu-arm`."""
    memory_bytes: int | None = None
    """Main memory that engines may use."""
    cores: int | None = None
    """Logical CPUs that engines may use."""
    models: Mapping[str, LocalModel] = field(default_factory=dict)
    """By the uri as the fleet file has it."""
