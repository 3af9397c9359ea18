"""`llmd-ctl demo`: see the main job in a minute and a half, on a laptop, without an accelerator.

Reads as: open the sandbox, perform, print, close the sandbox whatever happened.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmd_ctl.cli.options import Output
from llmd_ctl.cli.output import Format

if TYPE_CHECKING:
    from llmd_ctl.cli.demo.sandbox import Sandbox
    from llmd_ctl.cli.demo.script import Options

LEAST_SECONDS, MOST_SECONDS = 4.0, 600.0


def demo(
    *,
    seconds: Annotated[float, typer.Option("--seconds", help="Traffic under each scheduler.")] = 20,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep the logs in a new folder.")
    ] = None,
    profile: Annotated[
        list[Path] | None, typer.Option("--profile", help="A profile file of yours; repeatable.")
    ] = None,
    output: Output = Format.text,
) -> int:
    """See the main job: four vendors, simulated, real traffic.

    Applies one model on NVIDIA, AMD, TPU and Gaudi with simulated engines, sends real HTTP
    traffic through the router, kills an engine, and shows what came of it. Leaves nothing running.
    """
    from llmd_ctl.cli.demo.sandbox import Sandbox
    from llmd_ctl.cli.demo.script import Options
    from llmd_ctl.errors import Interrupted, UsageError

    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        allowed = (f"{LEAST_SECONDS:g} to {MOST_SECONDS:g}",)
        raise UsageError.of(
            "LC6002", "--seconds is out of range", found=f"{seconds:g}", allowed=allowed
        )
    _make(keep)
    options = Options(seconds, profiles=tuple(profile or ()))
    sandbox = Sandbox()
    try:
        document = _perform(options, keep or sandbox.path / "kept", sandbox)
    except KeyboardInterrupt as error:
        message = "the demo was stopped; nothing of it runs any more"
        raise Interrupted.of("LC6005", message, hint="") from error
    finally:
        try:
            sandbox.close()
        finally:
            sandbox.close()  # a signal may have cut the first one short
    _print(document, output)
    return 0


def _make(keep: Path | None) -> None:
    from llmd_ctl.errors import UsageError

    if keep is None:
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            hint = "Name a folder that is empty or not there yet."
            raise UsageError.of("LC6003", f"{keep} is not empty", hint=hint)
    except OSError as error:
        raise UsageError.of("LC6003", f"cannot use {keep}: {error.strerror}") from error


def _perform(options: Options, folder: Path, sandbox: Sandbox) -> dict[str, Any]:
    import json

    from llmd_ctl.cli.demo.script import perform

    folder.mkdir(parents=True, exist_ok=True)
    document = perform(options, folder, sandbox)
    (folder / "summary.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    return document


def _print(document: dict[str, Any], form: Format) -> None:
    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.demo.view import summary_view
    from llmd_ctl.cli.plan_view import plan_from_document, plan_table, summary_line

    if form is not Format.text:
        door.document(document, form)
        return
    plan = plan_from_document(document["plan"])
    door.show([plan_table(plan), summary_line(plan), "", *summary_view(document)])
