"""The command line that a container starts, word by word, each with its place in the manifest.

Called by `judge`. `command` and `args` are put together as the kubelet does, variables in them
replaced, and a script behind `sh -c` is looked through for the command that starts an engine. What
cannot be told is marked and named in `unread`, so that nothing is judged that may be otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct, field

from llmd_ctl.errors import Place
from llmd_ctl.plan.manifests.environment import Environment
from llmd_ctl.plan.manifests.manifest import Manifest, Path, items, look
from llmd_ctl.plan.manifests.shell import ShellWord, commands_of
from llmd_ctl.profiles.image_names import Started, entered, started

SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.][A-Za-z0-9_.-]*)\)")
UNKNOWN = "\0"  # stands in a word for what cannot be told: no file has it (`spec.source`)


class Word(Struct, frozen=True):
    """A word of a command line, and where it stands."""

    text: str
    place: Place

    @property
    def is_known(self) -> bool:
        """Whether it will be exactly this."""
        return UNKNOWN not in self.text


class CommandLine(Struct):
    """What a container starts. `engine` None: no engine that is known."""

    words: list[Word] = field(default_factory=list)
    start: Started | None = None
    env: dict[str, Word] = field(default_factory=dict)  # that a script sets
    unread: list[tuple[str, Place]] = field(default_factory=list)

    @property
    def own(self) -> list[Word]:
        """The engine's own words."""
        return self.words[self.start.at :] if self.start is not None else []


class CommandReader:
    """Reads one container."""

    def __init__(self, manifest: Manifest, container: Path, env: Environment) -> None:
        self.manifest = manifest
        self.container = container
        self.env = env

    def read(self, entry: str | None) -> CommandLine:
        """The command line; `entry`: the engine that the image starts by itself."""
        line = CommandLine()
        said = [self._words(key, line) for key in ("command", "args")]
        line.words = [*said[0], *said[1]]
        script = _script(line.words)
        if script is not None:
            return self._of_script(script, line)
        line.start = started([word.text for word in line.words])
        if line.start is None and entry is not None and not said[0]:
            line.start = started([word.text for word in said[1]]) or entered(entry)
        return line

    def _words(self, key: str, line: CommandLine) -> list[Word]:
        path = (*self.container, key)
        out = []
        for index, value in enumerate(items(look(self.manifest.data, *path))):
            place = self.manifest.place((*path, index))
            out.append(Word(self._expanded(str(value), place, line), place))
        return out

    def _expanded(self, text: str, place: Place, line: CommandLine) -> str:
        """Replace $(NAME) as the kubelet does: what is not set stays as it is written."""

        def put(match: re.Match[str]) -> str:
            name = match[1]
            if name is None:
                return "$"
            if name in self.env.values:
                return self.env.values[name]
            if name in self.env.opaque:
                line.unread.append((f"$({name})", place))
                return UNKNOWN
            return match[0]

        return REFERENCE.sub(put, text)

    # --- scripts ---

    def _of_script(self, script: Word, line: CommandLine) -> CommandLine:
        given = line.words[line.words.index(script) + 2 :]
        line.words = []
        place_of = _Placer(self.manifest, script)
        for command in commands_of(script.text, self.env.values, frozenset(self.env.opaque)):
            read = CommandLine()
            for each in command.words:
                passed = each.unknown == ["$@"] and not each.text
                read.words += given if passed else [self._word(each, place_of, read)]
            read.start = started([word.text for word in read.words])
            if read.start is None:
                continue
            if line.start is not None:
                read.unread.append(
                    ("an engine that an earlier command starts", line.words[0].place)
                )
            line.words, line.start = read.words, read.start
            line.env = {n: self._word(each, place_of, read) for n, each in command.env.items()}
            line.unread += read.unread
        return line

    def _word(self, said: ShellWord, place_of: _Placer, line: CommandLine) -> Word:
        place = place_of(said.at)
        line.unread += [(what, place) for what in said.unknown]
        return Word(said.text + UNKNOWN * bool(said.unknown), place)


def _script(words: Sequence[Word]) -> Word | None:
    """The script that a shell is given."""
    if not words or words[0].text.rpartition("/")[2] not in SHELLS:
        return None
    for index, word in enumerate(words[1:], 1):
        if re.fullmatch(r"-[a-z]*c", word.text):
            return words[index + 1] if index + 1 < len(words) else None
    return None


class _Placer:
    """From a character of a script to its place, where the file shows the script as it is."""

    def __init__(self, manifest: Manifest, script: Word) -> None:
        self.source = manifest.source
        self.script = script
        self.starts = self._starts()

    def __call__(self, at: int) -> Place:
        before = self.script.text[:at]
        row = before.count("\n")
        if row >= len(self.starts):
            return self.script.place
        line, column = self.starts[row]
        inside = len(before) - (before.rfind("\n") + 1)
        length = len(re.split(r"\s", self.script.text[at : at + 200], maxsplit=1)[0])
        place = self.source.place(line, column + inside, (), length)
        return Place(
            place.file, place.line, place.column, self.script.place.path, place.text, length
        )

    def _starts(self) -> list[tuple[int, int]]:
        """Where each line of the script begins; none, where it is written in another way."""
        place, lines = self.script.place, self.source.lines
        said = self.script.text.split("\n")
        head = lines[place.line - 1][place.column - 1 :]
        if head.startswith("|"):
            shown = lines[place.line : place.line + len(said)]
            first = next((n for n, told in enumerate(said) if told), 0)
            indent = len(shown[first]) - len(said[first]) if first < len(shown) else 0
            pairs = zip(said, shown, strict=False)
            same = all(told == there[indent:] for told, there in pairs if told)
            return [(place.line + 1 + n, indent + 1) for n in range(len(said))] if same else []
        quote = 1 if head[:1] in ("'", '"') else 0
        if len(said) == 1 and head[quote:].startswith(said[0]):
            return [(place.line, place.column + quote)]
        return []
