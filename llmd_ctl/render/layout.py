"""The paths of a fleet's state folder, as text: one place that knows them.

Read by `render`, `apply` and the controller. It only joins names; it never looks at a disk.
"""

from __future__ import annotations

from msgspec import Struct


class Layout(Struct, frozen=True):
    """The state folder of one fleet; `root` is absolute."""

    fleet: str
    root: str

    def path(self, *names: str) -> str:
        """A path inside the folder."""
        return "/".join((self.root, *names))

    @property
    def router_config(self) -> str:
        """What the router is started with and reloads."""
        return self.path("router.yaml")

    @property
    def replicas(self) -> str:
        """The router's source of endpoints."""
        return self.path("replicas.json")

    @property
    def admin_key(self) -> str:
        """The secret of the router's state-changing admin calls."""
        return self.path("admin.key")

    def engine_config(self, replica: str) -> str:
        """A simulated engine's configuration."""
        return self.path("engines", f"{replica}.json")

    def access_log(self, replica: str) -> str:
        """A simulated engine's log of requests."""
        return self.path("access", f"{replica}.jsonl")

    def log(self, name: str) -> str:
        """What a process says on stdout and stderr."""
        return self.path("logs", f"{name}.log")
