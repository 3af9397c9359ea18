"""Real time, with a sleep that a termination signal cuts short.

Used through `Clock`. `wake` is safe to call from a signal handler; it never loses a wake-up.
"""

from __future__ import annotations

import threading
import time


class RealClock:
    """`Clock` on the system's time."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def wall(self) -> float:
        """Unix seconds."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait; `wake` ends it early."""
        self._woken.wait(seconds)

    def wake(self) -> None:
        """End the present sleep and every later one at once."""
        self._woken.set()
