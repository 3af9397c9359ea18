"""Who listens on a TCP port, as /proc tells it: sockets of a port, sockets of a process.

Used by `process.py` only. Several sockets may listen on one port (SO_REUSEPORT, or different
addresses), and a process of another user doesn't show which are its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

PROC = Path("/proc")
TCP_LISTEN = "0A"


def _word(content: bytes) -> str:
    """A part of an address as /proc/net/tcp and tcp6 write it: 32 bits in this machine's order."""
    return f"{int.from_bytes(content, sys.byteorder):08X}"


LOOPBACK = _word(bytes([127, 0, 0, 1]))
MAPPED_LOOPBACK = "0" * 16 + _word(b"\0\0\xff\xff") + LOOPBACK  # ::ffff:127.0.0.1
EVERYWHERE = {"0" * 8, "0" * 32}


class Socket(Struct, frozen=True):
    """A listening socket. `wildcard`: on all addresses of the machine."""

    inode: str
    address: str

    @property
    def wildcard(self) -> bool:
        """Does it listen on every address?"""
        return self.address in EVERYWHERE

    @property
    def hears_loopback(self) -> bool:
        """Can what is sent to 127.0.0.1 reach it?"""
        return self.wildcard or self.address in {LOOPBACK, MAPPED_LOOPBACK}


def listening(port: int) -> Iterator[Socket]:
    """All sockets that listen on this port, on any address."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            address, _, number = fields[1].rpartition(":")
            if fields[3] == TCP_LISTEN and int(number, 16) == port:
                yield Socket(fields[9], address)


def socket_inodes(pid: int) -> set[str]:
    """The sockets a process holds; none when it is gone or another user's."""
    found: set[str] = set()
    try:
        descriptors = list((PROC / str(pid) / "fd").iterdir())
    except OSError:
        return found
    for descriptor in descriptors:
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found
