"""Digests of the images that a plan names by itself, from `images.lock.yaml` beside this file.

`ci/generate --lock` fills that file on a connected machine. Asked by `plan.placement` and by
`ci/images.py`; a digest that a profile itself says goes before. It asks no registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

import yaml

FILE = "images.lock.yaml"


@cache
def locked() -> Mapping[str, str | None]:
    """Every reference, with its tag, and the digest that it had; None: nobody has looked."""
    text = resources.files("llmd_ctl").joinpath(f"profiles/{FILE}").read_text("utf-8")
    table: Mapping[str, str | None] = yaml.CSafeLoader(text).get_single_data()
    return table


def digest_of(reference: str) -> str | None:
    """The digest of an image; None where the lock has none."""
    return locked().get(reference)
