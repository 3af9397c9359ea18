"""A shell's script as commands of words, each with where it stands: what can be told of it.

Called by `command` for containers that start an engine through `sh -c`. Quotes, continued lines,
assignments and variables are read as a shell would; of what only a running shell can know (`$(…)`,
backticks, variables that nobody sets here) a word says that it is not known. Nothing is run. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

ENDS = frozenset(";&|\n(){}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
# Words after which a command begins.
LEADS = frozenset({"then", "do", "else", "!", "if", "while", "until", "elif"})
DECLARES = frozenset({"export", "readonly", "local", "declare"})
MOST = 100_000  # characters of a script that are read


class ShellWord(Struct):
    """A word: its text as far as it is known, where it begins, what of it is not known."""

    text: str = ""
    at: int = 0
    unknown: list[str] = field(default_factory=list)  # `$NAME`, `$(…)`
    quoted: bool = False
    written: int | None = None  # characters before the first quote or variable; None: all of them

    def is_one_of(self, reserved: frozenset[str]) -> bool:
        """Whether it is a word of the shell's own: none is that is quoted, or of a variable."""
        return self.written is None and self.text in reserved

    @property
    def assigned(self) -> re.Match[str] | None:
        """The name that it sets and `=`: a shell takes them only as they are written."""
        return ASSIGNED.match(self.text if self.written is None else self.text[: self.written])

    def ends_writing(self) -> None:
        """Here something begins that is not taken as it is written."""
        if self.written is None:
            self.written = len(self.text)

    @property
    def is_known(self) -> bool:
        """Whether a shell would give exactly this text."""
        return not self.unknown


class Command(Struct):
    """A simple command: its words, and the variables that are set for it or before it."""

    words: list[ShellWord]
    env: dict[str, ShellWord]


def commands_of(
    script: str, env: Mapping[str, str], opaque: frozenset[str] = frozenset()
) -> list[Command]:
    """The simple commands of a script, in order; `opaque` variables are set to anything."""
    return _Reader(script[:MOST], dict(env), opaque).read()


class _Reader:
    def __init__(self, script: str, known: dict[str, str], opaque: frozenset[str]) -> None:
        self.script = script
        self.at = 0
        self.known = known
        self.opaque = opaque
        self.set: dict[str, ShellWord] = {}
        self.commands: list[Command] = []
        self.words: list[ShellWord] = []

    def read(self) -> list[Command]:
        while self.at < len(self.script):
            char = self.script[self.at]
            if char in " \t\r":
                self.at += 1
            elif self.script.startswith("\\\n", self.at):
                self.at += 2
            elif char == "#":
                self._skip_line()
            elif char in "<>":
                self._redirection()
            elif char in ENDS:
                self.at += 1
                self._end()
            else:
                word = self._word()
                if word.text or word.quoted or word.unknown:  # else a variable that is empty
                    self.words.append(word)
        self._end()
        return self.commands

    def _skip_line(self) -> None:
        end = self.script.find("\n", self.at)
        self.at = len(self.script) if end < 0 else end

    def _redirection(self) -> None:
        """Leave out where a command reads and writes."""
        if self.words and self.words[-1].text.isdigit():
            self.words.pop()
        while self.at < len(self.script) and self.script[self.at] in "<>&- \t":
            self.at += 1
        if self.at < len(self.script) and self.script[self.at] not in ENDS:
            self._word()

    def _end(self) -> None:
        """Close a command; what it only sets is known to those after it."""
        words, self.words = self.words, []
        while words and words[0].is_one_of(LEADS):
            words = words[1:]
        if words and words[0].text in DECLARES:
            words = [word for word in words[1:] if word.assigned]
        own: dict[str, ShellWord] = {}
        while words and (match := words[0].assigned):
            word = words[0]
            own[match[1]] = ShellWord(word.text[match.end() :], word.at, word.unknown)
            words = words[1:]
        if words:
            self.commands.append(Command(words, {**self.set, **own}))
            return
        self.set.update(own)
        for name, word in own.items():
            self.known.pop(name, None)
            if word.is_known:
                self.known[name] = word.text

    def _word(self) -> ShellWord:
        word = ShellWord(at=self.at)
        while self.at < len(self.script):
            char = self.script[self.at]
            if char in " \t\r<>" or char in ENDS:
                break
            self._piece(char, word)
        return word

    def _piece(self, char: str, word: ShellWord) -> None:
        if char in "'\"\\$`":
            word.ends_writing()
        if char == "'":
            end = self.script.find("'", self.at + 1)
            end = len(self.script) if end < 0 else end
            word.text += self.script[self.at + 1 : end]
            word.quoted = True
            self.at = end + 1
        elif char == '"':
            self._double(word)
        elif char == "\\":
            following = self.script[self.at + 1 : self.at + 2]
            word.text += "" if following == "\n" else following
            self.at += 2
        elif char in "$`":
            self._expansion(word)
        else:
            word.text += char
            self.at += 1

    def _double(self, word: ShellWord) -> None:
        self.at += 1
        word.quoted = True
        while self.at < len(self.script) and self.script[self.at] != '"':
            char = self.script[self.at]
            if char == "\\" and self.script[self.at + 1 : self.at + 2] in (
                "$",
                "`",
                '"',
                "\\",
                "\n",
            ):
                following = self.script[self.at + 1]
                word.text += "" if following == "\n" else following
                self.at += 2
            elif char in "$`":
                self._expansion(word)
            else:
                word.text += char
                self.at += 1
        self.at += 1

    def _expansion(self, word: ShellWord) -> None:
        start = self.at
        if self.script[start] == "`":
            end = self.script.find("`", start + 1)
            self.at = len(self.script) if end < 0 else end + 1
        elif self.script.startswith("$(", start):
            self.at = self._closing(start + 1, "(", ")")
        elif self.script.startswith("${", start):
            self.at = self._closing(start + 1, "{", "}")
            self._variable(word, self.script[start + 2 : self.at - 1], start)
            return
        else:
            match = NAME.match(self.script, start + 1)
            self.at = match.end() if match is not None else start + 2
            if match is not None:
                self._variable(word, match[0], start)
                return
            if self.script[start + 1 : start + 2] in ("", " ", "\t", "\n", '"'):
                word.text += "$"
                self.at = start + 1
                return
        word.unknown.append(self.script[start : self.at])

    def _variable(self, word: ShellWord, said: str, start: int) -> None:
        name, dash, default = said.partition(":-")
        if not dash:
            name, dash, default = said.partition("-")
        plain = NAME.fullmatch(name) is not None and "$" not in default and "`" not in default
        if plain and self.known.get(name):
            word.text += self.known[name]
        elif plain and dash and name not in self.set and name not in self.opaque:
            word.text += default
        else:
            word.unknown.append(self.script[start : self.at])

    def _closing(self, at: int, opening: str, closing: str) -> int:
        depth = 0
        for end in range(at, len(self.script)):
            depth += (self.script[end] == opening) - (self.script[end] == closing)
            if depth == 0:
                return end + 1
        return len(self.script)
