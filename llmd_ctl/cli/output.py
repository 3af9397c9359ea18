"""The one door to the terminal: data on stdout, all else on stderr.

Called by every verb; the only module that prints. A reader that went away (`| head`) is no error,
nor is a stream that was closed: what is left is dropped and the verb goes on. Data that can't be
written for another reason (a full disk) is an error with a code. Colour and width are rich's
business; with NO_COLOR there are no escape codes at all. Text that is piped is plain, and as wide
as COLUMNS says, else wide.
"""

from __future__ import annotations

import os
import re
import sys
from codecs import lookup
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PIPED_WIDTH = 160
USUAL_WIDTH = 80
SIZE = re.compile(r"[0-9]{1,5}")
LEAST_WIDTH = 20  # no table is readable below it; COLUMNS=0 is how some tools say "not known"
STDERR = 2


class Format(StrEnum):
    """How data is written on stdout."""

    text = "text"
    json = "json"
    yaml = "yaml"


class ReportFormat(StrEnum):
    """As `Format`, with SARIF for code hosts and editors."""

    text = "text"
    json = "json"
    yaml = "yaml"
    sarif = "sarif"


def prepare() -> None:
    """Make all three streams usable, whatever the command was started with.

    A closed descriptor is opened on nothing, so that no file that is opened later takes its number.
    What an encoding does not have is written as `?`.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(opened, True)  # noqa: FBT003 - it takes no keyword
    os.close(opened)
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115 - it stays open
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115 - it stays open
    sys.stderr = sys.stderr or open(STDERR, "w", encoding="utf-8")  # noqa: SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def data(text: str) -> None:
    """Write a line of data on stdout."""
    _write(sys.stdout, text)


def note(text: str) -> None:
    """Write a line for the person on stderr."""
    _write(sys.stderr, text)


def document(content: Mapping[str, Any], form: Format | ReportFormat) -> None:
    """Write a JSON-like document on stdout as JSON or as YAML.

    Half of a character, which no encoding has, is spelled out in the escapes of Python.
    """
    from pydantic_core import PydanticSerializationError

    try:
        text = _text(content, form)
    except (UnicodeEncodeError, PydanticSerializationError):
        text = _text(_spelled_out(content), form)
    data(text)


def _text(content: Any, form: Format | ReportFormat) -> str:
    if form == "yaml":
        import yaml

        written: str = yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False, width=100)
        return written.rstrip()
    if lookup(sys.stdout.encoding).name != "utf-8":
        import json

        return json.dumps(content, indent=2)  # in ASCII: nothing of a document may become a `?`
    from pydantic_core import to_json  # a plan of fifty models: a tenth of json's time

    return to_json(content, indent=2).decode()


def _spelled_out(content: Any) -> Any:
    if isinstance(content, str):
        return content.encode(errors="backslashreplace").decode()
    if isinstance(content, Mapping):
        return {_spelled_out(key): _spelled_out(item) for key, item in content.items()}
    if isinstance(content, list | tuple):
        return [_spelled_out(item) for item in content]
    return content


def show(items: Iterable[RenderableType], stream: TextIO | None = None) -> None:
    """Write tables and text on stdout, or on another of our streams."""
    out = stream or sys.stdout
    console = make_console(out)
    with _writing(out):
        try:
            for item in items:
                console.print(item)
        except SystemExit:  # what rich makes of a reader that went away
            raise BrokenPipeError from None
        out.flush()


def prose_width() -> int:
    """Where words on stderr are wrapped: at the terminal's width or COLUMNS, else as usual."""
    return make_console(sys.stderr).width if is_terminal() else _columns(USUAL_WIDTH)


def _columns(otherwise: int) -> int:
    """The width that COLUMNS asks for where there is no terminal to ask."""
    said = os.environ.get("COLUMNS", "")
    return int(said) if SIZE.fullmatch(said) and int(said) >= LEAST_WIDTH else otherwise


def make_console(stream: TextIO) -> Console:
    """A console for a stream; what is not a terminal gets no colour and COLUMNS or enough width."""
    from rich.console import Console

    if stream.isatty():
        console = Console(
            file=stream,
            highlight=False,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            _environ=_environment(),
        )
        if console.width < LEAST_WIDTH:
            console.width = USUAL_WIDTH
        return console
    width = _columns(PIPED_WIDTH)
    return Console(file=stream, width=width, highlight=False, force_terminal=False)


def _environment() -> dict[str, str]:
    """The environment without a COLUMNS or LINES that rich would stumble over."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in {"COLUMNS", "LINES"} or SIZE.fullmatch(value)
    }


def is_terminal() -> bool:
    """Whether a person sees stderr as it is written."""
    return sys.stderr.isatty()


def can_ask() -> bool:
    """Whether a question would reach a person."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> bool:
    """Ask a yes-or-no question on the terminal; anything but y or yes is no."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _write(stream: TextIO, text: str) -> None:
    with _writing(stream):
        stream.write(text + "\n")
        stream.flush()


@contextmanager
def _writing(stream: TextIO) -> Iterator[None]:
    """Raises `LlmdError` for data that can't be written; notes that can't be are dropped."""
    try:
        yield
    except BrokenPipeError:
        discard(stream)
    except OSError as error:
        discard(stream)
        if stream is sys.stdout:
            from llmd_ctl.errors import LlmdError

            message = f"standard output cannot be written: {error.strerror}"
            raise LlmdError.of("LC6008", message) from error


def discard(stream: TextIO) -> None:
    """Send what is still buffered, and all that follows, nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
