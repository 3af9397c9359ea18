"""Reads what a plan needs to know of a model on this machine: config.json, or a GGUF header.

Called by `cli` before it plans, since `plan` itself reads nothing. A folder may hold a config.json
with Hugging Face weights, one GGUF file, or both. What cannot be read is said in `problem`.
"""

from __future__ import annotations

import json
from pathlib import Path

from llmd_ctl.profiles.gguf import GgufError, config_of, read_header
from llmd_ctl.profiles.model import LocalModel

LARGEST_CONFIG = 1 << 22
LONGEST_HEADER = 1 << 26  # a vocabulary of a million tokens takes about 20 MB
GGUF = ".gguf"


def read_local_model(path: Path) -> LocalModel:
    """Read the model at `path`, a folder or a GGUF file."""
    try:
        if path.suffix == GGUF and path.is_file():
            return _gguf(path)
        if path.is_dir():
            return _folder(path)
        kind = "is neither a folder nor a GGUF file" if path.exists() else "does not exist"
        return LocalModel(problem=f"{path} {kind}")
    except OSError as error:
        return LocalModel(problem=f"cannot read {path}: {error.strerror}")


def _folder(path: Path) -> LocalModel:
    config = path / "config.json"
    files = sorted(path.glob(f"*{GGUF}"))
    text = _text(config) if config.is_file() else None
    folder = str(path) if text is not None else None
    if len(files) == 1:
        gguf = _gguf(files[0])
        return LocalModel(folder, text, gguf.gguf_path, gguf.gguf_config, gguf.problem)
    problem = None
    if len(files) > 1:
        problem = f"{path} holds {len(files)} GGUF files; name the one that is meant in the uri"
    elif text is None:
        problem = f"{path} holds neither a config.json nor a GGUF file"
    return LocalModel(folder, text, problem=problem)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(LARGEST_CONFIG).decode("utf-8", "replace")


def _gguf(path: Path) -> LocalModel:
    with path.open("rb") as file:
        head = file.read(LONGEST_HEADER)
    try:
        header = read_header(head)
    except GgufError as error:
        return LocalModel(gguf_path=str(path), problem=f"{path} is no GGUF file: {error}")
    config = config_of(header, path.stat().st_size)
    return LocalModel(gguf_path=str(path), gguf_config=json.dumps(config, sort_keys=True))
