"""Makes the real engines that tests and guides run, under .cache/engines/.

`python3 ci/engines [vllm] [model]` makes what is missing or out of date and prints where it lies;
without names it makes both. `ci/test` and the fixtures of tests/conftest.py call it. The llama.cpp
server needs nothing here: it is a wheel in the project's own environment (extra `llamacpp`).
Other names, such as `sglang-0.5.23`, are parsers that only ci/generate asks.
It never touches the project's environment and needs nothing but the standard library.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".cache" / "engines"


def say(text: str) -> None:
    """Progress goes to stderr: stdout holds the results only."""
    print(f"ci/engines: {text}", file=sys.stderr, flush=True)


def uv() -> str:
    """The uv that ci/dev installed, else the user's own."""
    own = ROOT / ".venv" / "bin" / "uv"
    found = str(own) if own.exists() else shutil.which("uv")
    if not found:
        sys.exit("ci/engines: uv is missing; run `make dev` first")
    return found


def interpreter() -> str:
    """The project's own Python, whoever runs this program; else the one that does."""
    own = ROOT / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def run(*argv: str | Path) -> None:
    """Runs one command; its failure ends this program with the command's own words."""
    environment = {k: v for k, v in os.environ.items() if k not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    done = subprocess.run([str(a) for a in argv], env=environment, check=False)
    if done.returncode:
        command = " ".join(str(a) for a in argv)
        sys.exit(f"ci/engines: exit code {done.returncode} from: {command}")


def fingerprint(*inputs: str) -> str:
    """Changes when one of the input files does."""
    digest = hashlib.sha256()
    for name in inputs:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()


@contextlib.contextmanager
def made_once(name: str, *inputs: str) -> Iterator[Path | None]:
    """Yields the folder to fill, or None when it is up to date; stamps it when the body ends well.

    A lock lets several test runs ask at once: one builds, the others wait.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    folder, stamp = CACHE / name, CACHE / f"{name}.stamp"
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = fingerprint(*inputs)
        if folder.exists() and stamp.exists() and stamp.read_text() == wanted:
            yield None
            return
        stamp.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        start = time.monotonic()
        yield folder
        stamp.write_text(wanted)
        say(f"{name}: ready after {time.monotonic() - start:.0f} s")


def vllm() -> Path:
    """vLLM for CPU in an environment of its own; returns its command."""
    inputs = ("vllm.txt", "vllm-overrides.txt", "torch_stubs.py", "vllm_shim.py")
    with made_once("vllm", *inputs) as folder:
        if folder:
            for tool in ("cc", "readelf"):
                if not shutil.which(tool):
                    sys.exit(f"ci/engines: {tool} is missing; install a C compiler with binutils")
            say("vllm: installing vLLM 0.32.0 for CPU (0.7 GB to fetch, 2.8 GB on disk, minutes)")
            run(uv(), "venv", "-q", "--python", interpreter(), folder)
            python = folder / "bin" / "python"
            install = (uv(), "pip", "install", "-q", "--python", python, "--no-deps")
            run(*install, "--compile-bytecode", "-r", HERE / "vllm.txt")
            say("vllm: standing in for the GPU libraries of torch")
            run(python, HERE / "torch_stubs.py")
            run(python, HERE / "vllm_shim.py")
            run(python, "-c", "import torch; assert not torch.cuda.is_available()")
    return CACHE / "vllm" / "bin" / "vllm"


def model() -> Path:
    """A tiny Llama with random weights, as Hugging Face files and as GGUF; returns the folder."""
    with made_once("model-venv", "model.txt") as folder:
        if folder:
            say("model: installing what writes the model files")
            run(uv(), "venv", "-q", "--python", interpreter(), folder)
            python = folder / "bin" / "python"
            run(uv(), "pip", "install", "-q", "--python", python, "-r", HERE / "model.txt")
    with made_once("tiny-model", "tiny_model.py", "model.txt") as folder:
        if folder:
            say("model: writing the tiny model")
            run(CACHE / "model-venv" / "bin" / "python", HERE / "tiny_model.py", folder)
    return CACHE / "tiny-model"


def parser_of(name: str) -> Path:
    """The Python files of another engine or version, for its parser alone; returns their folder.

    They stand before those of the vLLM environment, which lends them the rest: no engine runs.
    """
    vllm()
    python = CACHE / "vllm" / "bin" / "python"
    with made_once(name, f"{name}.txt") as folder:
        if folder:
            say(f"{name}: fetching what makes its parser (up to 0.4 GB, of which little is kept)")
            install = (uv(), "pip", "install", "-q", "--python", python, "--no-deps")
            run(*install, "--target", folder, "-r", HERE / f"{name}.txt")
            if name.startswith("vllm-"):
                as_cpu(folder, name.removeprefix("vllm-"))
    return CACHE / name


def as_cpu(folder: Path, version: str) -> None:
    """Takes the compiled code out of a vLLM, and tells it that it is built for CPU.

    It picks its platform by the version of a distribution named `vllm`, as vllm_shim.py says.
    """
    for library in folder.rglob("*.so"):
        library.unlink()
    for other in folder.glob("vllm-*.dist-info"):
        shutil.rmtree(other)
    info = folder / f"vllm-{version}+cpu.dist-info"
    info.mkdir()
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
    (info / "METADATA").write_text(text)


MAKERS = {"vllm": vllm, "model": model}
PARSERS = ("vllm-0.23.0", "vllm-0.33.0", "sglang-0.5.23")


def main() -> None:
    """Makes the named parts, or the engines that tests run."""
    parser = argparse.ArgumentParser(prog="ci/engines", description="Makes the engines for tests.")
    parser.add_argument("part", nargs="*", help=f"{' or '.join(MAKERS)}; all if none is named")
    parts = parser.parse_args().part or list(MAKERS)
    for name in parts:
        if name not in {*MAKERS, *PARSERS}:
            parser.error(f"there is no part {name!r}; the parts are {' and '.join(MAKERS)}")
    for name in parts:
        made = MAKERS[name]() if name in MAKERS else parser_of(name)
        print(f"{name} {made.relative_to(ROOT)}", flush=True)


if __name__ == "__main__":
    main()
