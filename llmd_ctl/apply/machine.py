"""The machine as apply and the controller touch it: files, processes, network and clock.

Every effect goes through one of these protocols, so that a test can kill the caller before or
after each step, run the whole control loop in virtual time, and fill the machine with strangers.
The real ones are in `files.py`, `process.py`, `network.py` and `clock.py`; nothing here acts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from llmd_ctl.apply.records import ProcessId
from llmd_ctl.router.answer import Answer, RouterStatus

# The environment marker of every process a fleet starts: found again even when its record is lost.
MARK_STATE = "LLMD_CTL_STATE"
MARK_FLEET = "LLMD_CTL_FLEET"
MARK_REPLICA = "LLMD_CTL_REPLICA"
MARK_PORT = "LLMD_CTL_PORT"


class CannotSpawn(Exception):
    """A command that can't be started at all, such as one that isn't installed."""


class Launch(Struct, frozen=True):
    """A process to start in a session of its own. `env` is added to the caller's environment.

    The caller is the controller, which has the environment of the `apply` that started it.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: Path


class Marked(Struct, frozen=True):
    """A live process that carries a fleet's marker. `leader`: it leads its own session."""

    process: ProcessId
    replica: str
    port: int
    leader: bool


class Listener(Struct, frozen=True):
    """Who listens on a TCP port; `pid` is None when another user's process can't be seen."""

    pid: int | None
    command: str


class Health(Struct, frozen=True):
    """What an engine's port answers. `misnamed`: it serves, but not the model that it should."""

    ok: bool
    reason: str
    misnamed: bool = False


class Lock(Protocol):
    """A held lock; the system releases it when its holder dies."""

    def release(self) -> None:
        """Let go of it."""


class FilePort(Protocol):
    """Files: every read and write of a state folder."""

    def read(self, path: Path) -> bytes | None:
        """The content, or None when there is no such file."""

    def write_atomic(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        """Replace the file as a whole: readers and a killed writer see the old or the new one."""

    def remove(self, path: Path) -> None:
        """Remove the file if it is there."""

    def list(self, folder: Path) -> Sequence[str]:
        """The names in a folder, sorted; none when there is no such folder."""

    def make_folder(self, folder: Path) -> None:
        """Make the folder and its parents."""

    def bound(self, path: Path, max_bytes: int) -> None:
        """Move a log that grew past `max_bytes` to `NAME.1` and empty it in place."""

    def prune(self, folder: Path, names: Collection[str], newest: int) -> None:
        """Of these files in a folder, remove all but the ones that were changed last."""

    def try_lock(self, path: Path, holder: bytes) -> Lock | None:
        """Take the lock and write who holds it, or None when another process has it."""


class ProcessPort(Protocol):
    """Processes. One whose identity does not match is never signalled."""

    def can_start(self, program: str, env: Mapping[str, str]) -> bool:
        """Whether a program is there, by the caller's PATH; `env` is added to the environment."""

    def spawn(self, launch: Launch) -> ProcessId:
        """Start a process in a session of its own; raises CannotSpawn."""

    def me(self) -> ProcessId:
        """The calling process."""

    def ended(self, process: ProcessId, mark: str | None) -> str | None:
        """How the process ended, or None while it lives; a dead child is reaped."""

    def signal(self, process: ProcessId, mark: str | None, number: int) -> None:
        """Signal the process, if it is still the same one; SIGKILL goes to its group."""

    def marked(self, state: Path) -> Sequence[Marked]:
        """All live processes that carry the marker of this state folder."""

    def listener(self, port: int) -> Listener | None:
        """Who listens on this TCP port."""

    def intruder(self, port: int, process: ProcessId, state: Path, mark: str) -> Listener | None:
        """Who else than this process and its own takes what is sent to this port."""


class NetworkPort(Protocol):
    """HTTP questions to engines and to the router, each with a time limit of its own."""

    def engine(self, port: int, model: str) -> Health:
        """Does the engine on this port answer, and serve this model name?"""

    def router_status(self, admin_url: str) -> RouterStatus | None:
        """The router's own view, or None when it doesn't answer."""

    def probe(self, admin_url: str, key: str, model: str, endpoint: str, seconds: float) -> Answer:
        """One token from one endpoint within so many seconds, through the router's data path."""

    def complete(self, url: str, model: str, certificate: str | None, seconds: float) -> Answer:
        """One token from the model within so many seconds, as a user would ask for it.

        `certificate`: the file with what an https port must show.
        """

    def shake_hands(self, url: str, certificate: str) -> Answer:
        """Whether the data port shows this certificate, where nobody is let in without one."""


class Clock(Protocol):
    """Time. Deadlines use `monotonic`; `wall` is for what people read."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def wall(self) -> float:
        """Unix seconds."""

    def sleep(self, seconds: float) -> None:
        """Wait; a signal may end it early."""


class Machine(Struct, frozen=True):
    """All of it, built once by the command and passed down."""

    files: FilePort
    processes: ProcessPort
    network: NetworkPort
    clock: Clock
