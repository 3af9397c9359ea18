"""A variant's command line against the rules of its engine, accelerator and model.

Called by `variant` once its words are understood and before its size is chosen, so that every wrong
word is told even where nothing would fit. The rules are `profiles.rules`; here they get their line,
and what they find gets its place in the fleet file.
"""

from __future__ import annotations

from collections.abc import Iterable

from llmd_ctl.plan.report import Path, Report
from llmd_ctl.plan.scene import Ready
from llmd_ctl.profiles.rules import Finding, Line, check, given_of


def choose_blocks(ready: Ready) -> None:
    """Take the blocks of the attention that runs, where nobody says any.

    An accelerator's setting is for plain attention; the engine itself would take what the backend
    asks for.
    """
    settings = ready.settings
    now = settings.whole("blockSize")
    if settings.path_of("blockSize") is not None or now is None:
        return
    line = line_of(ready, "")
    named = line.kernel.blocks if line.kernel is not None else ()
    known = ready.chosen.on.attention.get(ready.shape.traits.kind)
    only = known.block if known is not None else None
    own = only or min(named, default=None) or (known.block_multiple if known is not None else None)
    if own is not None and (now % own or only):
        settings.decide("blockSize", own, "the attention of this kind of model")


def tell_longer_blocks(ready: Ready, made: int, report: Report) -> None:
    """Warn where the engine makes its blocks longer than somebody said, for a state to fill one."""
    engine, settings = ready.chosen.engine, ready.settings
    at, said = settings.path_of("blockSize"), settings.whole("blockSize")
    if at is None or said is None or made <= said or not engine.spec.states_fill_blocks:
        return
    message = (
        f"{engine.name} makes blocks of {made:,} tokens, not of {said:,}, as a state of the model"
        " takes a whole one"
    )
    report.add("LC3019", message, at, found=str(said), severity="warning")


def judge(ready: Ready, model_uri: str, report: Report) -> bool:
    """Report what the rules find; True: nothing is refused, or the variant insists on it.

    A rule that sizing has too is left to it: it says what would fit.
    """
    legal = True
    for finding in check(line_of(ready, model_uri)):
        refused = finding.rule.severity == "error"
        told = f"{finding.rule.id}: {finding.message}"
        if finding.rule.sized or (refused and ready.settings.insists(told)):
            continue
        legal = legal and not refused
        report.add(
            "LC3040" if refused else "LC3041",
            told,
            place_of(ready, (finding.at, *finding.rule.at)),
            found=finding.found if _said(finding, ready) else None,
            allowed=finding.allowed,
            hint=finding.remedy,
            severity=finding.rule.severity,
        )
    return legal


def line_of(ready: Ready, model_uri: str) -> Line:
    """The line that a variant's settings make, as rules see it."""
    engine = ready.chosen.engine
    return Line(
        engine=engine,
        on=ready.chosen.on,
        version=ready.chosen.version,
        accelerator=ready.accelerator,
        model_uri=model_uri,
        model=ready.shape,
        given=given_of(ready.settings.said(), engine.json_flags),
        env={**{name: each.value for name, each in ready.chosen.on.env.items()}, **ready.env},
        set_by=ready.settings.others(),
    )


def _said(finding: Finding, ready: Ready) -> bool:
    """Whether a user wrote what it is about, and not a profile."""
    at = finding.at
    return at is not None and (ready.settings.place(at) is not None or at in ready.env_at)


def place_of(ready: Ready, names: Iterable[str | None]) -> Path:
    """Where the user wrote the first of these flags and variables; else the accelerator."""
    for name in names:
        path = (ready.settings.place(name) or ready.env_at.get(name)) if name else None
        if path is not None:
            return path
    return (*ready.path, "accelerator")
