"""Where errors end: as text on stderr, as a document where one was asked for, and as a code.

Called by `main` alone. A failure we foresaw is an `LlmdError` and is rendered; a command line that
typer refuses becomes a `UsageError`; what the system refuses (a full disk, a folder that is none)
is told with its path; anything else is a bug of ours: one line on screen, the
traceback in a file. No verb catches errors in order to print them.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from llmd_ctl.cli import output

if TYPE_CHECKING:
    import typer

    from llmd_ctl.errors import LlmdError, Problem

PROGRAM = "llmd-ctl"
INTERRUPTED_EXIT = 130
SPEED = re.compile(r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?")
NO_NUMBER = {"float_parsing": "a number", "int_parsing": "a whole number"}
# What any system may answer in ordinary life. Other errors of the system are unforeseen: bugs.
REFUSALS = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOTDIR,
    errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG, errno.EMFILE, errno.ENFILE,
}  # fmt: skip


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    import typer

    from llmd_ctl.cli.app import command
    from llmd_ctl.errors import LlmdError, UsageError

    words = _spelled_out(argv)
    try:
        code = command(*words[:1]).main(words, prog_name=PROGRAM, standalone_mode=False)
    except LlmdError as error:
        return _report(error, argv)
    except OSError as error:
        return _report(_refused(error), argv)
    except typer.Abort:
        return INTERRUPTED_EXIT
    except typer.TyperException as error:
        return _report(UsageError([_usage_problem(error)]), argv)
    if code == INTERRUPTED_EXIT:  # typer caught it: no verb had begun to change anything
        output.note("Interrupted before anything was changed.")
    return code if isinstance(code, int) else 0


def _spelled_out(argv: list[str]) -> list[str]:
    """`--simulate` takes a number that follows; alone it means the planned speed.

    typer knows no optional values. A fleet file that is called like a number is written ./2.
    """
    out: list[str] = []
    for word in argv:
        if out and out[-1] == "--simulate" and SPEED.fullmatch(word):
            out[-1] = f"--simulate={word}"
        else:
            out.append(word)
    return ["--simulate=1" if word == "--simulate" else word for word in out]


def _usage_problem(error: typer.TyperException) -> Problem:
    """Turn what typer refused into a problem of ours, with the command's usage as the hint."""
    import typer

    from llmd_ctl.errors import Problem

    format_message = getattr(error, "format_message", None)
    if isinstance(error, typer.BadParameter):
        error.message = _plainly(error)
    message = format_message() if format_message else str(error)
    context = getattr(error, "ctx", None)
    hint = f"See `{context.command_path} --help`." if context else None
    return Problem("LC6001", message.strip().rstrip(".") or "the command line is wrong", hint=hint)


def _plainly(error: typer.BadParameter) -> str:
    """What is wrong with a value; typer has some of it from pydantic, in that one's words."""
    from pydantic import ValidationError

    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return str(error.message)
    first = cause.errors()[0]
    if first["type"] in NO_NUMBER:
        return f"{first['input']!r} is not {NO_NUMBER[first['type']]}"
    return first["msg"].removeprefix("Value error, ")


def _refused(error: OSError) -> LlmdError:
    """Turn what the system refused into an error of ours; raises `error` when it is our doing."""
    from llmd_ctl.errors import LlmdError

    if error.errno not in REFUSALS:
        raise error
    if error.filename is None:  # help and usage are not written by `output`
        output.discard(sys.stdout)
    what = f"{os.fsdecode(error.filename)} cannot be used" if error.filename else "cannot write"
    return LlmdError.of("LC6009", f"{what}: {error.strerror}", hint=_remedy(error))


def _remedy(error: OSError) -> str | None:
    """The state folder's own remedy; None, the code's, for anything else."""
    folder = os.environ.get("XDG_STATE_HOME")
    if folder and str(error.filename).startswith(folder):
        return "Set XDG_STATE_HOME to a folder that you can write, with room on its disk."
    return None


def _report(error: LlmdError, argv: list[str]) -> int:
    from llmd_ctl.cli.problems import informed, tell

    problems = informed(error.problems)
    tell(problems)
    form = _asked_format(argv)
    if form is not None and error.exit_code != INTERRUPTED_EXIT:
        from llmd_ctl.cli.document import problems_document

        output.document(problems_document(problems), form)
    return error.exit_code


def _asked_format(argv: list[str]) -> output.Format | None:
    """The machine format on the command line, read anew: the parser may be what failed."""
    for at, word in enumerate(argv):
        name, _, value = word.partition("=")
        if name == "--output":
            value = value or (argv[at + 1] if at + 1 < len(argv) else "")
            if value in {"json", "yaml"}:
                return output.Format(value)
    return None


def report_bug(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Python's last hook: an error that nobody foresaw."""
    import traceback

    text = "".join(traceback.format_exception(kind, error, trace))
    file = _bug_file()
    place = f"in {file}"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    except OSError:
        output.note(text)
        place = "above"
    output.note(f"error[LC6000]: this is a bug in llmd-ctl: {kind.__name__}: {str(error)[:200]}")
    output.note(f"  The traceback is {place}. Please report it together with the command.")


def _bug_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "llmd-ctl" / "bugs" / f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.txt"
