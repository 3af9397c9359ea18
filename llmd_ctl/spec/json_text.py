"""JSON that somebody else wrote: a model's config.json, plan files, state, answers.

Called by `plan`, `apply` and `cli` for all of it, so that no text is a bug of ours: what cannot be
read is a `ValueError`, nesting that would end the stack of whoever walks it among it. It knows
nothing of what the text says.
"""

from __future__ import annotations

import json
from typing import Any

from llmd_ctl.spec.compose import DEEPEST


def read_json(text: str | bytes) -> Any:
    """Return what a text says. Raises `ValueError`."""
    too_deep = f"it is nested deeper than {DEEPEST} levels"
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise ValueError(too_deep) from error
    level = [content]
    for _ in range(DEEPEST + 1):
        level = [child for one in level for child in _children(one)]
        if not level:
            return content
    raise ValueError(too_deep)


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
