"""The llama.cpp launcher: llama-server's flags, nothing accepted that isn't carried out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from llmd_ctl.apply import llamacpp_server

FAKE = """\
import types
class CommonParams:
    def __init__(self):
        self.model = types.SimpleNamespace()
        self.cpuparams = types.SimpleNamespace()
class Server:
    def __init__(self, parameters):
        if parameters.model.path.endswith("bad.gguf"):
            raise RuntimeError("Failed to init server")
        self.listening_address = f"http://{parameters.hostnames[0]}:{parameters.port}"
"""


def parameters(*flags: str) -> types.SimpleNamespace:
    """What the flags become, with a stand-in for the wheel."""
    wheel = types.ModuleType("xllamacpp")
    exec(FAKE, wheel.__dict__)
    made = llamacpp_server.parameters(llamacpp_server.parse(flags), wheel)
    assert made is not None
    return types.SimpleNamespace(**vars(made))


@pytest.fixture
def weights(tmp_path: Path) -> str:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    return str(path)


def test_every_flag_reaches_the_server(weights: str) -> None:
    flags = ["--model", weights, "--host", "127.0.0.2", "--port", "18000", "--alias", "tiny,other"]
    flags += ["--ctx-size", "8192", "--parallel", "4", "--threads", "2", "--metrics"]
    made = parameters(*flags)
    assert made.model.path == weights
    assert (made.hostnames, made.port) == (["127.0.0.2"], 18000)
    assert (made.n_ctx, made.n_parallel, made.cpuparams.n_threads) == (8192, 4, 2)
    assert made.endpoint_metrics
    assert made.model_alias == {"tiny"}
    assert parameters("-m", weights, "-a", "z", "-a", "a").model_alias == {"z"}


@pytest.mark.parametrize(
    "flags",
    [
        ["--n-gpu-layers", "9"],
        ["--ctx-siz", "1"],
        ["--ctx-size", "0"],
        ["--parallel", "two"],
        ["--port", "70000"],
        ["--model", "/no/such.gguf"],
        ["extra"],
    ],
)
def test_what_is_unknown_or_out_of_range_is_refused(
    weights: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        llamacpp_server.parse(["--model", weights, *flags])
    assert ended.value.code == 64
    assert capsys.readouterr().err.startswith("llamacpp_server: ")


def started(tmp_path: Path, weights: str) -> subprocess.Popen[str]:
    """The launcher by its file path, as another interpreter would run it."""
    (tmp_path / "xllamacpp.py").write_text(FAKE)
    return subprocess.Popen(
        [sys.executable, str(llamacpp_server.__file__), "--model", weights, "--port", "18000"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path: Path, weights: str, number: int) -> None:
    with started(tmp_path, weights) as server:
        assert server.stderr is not None
        assert server.stderr.readline() == "listening on http://127.0.0.1:18000\n"
        server.send_signal(number)
        assert server.wait(10) == 0


def test_weights_that_cannot_be_loaded_are_an_error_in_a_line(tmp_path: Path, weights: str) -> None:
    bad = Path(weights).with_name("bad.gguf")
    bad.write_bytes(b"")
    with started(tmp_path, str(bad)) as server:
        assert server.wait(10) == 1
        assert server.stderr is not None
        assert server.stderr.read() == f"llamacpp_server: {bad}: Failed to init server\n"


def test_a_missing_wheel_is_said_with_the_way_to_get_it(tmp_path: Path, weights: str) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('No module named xllamacpp')\n")
    done = subprocess.run(
        [sys.executable, str(llamacpp_server.__file__), "--model", weights],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 69
    assert "hint: pip install 'llmd-ctl[llamacpp]'" in done.stderr
