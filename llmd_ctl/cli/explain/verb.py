"""`llmd-ctl explain …`: what a key, flag, accelerator, engine, model, rule or error code is.

Changes nothing and asks nothing of this machine. With a fleet file it also says what holds there
and who set it, by a plan as if every accelerator were there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from llmd_ctl.cli.options import Output
from llmd_ctl.cli.output import Format

if TYPE_CHECKING:
    from llmd_ctl.cli.explain.ask import Question

# A flag of an engine begins as an option of ours does.
SETTINGS = {"ignore_unknown_options": True}
OPTIONS = ("--file", "--accelerator", "--engine", "--output", "--help")


def explain(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="THING",
            help="A kind (field, flag, accelerator, engine, model, rule, error) and a name; a path "
            "of the fleet file, a code and a flag need no kind. A fleet file may follow, as with "
            "--file. Nothing: what can be explained.",
        ),
    ] = None,
    *,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="F", help="A fleet file: what holds there, who set it."),
    ] = None,
    accelerator: Annotated[
        str | None, typer.Option("--accelerator", metavar="NAME", help="Where a flag is used.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="NAME[@VERSION]", help="Whose flag it is. Default: vllm."),
    ] = None,
    output: Output = Format.text,
) -> int:
    """Explain a key, flag, accelerator, engine, model, rule or code."""
    from msgspec.structs import replace

    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.explain.ask import explain as answer
    from llmd_ctl.cli.explain.page import document
    from llmd_ctl.cli.explain.view import explain_view

    names, found = _names(words or [], file)
    question = replace(_question(found), accelerator=accelerator, engine=engine)
    page = answer(names, question)
    if output is Format.text:
        door.show(explain_view(page))
    else:
        door.document(document(page), output)
    return 0


def _names(words: list[str], file: str | None) -> tuple[list[str], str | None]:
    """The words apart from a fleet file that stands behind them. Raises `UsageError`."""
    from llmd_ctl.cli.planning import is_file
    from llmd_ctl.errors import UsageError

    names = list(words)
    if len(names) > 1 and file is None and names[-1].endswith((".yaml", ".yml")):
        file = names.pop() if is_file(names[-1]) else None
    flags = [word for word in names if word.startswith("-")]
    if len(flags) > 1 or (flags and names[0] not in {"flag", flags[0]}):
        raise UsageError.of(
            "LC6001", f"no such option: {flags[-1]}", found=flags[-1], allowed=OPTIONS,
            hint="See `llmd-ctl explain --help`.",
        )  # fmt: skip
    return names, file


def _question(file: str | None) -> Question:
    from llmd_ctl.cli.explain.ask import Question
    from llmd_ctl.cli.explain.case import cases
    from llmd_ctl.cli.planning import catalog_for, load_one, make_plan
    from llmd_ctl.profiles import Catalog

    if file is None:
        return Question(Catalog.load())
    loaded = load_one(file)
    catalog = catalog_for(loaded)
    plan = make_plan(loaded, 1.0, rehearsal=True)
    return Question(catalog, loaded=loaded, cases=tuple(cases(loaded, catalog, plan)))
