"""Arguments and options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from llmd_ctl.cli.output import Format, ReportFormat

Sources = Annotated[
    list[str], typer.Argument(metavar="F...", help="Fleet files; - is standard input.")
]
MaybeSources = Annotated[
    list[str] | None, typer.Argument(metavar="[F...]", help="Fleet files; - is standard input.")
]
Source = Annotated[str, typer.Argument(metavar="F", help="A fleet file; - is standard input.")]
Output = Annotated[Format, typer.Option("--output", help="How data is written on stdout.")]
ReportOutput = Annotated[
    ReportFormat, typer.Option("--output", help="How data is written on stdout.")
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Do not ask; removals need it without a terminal.")
]
Simulate = Annotated[
    str | None,
    typer.Option(
        "--simulate",
        metavar="[=SPEED]",
        help="Replace engines by simulated ones; 1 is the planned speed, 0.1 a tenth of it.",
    ),
]
