"""Which port each part of a fleet gets: first free from a known start, recorded, used again.

Called by the controller. Free means: nobody listens there and no other fleet of this user has it
recorded, so that a replica which is down for a moment keeps its port. It never frees a port by
stopping anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from llmd_ctl.apply.machine import Machine
from llmd_ctl.apply.state import StateFolder, Unreadable

ROUTER_DATA = "router"
ROUTER_ADMIN = "routerAdmin"
FIRST_DATA = 8000
FIRST_ADMIN = 9090
FIRST_ENGINE = 18000
# Up to the range from which the system takes ports for outgoing connections on most machines.
LAST = 32767


class NoPort(Exception):
    """No port is free from the start of a range on."""


@dataclass
class PortBook:
    """The ports of one fleet. Every change is written before the port is used."""

    folder: StateFolder
    machine: Machine
    ports: dict[str, int]

    @classmethod
    def open(cls, folder: StateFolder, machine: Machine) -> PortBook:
        """Read ports.json; an unreadable one is set aside, since running processes know theirs."""
        try:
            ports = folder.ports()
        except Unreadable as error:
            folder.set_aside(error.path)
            ports = {}
        return cls(folder, machine, ports)

    def claim(self, owner: str, first: int) -> int | None:
        """The owner's port; None when another fleet is choosing just now: ask again."""
        known = self.ports.get(owner)
        if known is not None:
            return known
        lock = self.machine.files.try_lock(self.folder.path.parent / "ports.lock", b"")
        if lock is None:
            return None
        try:
            taken = set(self.ports.values()) | set(self._others())
            port = next(self._free(first, taken), None)
            if port is None:
                raise NoPort(f"no port is free from {first} to {LAST}")
            self._set({**self.ports, owner: port})
            return port
        finally:
            lock.release()

    def keep(self, running: Mapping[str, int], planned: Iterable[str]) -> None:
        """Start from what runs: its ports are facts, and only planned owners keep a claim."""
        owners = {*planned, ROUTER_DATA, ROUTER_ADMIN}
        kept = {owner: port for owner, port in self.ports.items() if owner in owners}
        kept.update(running)
        if kept != self.ports:
            self._set(kept)

    def free(self, owner: str) -> None:
        """Forget a port whose owner is gone for good."""
        if owner in self.ports:
            self._set({name: port for name, port in self.ports.items() if name != owner})

    def _set(self, ports: dict[str, int]) -> None:
        self.folder.write_ports(ports)
        self.ports = ports

    def _free(self, first: int, taken: set[int]) -> Iterator[int]:
        for port in range(first, LAST + 1):
            if port not in taken and self.machine.processes.listener(port) is None:
                yield port

    def _others(self) -> Iterator[int]:
        root = self.folder.path.parent
        for name in self.machine.files.list(root):
            if name == self.folder.fleet:
                continue
            other = StateFolder(name, root / name, self.folder.files)
            try:
                yield from other.ports().values()
            except Unreadable:
                continue
