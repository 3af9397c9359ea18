"""`llmd-ctl render F --output-dir D`: the files of one target, to look at, to keep, to hand on.

Changes nothing but the output folder. With --check it writes nothing and exits 1 when the folder
is not what would be written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmd_ctl.cli.options import Output, Simulate, Source
from llmd_ctl.cli.output import Format

if TYPE_CHECKING:
    from llmd_ctl.cli.output_folder import OutputFolder, State
    from llmd_ctl.plan import Plan

ONLY_APPLY = "LC3023"  # what is rendered deals devices out


def render(
    file: Source,
    *,
    output_dir: Annotated[
        str, typer.Option("--output-dir", metavar="D", help="The folder to write into.")
    ],
    target: Annotated[
        str | None, typer.Option("--target", help="Which target; may be left out if there is one.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="kustomize or helm, units, compose, script: by its kind."),
    ] = None,
    simulate: Simulate = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 and show what differs.")
    ] = False,
    output: Output = Format.text,
) -> int:
    """Write the files that run a target."""
    from llmd_ctl.cli.output_folder import OutputFolder, Owner
    from llmd_ctl.cli.planning import plan_for
    from llmd_ctl.cli.problems import tell
    from llmd_ctl.render.targets import format_of, render_target

    planned = plan_for(file, simulate)
    name = _target(planned, target)
    form = format_of(planned, name, form)
    tell([problem for problem in planned.warnings if problem.code != ONLY_APPLY])
    folder = OutputFolder(_folder(output_dir), Owner(planned.fleet, name, form))
    state = folder.compare(render_target(planned, name, form))
    if not check:
        folder.write(state)
    if output is Format.text:
        _tell(folder, state, check=check)
    else:
        _document(folder, state, check=check, form=output)
    return 1 if check and state.differs else 0


def _folder(said: str) -> Path:
    """The folder that is meant; an empty word, as of a variable that is not set, is none."""
    from llmd_ctl.errors import UsageError

    if not said:
        hint = "Name a folder, such as out; . is the one that you are in."
        raise UsageError.of("LC6001", "--output-dir is empty", hint=hint)
    return Path(said)


def _target(planned: Plan, named: str | None) -> str:
    """The target that is meant. Raises `UsageError`."""
    from llmd_ctl.errors import UsageError

    names = tuple(one.name for one in planned.targets)
    if named is not None:
        return named
    if len(names) == 1:
        return names[0]
    message = "the fleet has several targets" if names else "the plan names no target"
    hint = f"Give one: --target {names[0]}." if names else "Plan the fleet again."
    raise UsageError.of("LC6004", message, allowed=names, hint=hint)


def _tell(folder: OutputFolder, state: State, *, check: bool) -> None:
    from llmd_ctl.cli import output as door

    if check:
        if state.differs:
            door.data(folder.diff(state) or f"{folder.path}: the list of what was written differs")
        word = "is not as it would be rendered" if state.differs else "is up to date"
        door.note(f"{folder.path} {word}")
        return
    for file in state.files:
        door.data(f"{'wrote' if file.path in state.changed else 'kept'} {folder.path / file.path}")
    for path in state.removed:
        door.data(f"removed {folder.path / path}")


def _document(folder: OutputFolder, state: State, *, check: bool, form: Format) -> None:
    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.document import schema_name
    from llmd_ctl.cli.output_folder import digest

    files: list[dict[str, Any]] = [
        {"path": file.path, "sha256": digest(file), "changed": file.path in state.changed}
        for file in state.files
    ]
    owner = folder.owner
    door.document(
        {
            "schema": schema_name("render"),
            "fleet": owner.fleet,
            "target": owner.target,
            "format": owner.format,
            "outputDir": str(folder.path),
            "check": check,
            "differs": state.differs,
            "files": files,
            "removed": list(state.removed),
        },
        form,
    )
