"""The folder that `render` writes into: what of it is ours, what differs, and how it is brought up.

Used by `render` alone. Which files are ours stands in a list beside them, `LIST`: only those are
overwritten or removed, and a folder holds one target. Each file is replaced whole, and the list is
written before what it names, so that a command that was broken off can be run again. Of two
commands at once the second is refused.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path, PurePosixPath

from msgspec import Struct

from llmd_ctl.apply.files import RealFiles
from llmd_ctl.errors import Interrupted, UsageError
from llmd_ctl.render.file import RenderedFile

LIST = ".llmd-ctl-rendered.json"
PLAIN, EXECUTABLE = 0o644, 0o755
CODE = "LC6011"
LINE = re.compile(r"[^\n]*\n|[^\n]+")
NOT_A_FOLDER = (errno.EEXIST, errno.ENOTDIR)


class Owner(Struct, frozen=True):
    """Whose files a folder holds."""

    fleet: str
    target: str
    format: str


class State(Struct, frozen=True):
    """A rendering beside what is in the folder. Paths are relative to it."""

    files: tuple[RenderedFile, ...]
    changed: frozenset[str]
    removed: tuple[str, ...]
    known: bool  # whether the list is the right one

    @property
    def differs(self) -> bool:
        """Whether the folder is another one than it would be after writing."""
        return bool(self.changed or self.removed or not self.known)


class OutputFolder:
    """A folder on disk that holds, or will hold, the files of one target."""

    def __init__(self, path: Path, owner: Owner) -> None:
        self.path = path
        self.owner = owner
        self._files = RealFiles()

    def compare(self, files: tuple[RenderedFile, ...]) -> State:
        """What writing would change. Raises `UsageError` for files that are somebody else's."""
        listed = self._listed()
        ours = frozenset(listed or ())
        new = {file.path: file for file in files}
        strangers = [
            path for path, file in new.items()
            if path not in ours and self._content(path) not in (None, file.text.encode())
        ]  # fmt: skip
        if strangers:
            message = f"{self.path} has files that llmd-ctl did not write"
            raise UsageError.of(CODE, message, found=", ".join(strangers))
        removed = tuple(p for p in sorted(ours - set(new)) if self._content(p) is not None)
        changed = frozenset(path for path, file in new.items() if not self._is_as(file))
        return State(files, changed, removed, listed == sorted(new))

    def write(self, state: State) -> None:
        """Bring the folder to that state. What does not differ is not touched.

        Raises `UsageError` where the system does not let it, or another command writes there, and
        `Interrupted`.
        """
        try:
            self._files.make_folder(self.path)
            with self._alone():
                self._write(state)
        except OSError as error:
            raise self._refused(error) from error
        except KeyboardInterrupt:
            message = f"interrupted while {self.path} was written"
            hint = "Render again: it goes on from there."
            raise Interrupted.of("LC4008", message, hint=hint) from None

    def _refused(self, error: OSError) -> UsageError:
        message = f"cannot write {error.filename or self.path}: {error.strerror}"
        hint = None
        if error.errno in NOT_A_FOLDER:
            message = f"cannot write into {self.path}: it is no folder"
            hint = "Name a folder, or a path where none is yet."
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "Make room there and render again: it goes on from there."
        return UsageError.of("LC6003", message, hint=hint)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other commands out of the folder. Raises `UsageError` where one is in there."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            message = f"another llmd-ctl writes into {self.path}"
            raise UsageError.of(CODE, message, hint="Render again once it has ended.") from error
        finally:
            os.close(descriptor)

    def _write(self, state: State) -> None:
        now = [file.path for file in state.files]
        self._write_list({*now, *state.removed})
        for file in state.files:
            if file.path in state.changed:
                mode = EXECUTABLE if file.executable else PLAIN
                self._files.make_folder((self.path / file.path).parent)
                self._files.write_atomic(self.path / file.path, file.text.encode(), mode)
        for path in state.removed:
            self._files.remove(self.path / path)
            self._tidy((self.path / path).parent)
        self._write_list(now)

    def diff(self, state: State) -> str:
        """What would change, as `diff -u` writes it."""
        out: list[str] = []
        for file in state.files:
            if file.path in state.changed:
                out += self._lines(file.path, file.text)
        for path in state.removed:
            out += self._lines(path, "")
        return "\n".join(out)

    def _lines(self, path: str, text: str) -> Iterable[str]:
        old = (self._content(path) or b"").decode(errors="replace")
        lines = [
            line.rstrip("\n")
            for line in unified_diff(_lines_of(old), _lines_of(text), f"a/{path}", f"b/{path}")
        ]
        return lines or [f"{path}: whether it can be executed"]

    def _is_as(self, file: RenderedFile) -> bool:
        path = self.path / file.path
        if self._content(file.path) != file.text.encode():
            return False
        return bool(path.stat().st_mode & 0o100) == file.executable

    def _content(self, path: str) -> bytes | None:
        return self._files.read(self.path / path)

    def _listed(self) -> list[str] | None:
        """The files that were written here; None in a folder that has no list."""
        text = self._files.read(self.path / LIST)
        if text is None:
            return None
        owner, files = _read_list(text, self.path / LIST)
        if owner != self.owner:
            message = (
                f"{self.path} holds fleet {owner.fleet}, target {owner.target} ({owner.format})"
            )
            raise UsageError.of(CODE, message, hint="Give each of them a folder of its own.")
        return files

    def _write_list(self, paths: Iterable[str]) -> None:
        document = {
            "version": 1,
            "fleet": self.owner.fleet,
            "target": self.owner.target,
            "format": self.owner.format,
            "files": sorted(paths),
        }
        text = (json.dumps(document, indent=2) + "\n").encode()
        if self._files.read(self.path / LIST) != text:
            self._files.write_atomic(self.path / LIST, text)

    def _tidy(self, folder: Path) -> None:
        """Remove folders that nothing is in any more, up to the output folder."""
        while folder != self.path and not self._files.list(folder):
            folder.rmdir()
            folder = folder.parent


def _read_list(text: bytes, path: Path) -> tuple[Owner, list[str]]:
    """The list of a folder. Raises `UsageError` for one that we would not have written."""
    try:
        document = json.loads(text)
        files = document["files"]
        owner = Owner(document["fleet"], document["target"], document["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise _broken(path) from error
    names = isinstance(files, list) and all(
        isinstance(name, str) and _inside(name) for name in files
    )
    if not names or not isinstance(document, Mapping):
        raise _broken(path)
    return owner, files


def _broken(path: Path) -> UsageError:
    hint = "Remove what was rendered there, and the list, and render again."
    return UsageError.of(CODE, f"{path} is not as llmd-ctl wrote it", hint=hint)


def _lines_of(text: str) -> list[str]:
    """The lines of a text, each with its end: a difference in ends alone is one too."""
    return LINE.findall(text)


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return name != "" and not path.is_absolute() and ".." not in path.parts


def digest(file: RenderedFile) -> str:
    """The SHA-256 of a file's content."""
    return hashlib.sha256(file.text.encode()).hexdigest()
