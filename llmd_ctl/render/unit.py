"""Unit files of systemd as values, and words quoted as systemd reads them.

Used by `systemd`. Rules: systemd.syntax(7) for quotes and escapes, systemd.service(5) for command
lines, systemd.unit(5) for specifiers. It knows no fleet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

PLAIN = re.compile(r"[A-Za-z0-9_./:=,+@-]+")
ESCAPES = {
    "\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "%": "%%",
}  # fmt: skip


class Section(Struct, frozen=True):
    """A section: its settings in order, of which some may come several times."""

    name: str
    settings: tuple[tuple[str, str], ...]


class Unit(Struct, frozen=True):
    """A unit file."""

    sections: tuple[Section, ...]

    def text(self, header: str) -> str:
        """The file's text."""
        blocks = (
            f"[{section.name}]\n" + "".join(f"{key}={value}\n" for key, value in section.settings)
            for section in self.sections
        )
        return header + "\n" + "\n".join(blocks)


def word(value: str) -> str:
    """A word of a setting that takes a list of them, or one path."""
    if PLAIN.fullmatch(value):
        return value
    return '"' + "".join(_escaped(character) for character in value) + '"'


def words(values: Iterable[str]) -> str:
    """Several of them."""
    return " ".join(map(word, values))


def command_line(argv: Sequence[str]) -> str:
    """The value of ExecStart=. In arguments $ stands for a variable, in the program's name not.

    A word in quotes is no `;` between commands, and a program in quotes has no prefix such as `-`.
    """
    program, *arguments = argv
    return " ".join((word(program), *(_argument(each) for each in arguments)))


def _argument(value: str) -> str:
    return word(value).replace("$", "$$")


def _escaped(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    # Other control characters: a line ends at some of them, and none can be seen.
    return character if character.isprintable() or ord(character) > MOST_ASCII else _hex(character)


MOST_ASCII = 0x7F


def _hex(character: str) -> str:
    return f"\\x{ord(character):02x}"
