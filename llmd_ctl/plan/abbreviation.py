"""Flags that are not written out: what an engine's own parser makes of their beginning.

Called by `flags` for a word that is no flag. A beginning that two flags share means neither, and a
flag that is gone is not taken for another one. Pure.
"""

from __future__ import annotations

from llmd_ctl.profiles.engine import Engine


def completed(engine: Engine, start: str) -> tuple[str | None, bool]:
    """Return the flag that alone begins so, and whether the word turns it off."""
    word = start.replace("_", "-")
    if not engine.spec.completes or not word.startswith("--") or "." in word:
        return None, False
    if word in engine.spec.removed:
        return None, False
    begun = [(flag, False) for name, flag in engine.by_spelling.items() if name.startswith(word)]
    begun += [(flag, True) for name, flag in engine.by_opposite.items() if name.startswith(word)]
    for flag, known in engine.spec.flags.items():
        if known.negatable and f"--no-{flag[2:]}".startswith(word):
            begun.append((flag, True))
    return begun[0] if len(begun) == 1 else (None, False)
