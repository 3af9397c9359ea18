"""Fleet files and standard input as text, whole and checked, or a problem that says why not.

Called by `loader`. Every place in a file is made here, so that lines and columns mean the same
everywhere and never point outside the file. It knows nothing of YAML.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from llmd_ctl.errors import Place, SpecInvalid

STDIN = "-"
STDIN_NAME = "<stdin>"
LARGEST_FILE = 4 * 1024 * 1024

# What is not text, rather than "anything but text": that set takes ten times as long to compile.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
)
BYTE_ORDER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


class SourceText(Struct, frozen=True, dict=True):
    """The text of one source. `file` is the name to show, `folder` what paths in it start from."""

    file: str
    text: str
    folder: Path

    @cached_property
    def lines(self) -> list[str]:
        """The lines, without their ends; at least one."""
        return self.text.splitlines() or [""]

    def place(
        self, line: int, column: int, path: Iterable[str | int] = (), length: int = 1
    ) -> Place:
        """Return the place at a line and column that count from 1.

        A line past the last one is the end of the last one: there libyaml puts what is missing.
        """
        end = len(self.lines[-1]) + 1
        line, column = (line, column) if line <= len(self.lines) else (len(self.lines), end)
        text = self.lines[line - 1]
        return Place(self.file, line, column, dotted(path), text, max(1, length))


def dotted(path: Iterable[str | int]) -> str:
    """Write a path as people do: spec.models[0].name."""
    out = ""
    for step in path:
        out += f"[{step}]" if isinstance(step, int) else f".{step}" if out else step
    return out


def short_name(path: Sequence[str | int]) -> str:
    """Write the last key of a path with what follows it, such as extraArgs[1]."""
    keys = [depth for depth, step in enumerate(path) if isinstance(step, str)]
    return dotted(path[keys[-1] :]) if keys else ""


def read_source(source: str | Path) -> SourceText:
    """Read one source; "-" is standard input. Raises `SpecInvalid`."""
    name = os.fspath(source)
    if name == STDIN:
        content, file, folder = _read_stdin(), STDIN_NAME, Path.cwd()
    else:
        content, file, folder = _read_file(name), name, Path(name).absolute().parent
    if len(content) > LARGEST_FILE:
        message = f"{file} is larger than {LARGEST_FILE // 1024 // 1024} MiB"
        raise SpecInvalid.of("LC1003", message, place=Place(file, 1, 1))
    return SourceText(file, _decode(content, file), folder)


def _read_stdin() -> bytes:
    try:
        return sys.stdin.buffer.read(LARGEST_FILE + 1)
    except (OSError, ValueError, AttributeError) as error:
        message = "cannot read standard input: it is closed"
        raise SpecInvalid.of("LC1001", message) from error


def _read_file(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(LARGEST_FILE + 1)
    except FileNotFoundError as error:
        raise SpecInvalid.of("LC1001", f'cannot read "{name}": no such file') from error
    except IsADirectoryError as error:
        hint = "Give the fleet files in it by name."
        raise SpecInvalid.of(
            "LC1001", f'cannot read "{name}": it is a folder', hint=hint
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f'cannot read "{name}": {reason}'
        raise SpecInvalid.of(
            "LC1001", message, hint="Check the path and its permissions."
        ) from error


def _decode(content: bytes, file: str) -> str:
    """Return the text without a byte order mark, or refuse it at the first character at fault."""
    other = BYTE_ORDER_MARKS.get(content[:2])
    if other is not None:
        message = f"the file is {other}, not UTF-8"
        raise SpecInvalid.of("LC1002", message, place=Place(file, 1, 1))
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        good = SourceText(file, content[: error.start].decode("utf-8"), Path())
        found = f"byte 0x{content[error.start]:02x}"
        message = "the file is not UTF-8 text"
        place = _end_of(good)
        raise SpecInvalid.of("LC1002", message, place=place, found=found) from error
    bad = UNPRINTABLE.search(text)
    if bad is not None:
        place = _end_of(SourceText(file, text[: bad.start()], Path()))
        found = f"U+{ord(bad[0]):04X}"
        message = "the file holds a character that text files do not have"
        raise SpecInvalid.of("LC1002", message, place=place, found=found)
    return text


def _end_of(part: SourceText) -> Place:
    """Return the place of the character after a part of the text."""
    lines = f"{part.text}?".splitlines()
    return Place(part.file, len(lines), len(lines[-1]), "", lines[-1][:-1])
