"""`llmd-ctl validate F…`: is what the files say right? Every problem of every file, in one run.

Checks spelling, types, profiles and whether each model fits, as if all accelerators were there;
what this machine has is `plan`'s question. `--manifests` judges what others wrote for Kubernetes by
the same rules. Exits 65 for a wrong file, 66 for what can't fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from llmd_ctl.cli.options import MaybeSources, ReportOutput
from llmd_ctl.cli.output import ReportFormat

if TYPE_CHECKING:
    from pathlib import Path

    from llmd_ctl.errors import Problem
    from llmd_ctl.plan import Plan
    from llmd_ctl.spec import LoadedFleet


Manifests = Annotated[
    str | None,
    typer.Option(
        "--manifests",
        metavar="DIR",
        help="Judge the Kubernetes manifests in a folder, by the rules that fleets are judged by.",
    ),
]


def validate(
    files: MaybeSources = None,
    *,
    manifests: Manifests = None,
    output: ReportOutput = ReportFormat.text,
) -> int:
    """Check fleet files; tell every problem with its place."""
    from llmd_ctl.cli.manifests import judge_folder
    from llmd_ctl.cli.problems import in_order, informed
    from llmd_ctl.errors import UsageError

    if not files and manifests is None:
        hint = "Give fleet files, or --manifests DIR."
        raise UsageError.of("LC6001", "nothing to validate is given", hint=hint)
    fleets, problems, code = _fleets(files or [])
    found = None
    if manifests is not None:
        found, more, failed = judge_folder(manifests)
        problems += more
        code = code or failed
    _write(Checked(files or [], fleets, found), in_order(informed(problems)), output)
    return code


class Checked(Struct, frozen=True):
    """What was looked at."""

    files: list[str]
    fleets: list[dict[str, Any]]
    manifests: dict[str, Any] | None


def _fleets(files: list[str]) -> tuple[list[dict[str, Any]], list[Problem], int]:
    """The fleets of files, what is wrong with them, and the exit code."""
    from llmd_ctl.cli.together import clashes
    from llmd_ctl.errors import SpecInvalid
    from llmd_ctl.spec import read_fleets

    reading = read_fleets(files)
    fleets: list[dict[str, Any]] = []
    problems = [*reading.problems, *_profile_problems(reading.profiles)]
    for one in reading.rest:
        problems += [problem for problem in _check(one)[1] if problem.severity == "error"]
    planned: list[tuple[LoadedFleet, Plan]] = []
    code = SpecInvalid.exit_code if problems else 0
    for one in reading.sound:
        plan, found, failed = _check(one)
        problems += found
        code = code or failed
        planned += [] if plan is None else [(one, plan)]
        models = [model.name for model in one.fleet.spec.models]
        fleets.append({"name": one.fleet.metadata.name, "file": one.source.file, "models": models})
    return fleets, [*problems, *clashes(planned)], code


def _check(loaded: LoadedFleet) -> tuple[Plan | None, list[Problem], int]:
    """Plan the fleet with every accelerator taken for granted; what is wrong, and the exit code."""
    from llmd_ctl.cli.planning import make_plan
    from llmd_ctl.errors import LlmdError

    try:
        plan = make_plan(loaded, 1.0, rehearsal=True)
    except LlmdError as error:
        return None, list(error.problems), error.exit_code
    return plan, list(plan.warnings), 0


def _profile_problems(files: list[Path]) -> list[Problem]:
    """What is wrong with profiles of fleets that cannot be planned."""
    from llmd_ctl.errors import SpecInvalid
    from llmd_ctl.profiles import Catalog

    try:
        Catalog.load(list(dict.fromkeys(files)))
    except SpecInvalid as error:
        return list(error.problems)
    return []


def _write(checked: Checked, problems: list[Problem], form: ReportFormat) -> None:
    from llmd_ctl.cli import output
    from llmd_ctl.cli.document import sarif_document, validate_document
    from llmd_ctl.cli.problems import tell

    if form is ReportFormat.sarif:
        from importlib.metadata import version

        output.document(sarif_document(problems, version("llmd-ctl")), form)
    elif form is not ReportFormat.text:
        output.document(
            validate_document(checked.files, checked.fleets, checked.manifests, problems), form
        )
    tell(problems, counted=True)
    if form is ReportFormat.text:
        _say(checked, valid=not any(p.severity == "error" for p in problems))


def _say(checked: Checked, *, valid: bool) -> None:
    """Tell what is valid, and which engines were found in manifests."""
    from llmd_ctl.cli import output

    if valid:
        for fleet in checked.fleets:
            models = len(fleet["models"])
            counted = f"{models} model{'' if models == 1 else 's'}"
            output.data(f"{fleet['file']}: fleet {fleet['name']} is valid ({counted})")
    found = checked.manifests
    if found is not None:
        engines = found["engines"]
        for one in engines:
            where = "/".join(one["accelerators"][:1]) if len(one["accelerators"]) == 1 else "?"
            version = one["version"] or "?"
            output.data(f"{one['file']}: {one['title']}: {one['engine']} {version} on {where}")
