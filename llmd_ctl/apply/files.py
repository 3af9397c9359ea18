"""Real files: atomic writes, bounded logs and locks that die with their holder.

Used through `FilePort`. A write goes to a neighbour file, is synced and renamed, so a reader or a
killed writer never sees half a document. It never removes what it did not name itself.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path


class HeldLock:
    """An flock on an open file. The kernel drops it when the process ends, however it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go. The holder's text is emptied first, so nobody reads a stale name."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


class RealFiles:
    """`FilePort` on the local file system."""

    def read(self, path: Path) -> bytes | None:
        """The content, or None when there is no such file."""
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_atomic(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        """Write a neighbour, sync it, rename it over the file and sync the folder."""
        draft = path.with_name(f".{path.name}.draft")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(draft, flags, mode)
        with os.fdopen(descriptor, "wb") as out:
            os.fchmod(out.fileno(), mode)
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: Path) -> None:
        """Remove the file if it is there."""
        path.unlink(missing_ok=True)

    def list(self, folder: Path) -> Sequence[str]:
        """The names in a folder, sorted; none when there is no such folder."""
        try:
            return sorted(entry.name for entry in folder.iterdir())
        except FileNotFoundError:
            return []

    def make_folder(self, folder: Path) -> None:
        """Make the folder and its parents."""
        folder.mkdir(parents=True, exist_ok=True)

    def bound(self, path: Path, max_bytes: int) -> None:
        """Move a log that grew past `max_bytes` to `NAME.1` and empty it in place.

        In place, because the process that writes it keeps its descriptor (opened for appending).
        """
        try:
            if path.stat().st_size <= max_bytes:
                return
        except FileNotFoundError:
            return
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        os.truncate(path, 0)

    def prune(self, folder: Path, names: Collection[str], newest: int) -> None:
        """Of these files in a folder, remove all but the ones that were changed last."""
        changed = []
        for name in names:
            with suppress(FileNotFoundError):
                changed.append(((folder / name).stat().st_mtime_ns, name))
        for _, name in sorted(changed)[: max(0, len(changed) - newest)]:
            self.remove(folder / name)

    def try_lock(self, path: Path, holder: bytes) -> HeldLock | None:
        """Take the lock and write who holds it, or None when another process has it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder, 0)
        return HeldLock(descriptor)
