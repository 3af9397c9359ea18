"""Real engines of the tiny model, each a process in a group of its own, for router tests.

Used by `test_real_engines`. An engine keeps its name and port over any number of restarts, as one
behind a fixed address does. Nothing here speaks to the router.
"""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import httpx

MODEL = "tiny"
START_SECONDS = 240.0
STOP_SECONDS = 60.0


def vllm_command(executable: Path, model: Path) -> list[str]:
    """vLLM on the CPU, small and without compilation; the port is added by `Engine`."""
    flags = ["--served-model-name", MODEL, "--enforce-eager", "--max-model-len", "2048"]
    flags += ["--max-num-seqs", "16", "--kv-cache-memory-bytes", str(64 << 20)]
    return [str(executable), "serve", str(model), *flags]


def llamacpp_command(python: Path, model: Path) -> list[str]:
    """The llama.cpp server of the wheel; the port is added by `Engine`."""
    flags = ["--model", str(model / "tiny.gguf"), "--alias", MODEL, "--metrics"]
    flags += ["--ctx-size", "16384", "--parallel", "8", "--threads", "1"]
    return [str(python), "-m", "llmd_ctl.apply.llamacpp_server", *flags]


class Engine:
    """One engine on one port, running or not."""

    def __init__(self, name: str, port: int, command: list[str], log: Path) -> None:
        self.name = name
        self.port = port
        self.command = [*command, "--host", "127.0.0.1", "--port", str(port)]
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Begin a process; it is not ready yet."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, start_new_session=True
            )

    def wait_healthy(self) -> None:
        """Wait until it answers on /health."""
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"{self.name} ended:\n{self.last_words()}"
            with suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{self.port}/health", timeout=5).is_success:
                    return
            time.sleep(0.1)
        raise AssertionError(f"{self.name} is not healthy:\n{self.last_words()}")

    def kill(self) -> None:
        """SIGKILL the process and all that it started."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_SECONDS)

    def stop(self) -> None:
        """SIGTERM, and wait for its end; what is left of its group is killed."""
        assert self.process is not None
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        self.kill()

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-2000:]
