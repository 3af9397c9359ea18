"""The one door to the terminal: data on stdout, all else on stderr.

Called by every verb; the only module that prints. A reader that went away (`| head`) is no error:
what is left is dropped and the verb goes on. Colour and width are rich's business, and it honours
NO_COLOR; text that is piped is plain and wide.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PIPED_WIDTH = 160


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


def data(text: str) -> None:
    """Write a line of data on stdout."""
    _write(sys.stdout, text)


def note(text: str) -> None:
    """Write a line for the person on stderr."""
    _write(sys.stderr, text)


def document(content: Mapping[str, Any], form: Format | ReportFormat) -> None:
    """Write a JSON-like document on stdout as JSON or as YAML."""
    if form == "yaml":
        import yaml

        data(yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False, width=100).rstrip())
    else:
        from pydantic_core import to_json  # a plan of fifty models: a tenth of json's time

        data(to_json(content, indent=2).decode())


def show(items: Iterable[RenderableType]) -> None:
    """Write tables and text on stdout."""
    console = make_console(sys.stdout)
    try:
        for item in items:
            console.print(item)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)


def make_console(stream: TextIO) -> Console:
    """A console for a stream. What is not a terminal gets no colour and enough width."""
    from rich.console import Console

    if stream.isatty():
        return Console(file=stream, highlight=False)
    return Console(file=stream, width=PIPED_WIDTH, highlight=False, force_terminal=False)


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
    try:
        stream.write(text + "\n")
        stream.flush()
    except BrokenPipeError:
        _discard(stream)
    except UnicodeEncodeError:
        stream.write(text.encode("ascii", "backslashreplace").decode() + "\n")


def _discard(stream: TextIO) -> None:
    """Send what is still buffered, and all that follows, nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
