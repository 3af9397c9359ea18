"""A rendered file, and the header that every one begins with.

Made by the renderers of `targets`; `cli` writes and compares them. Pure: the same plan gives the
same bytes, so no clock and no machine stands in them.
"""

from __future__ import annotations

import importlib.metadata
from functools import cache

from msgspec import Struct

from llmd_ctl.plan import Plan


class RenderedFile(Struct, frozen=True):
    """A file of the output folder: its path in it, with /, and its text."""

    path: str
    text: str
    executable: bool = False


@cache
def version() -> str:
    """The version of llmd-ctl; asked once, since the answer is read from a file each time."""
    return importlib.metadata.version("llmd-ctl")


def header(plan: Plan, target: str, comment: str = "# ") -> str:
    """The lines that say what a file was made from."""
    lines = (
        f"Written by llmd-ctl {version()} from fleet {plan.fleet}, target {target}.",
        f"spec {plan.spec_hash}",
        "Edits are overwritten: change the fleet and render again.",
    )
    return "".join(f"{comment}{line}\n" for line in lines)
