"""A fleet's state folder: its documents by name, read with care and written whole.

Used by apply, delete, status and the controller. A document that can't be read is never overwritten
in silence: it is set aside under `NAME.unreadable` and said in an error or a warning. Only this
module knows file names, through `render.Layout`. The history keeps the newest 20 revisions; logs
are bounded by the controller (`controller.upkeep`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from llmd_ctl.apply.machine import FilePort
from llmd_ctl.apply.records import Desired, Observed, ProcessId
from llmd_ctl.errors import SpecInvalid
from llmd_ctl.plan import Plan
from llmd_ctl.render import Layout
from llmd_ctl.spec.json_text import read_json

Json = dict[str, Any]
T = TypeVar("T")
SECRET = 0o600
KEPT_REVISIONS = 20


class Unreadable(Exception):
    """A document of the state folder that is cut short or not of its form."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} can't be read: {why}")
        self.path = path


def state_root(environ: Mapping[str, str]) -> Path:
    """The folder of all fleets: `$XDG_STATE_HOME/llmd-ctl`, by default ~/.local/state/llmd-ctl."""
    home = environ.get("XDG_STATE_HOME", "")
    folder = Path(home) if home.startswith("/") else Path.home() / ".local" / "state"
    return folder / "llmd-ctl"


class StateFolder(Struct, frozen=True):
    """One fleet's folder."""

    fleet: str
    path: Path
    files: FilePort

    @classmethod
    def of(
        cls, fleet: str, files: FilePort, environ: Mapping[str, str] = os.environ
    ) -> StateFolder:
        """The folder of a fleet by name."""
        return cls(fleet, state_root(environ) / fleet, files)

    @property
    def layout(self) -> Layout:
        """The names of everything inside."""
        return Layout(self.fleet, str(self.path))

    def prepare(self) -> None:
        """Make the folder and those inside it."""
        for name in ("", "history", "logs", "engines", "access"):
            self.files.make_folder(self.path / name)

    def desired(self) -> Desired | None:
        """What should run; None before the first apply. Raises Unreadable."""
        return self._read("desired.json", Desired.from_json)

    def observed(self) -> Observed | None:
        """What the controller saw last. Raises Unreadable."""
        return self._read("observed.json", Observed.from_json)

    def controller(self) -> ProcessId | None:
        """The controller that was started last, dead or alive. Raises Unreadable."""
        return self._read("controller.json", ProcessId.from_json)

    def ports(self) -> dict[str, int]:
        """Port by owner's name. Raises Unreadable."""
        return self._read("ports.json", _ports_from_json) or {}

    def past(self, revision: int) -> Desired | None:
        """A revision from the history. Raises Unreadable."""
        return self._read(f"history/{revision}.json", Desired.from_json)

    def revisions(self) -> list[int]:
        """The revisions in the history, oldest first."""
        names = self.files.list(self.path / "history")
        stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def write_desired(self, desired: Desired) -> None:
        """Write history first: a revision that is desired can then always be looked up."""
        self._write(f"history/{desired.revision}.json", desired.to_json())
        self._write("desired.json", desired.to_json())
        for old in self.revisions()[:-KEPT_REVISIONS]:
            self.files.remove(self.path / "history" / f"{old}.json")

    def write_observed(self, observed: Observed) -> None:
        """Say what the controller sees."""
        self._write("observed.json", observed.to_json())

    def write_controller(self, process: ProcessId) -> None:
        """Say who the controller is."""
        self._write("controller.json", process.to_json())

    def write_ports(self, ports: Mapping[str, int]) -> None:
        """Record who has which port."""
        self._write("ports.json", {"version": 1, "ports": dict(ports)})

    def admin_key(self) -> str | None:
        """The router's admin key; None before the first controller."""
        content = self.files.read(Path(self.layout.admin_key))
        return content.decode().strip() if content else None

    def write_admin_key(self, key: str) -> None:
        """Store the admin key for the owner's eyes only."""
        self.files.write_atomic(Path(self.layout.admin_key), f"{key}\n".encode(), SECRET)

    def set_aside(self, path: Path) -> Path:
        """Keep an unreadable document under another name, so that a new one can be written."""
        content = self.files.read(path)
        kept = path.with_name(f"{path.name}.unreadable")
        if content is not None:
            self.files.write_atomic(kept, content)
            self.files.remove(path)
        return kept

    def log_tail(self, name: str, lines: int) -> list[str]:
        """The last lines of a log that say something."""
        content = self.files.read(Path(self.layout.log(name))) or b""
        texts = content[-65536:].decode(errors="replace").splitlines()
        return [text.strip() for text in texts if text.strip()][-lines:]

    def _read(self, name: str, parse: Callable[[Json], T]) -> T | None:
        path = self.path / name
        content = self.files.read(path)
        if content is None:
            return None
        try:
            return parse(read_json(content))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unreadable(path, _why(error)) from error

    def _write(self, name: str, document: Json) -> None:
        content = (json.dumps(document, indent=2) + "\n").encode()
        self.files.write_atomic(self.path / name, content)


def desired_plan(desired: Desired | None) -> Plan | None:
    """The plan that is desired; None when there is none, or none that this version can read."""
    if desired is None or desired.plan is None:
        return None
    try:
        return Plan.from_json(desired.plan)
    except SpecInvalid:
        return None


def _ports_from_json(document: Json) -> dict[str, int]:
    return {str(name): int(port) for name, port in document["ports"].items()}


def _why(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error)
