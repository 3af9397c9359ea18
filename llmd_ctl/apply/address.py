"""Which port each part of a fleet gets: the first free one in its order, recorded, used again.

Called by the controller. Free means: nobody listens there and no other fleet beside this one has it
recorded, so that a replica which is down for a moment keeps its port. The router's ports count up
from 8000 and 9090, and are its for good once it has served there. Engines take 18000 to 28999, each
fleet from a place of its own that follows from its state folder's path: an engine listens long
after its port was chosen, and fleets with different state homes don't know of each other. It never
frees a port by stopping anybody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from llmd_ctl.apply.machine import Machine
from llmd_ctl.apply.state import StateFolder, Unreadable

ROUTER_DATA = "router"
ROUTER_ADMIN = "routerAdmin"
# Up to the range from which the system takes ports for outgoing connections on most machines.
DATA_PORTS = range(8000, 32768)
ADMIN_PORTS = range(9090, 32768)
ENGINE_PORTS = range(18000, 29000)


class NoPort(Exception):
    """No port of a range is free."""


def engine_ports(folder: Path, *salt: object) -> tuple[int, ...]:
    """The engines' ports in the order a fleet tries them; `salt` gives it another start."""
    text = "\0".join(map(str, (folder, *salt)))
    start = int(hashlib.sha256(text.encode()).hexdigest(), 16) % len(ENGINE_PORTS)
    return (*ENGINE_PORTS[start:], *ENGINE_PORTS[:start])


class PortBook(Struct):
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

    def claim(self, owner: str, order: Iterable[int]) -> int | None:
        """The owner's port; None when another fleet is choosing just now: ask again."""
        known = self.ports.get(owner)
        return self._choose(owner, order) if known is None else known

    def claim_engine(self, owner: str) -> int | None:
        """As `claim`, in the fleet's order of engine ports."""
        return self.claim(owner, engine_ports(self.folder.path))

    def move_engine(self, owner: str, refused: int) -> int | None:
        """Another port than the `refused` one; None: ask again.

        Not simply the next one: two fleets that met on a port would meet there again.
        """
        order = engine_ports(self.folder.path, owner, refused)
        return self._choose(owner, (port for port in order if port != refused))

    def _choose(self, owner: str, order: Iterable[int]) -> int | None:
        lock = self.machine.files.try_lock(self.folder.path.parent / "ports.lock", b"")
        if lock is None:
            return None
        try:
            taken = set(self.ports.values()) | set(self._others())
            port = next(self._free(order, taken), None)
            if port is None:
                raise NoPort("no port of its range is free")
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

    def _free(self, order: Iterable[int], taken: set[int]) -> Iterator[int]:
        for port in order:
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
