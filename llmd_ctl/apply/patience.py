"""How long an apply waits and for whom, so that nobody waits without knowing for what.

Made by `apply`, which notes here who was asked and what came; its words go into the errors of
`failure`. It asks nobody itself.
"""

from __future__ import annotations

from msgspec import Struct, field

from llmd_ctl.apply.machine import Clock

NO_ANSWER_YET = "no answer yet"
HOW_TO_CHANGE = "`--timeout 10m` waits longer"


class Silence(Struct, frozen=True):
    """Someone who was asked and did not answer; `since` is monotonic, `since_wall` unix seconds."""

    since: float
    since_wall: float
    reason: str


class Patience(Struct):
    """One apply's wait. `limit_seconds` counts from `began`, which is monotonic."""

    clock: Clock
    limit_seconds: float
    began: float
    silent: dict[str, Silence] = field(default_factory=dict)

    @classmethod
    def begin(cls, clock: Clock, limit_seconds: float) -> Patience:
        """Begin to wait."""
        return cls(clock, limit_seconds, clock.monotonic())

    @property
    def left_seconds(self) -> float:
        """What is left of the limit; never below 0."""
        return max(0.0, self.began + self.limit_seconds - self.clock.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether the limit has passed."""
        return self.left_seconds == 0.0

    @property
    def until_wall(self) -> float:
        """When it ends, in unix seconds."""
        return self.clock.wall() + self.left_seconds

    def note(self, name: str, reason: str = NO_ANSWER_YET) -> Silence:
        """Note that someone is silent, and why as far as that is known."""
        before = self.silent.get(name)
        since = (before.since, before.since_wall) if before else self._now()
        self.silent[name] = Silence(*since, reason)
        return self.silent[name]

    def answered(self, name: str) -> None:
        """Note that someone answers."""
        self.silent.pop(name, None)

    def spent(self, name: str) -> str:
        """How long someone has been silent, in words."""
        return f"silent for {self.clock.monotonic() - self.silent[name].since:.0f} s"

    def whom(self) -> list[str]:
        """Everyone who is silent, for how long and why."""
        return [f"{name} is {self.spent(name)}: {one.reason}" for name, one in self.silent.items()]

    def _now(self) -> tuple[float, float]:
        return self.clock.monotonic(), self.clock.wall()
