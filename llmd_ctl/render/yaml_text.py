"""A document as YAML that every reader takes for the same: text stays text.

Used for router.yaml and compose.yaml, whose readers are written in Rust and in Go. PyYAML knows the
numbers of YAML 1.1, and would write `1e3` and `0o7` without quotes, which for others are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from llmd_ctl.render.blocks import Blocks

WIDTH = 100
NUMBER = re.compile(r"[-+]?(0o[0-7]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)$")


class _Dumper(yaml.CSafeDumper):
    """The safe one, that quotes text which looks like a number of YAML 1.2."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER, list("-+.0123456789"))
BLOCKS = Blocks(_Dumper, WIDTH, aliases=True)


def yaml_text(document: Mapping[str, Any]) -> str:
    """The document's text, its keys in their order."""
    return BLOCKS.text(document)
