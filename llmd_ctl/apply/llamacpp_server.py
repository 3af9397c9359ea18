"""llama.cpp's server out of the `xllamacpp` wheel, with the flags of the `llama-server` program.

Started as a process by the controller: `python -m llmd_ctl.apply.llamacpp_server --model F …`, or
by file path with another interpreter: it needs nothing but `xllamacpp` and the standard library.
It refuses flags it does not carry out, and it never downloads a model.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

USAGE_ERROR = 64
UNAVAILABLE = 69


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations, whose errors have llmd-ctl's exit code."""

    def error(self, message: str) -> Any:
        """Say what is wrong in a line."""
        self.exit(USAGE_ERROR, f"llamacpp_server: {message}\n")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line; anything unknown or out of range ends the program."""
    parser = Parser(prog="llamacpp_server", description=__doc__, allow_abbrev=False)
    parser.add_argument("-m", "--model", required=True, type=_model)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", default=8080, type=_port)
    parser.add_argument("-a", "--alias", action="append", default=[])
    parser.add_argument("-c", "--ctx-size", default=4096, type=_count)
    parser.add_argument("-np", "--parallel", default=1, type=_count)
    parser.add_argument("-t", "--threads", type=_count)
    parser.add_argument("--metrics", action="store_true")
    return parser.parse_args(argv)


def parameters(options: argparse.Namespace, xllamacpp: Any) -> Any:
    """The server's parameters. The context is shared by the slots: each gets its part.

    Only the first name is passed on: the server sorts them and would call itself by the first in
    the alphabet. It answers to every name a request gives, so the others work all the same.
    """
    names = [name for text in options.alias for name in text.split(",") if name]
    made = xllamacpp.CommonParams()
    made.model.path = str(options.model)
    made.hostnames = [options.host]
    made.port = options.port
    made.model_alias = set(names[:1])
    made.n_ctx = options.ctx_size
    made.n_parallel = options.parallel
    made.endpoint_metrics = options.metrics
    made.endpoint_slots = True
    made.warmup = False
    if options.threads is not None:
        made.cpuparams.n_threads = options.threads
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT."""
    options = parse(sys.argv[1:] if argv is None else argv)
    try:
        import xllamacpp
    except ImportError as error:
        sys.stderr.write(f"llamacpp_server: {error}\nhint: pip install 'llmd-ctl[llamacpp]'\n")
        return UNAVAILABLE
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    try:
        server = xllamacpp.Server(parameters(options, xllamacpp))
    except (RuntimeError, ValueError, OSError) as error:
        sys.stderr.write(f"llamacpp_server: {options.model}: {error}\n")
        return 1
    sys.stderr.write(f"listening on {server.listening_address}\n")
    ended.wait()
    sys.stderr.flush()
    # The server's own end would keep an open stream hanging, unfed, for half a minute.
    os._exit(0)


def _model(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return path


def _port(text: str) -> int:
    number = _count(text)
    if number > 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return number


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
