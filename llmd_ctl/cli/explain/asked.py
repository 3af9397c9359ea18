"""A path of the fleet file as people write it, such as `spec.models[0].variants[h100].replicas`.

Called by `field` and `effective`. Brackets may be left out, hold nothing, a number from 0, or the
name of an item; `spec.` may be left out. Behind a map of the user's own keys stands one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct, field

from llmd_ctl.errors import UsageError
from llmd_ctl.spec.not_yet import NOT_YET
from llmd_ctl.spec.shape import HOMES, SHAPE
from llmd_ctl.spec.unknown import meant

STEP = re.compile(r"([^.\[\]]+)(?:\[([^\[\]]*)\])?")
MOST_MEANT = 4
OWN_KEYS = ("env", "nodeSelector", "engineArgs")
FREE = re.compile(r"[^\s\[\]]{1,253}")


class Asked(Struct, frozen=True):
    """A key of the format. `only`: by list, which of its items are meant; `own`: a user's key."""

    path: str  # with [] behind each list
    only: Mapping[str, str] = field(default_factory=dict)
    own: str = ""

    @property
    def is_built(self) -> bool:
        """Whether the key is carried out; else it is known and refused."""
        return self.path in SHAPE

    @property
    def name(self) -> str:
        """The key as it is explained."""
        return f"{self.path}.{self.own}" if self.own else self.path


def asked(text: str) -> Asked:
    """Read a path. Raises `UsageError` with the nearest ones."""
    steps = _steps(text)
    if steps is None:
        raise unknown(text)
    for length in range(len(steps), 0, -1):
        keys = ".".join(key for key, _ in steps[:length])
        path = _plain().get(keys) or _plain().get(f"spec.{keys}")
        if path is None:
            continue
        own = _behind(text, steps, length)
        if own and path.rpartition(".")[2] not in OWN_KEYS:
            break
        only = _only(path, [chosen for _, chosen in steps[:length]], text)
        return Asked(path, only, own)
    raise unknown(text)


def _steps(text: str) -> list[tuple[str, str | None]] | None:
    found = [(match[1], match[2]) for match in STEP.finditer(text)]
    shown = ".".join(k if c is None else f"{k}[{c}]" for k, c in found)
    return found if found and shown == text.rstrip(".") else None


def _behind(text: str, steps: list[tuple[str, str | None]], length: int) -> str:
    """What stands behind the first steps; a key of the user's may have dots."""
    return ".".join(k if c is None else f"{k}[{c}]" for k, c in steps[length:])


def _only(path: str, chosen: list[str | None], text: str) -> dict[str, str]:
    parts = path.split(".")
    given = [None] * (len(parts) - len(chosen)) + chosen  # `spec.` may be left out
    only = {}
    for at, (part, which) in enumerate(zip(parts, given, strict=True)):
        here = ".".join(parts[: at + 1])
        is_list = part.endswith("[]") or (at == len(parts) - 1 and f"{here}[]" in _lists())
        if which is not None and not is_list:
            raise UsageError.of("LC6012", f"{here} is no list", found=text, allowed=(path,))
        if which:
            only[here.removesuffix("[]")] = which
    return only


@cache
def _lists() -> frozenset[str]:
    """Every list of the format that holds maps, with [] behind it."""
    homes = (home for path in SHAPE for home in [path.rpartition(".")[0]])
    return frozenset(home for home in homes if home.endswith("[]"))


@cache
def _plain() -> Mapping[str, str]:
    """Every key that is known, by its path without brackets."""
    later = [f"{home}.{key}" for home, keys in NOT_YET.items() for key in keys]
    return {path.replace("[]", ""): path for path in (*later, *SHAPE)}


def unknown(text: str) -> UsageError:
    """The error of a path that is none: near is what has its last key, else what is spelled so."""
    key = re.sub(r"\[[^\]]*\]", "", text).rpartition(".")[2]
    homes = HOMES.get(key, ())
    known = [f"{home}.{key}" if home else key for home in homes]
    rest = [path for path in _plain().values() if path not in known]
    hint = f"Write {' or '.join(known[:MOST_MEANT])}." if known else _meant(text, key)
    return UsageError.of(
        "LC6012", "no key of the fleet file is called so", found=text,
        allowed=(*known, *rest), hint=hint,
    )  # fmt: skip


def _meant(text: str, key: str) -> str | None:
    """What a key of another tool's is called here, in the map that it is looked for in."""
    home = _plain().get(".".join(key for key, _ in (_steps(text) or [])[:-1]), "")
    home = f"{home}[]" if f"{home}[]" in _lists() else home
    return meant(key, home, {}, key).hint
