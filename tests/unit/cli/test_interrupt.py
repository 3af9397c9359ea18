"""Ctrl-C, also where Python itself would lose it."""

import subprocess
import sys

LOST = """
import signal, sys, time, weakref

from llmd_ctl import cli


class Thing:
    pass


def callback(_reference):
    signal.raise_signal(signal.SIGINT)
    time.sleep(0)  # the handler runs between two steps of the callback


sys.unraisablehook = cli.interrupt_again
thing = Thing()
reference = weakref.ref(thing, callback)
try:
    del thing
    time.sleep(30)
except KeyboardInterrupt:
    sys.exit(130)
sys.exit(1)
"""


def test_an_interrupt_in_a_callback_of_python_is_asked_for_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOST], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_what_else_a_callback_raises_is_told() -> None:
    script = LOST.replace("signal.raise_signal(signal.SIGINT)", "sys.exit('no')").replace("30", "0")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 1
    assert "SystemExit" in done.stderr
