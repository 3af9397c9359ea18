"""Prints the flags of `vllm serve` as YAML. Run by the vLLM environment's own Python.

`python vllm_flags.py VERSION [--accepts]`. ci/generate calls it and keeps the result in
llmd_ctl/profiles/engines/. It asks vLLM's own argument parser, so what is written here is what that
version accepts; it starts no engine.
"""

import importlib
import importlib.util
from typing import Any

from argparse_table import answer
from vllm.utils.argparse_utils import FlexibleArgumentParser

# Objects whose converter passes any text, which is refused only once the engine's config is made.
OBJECTS = {"--additional-config", "--hf-overrides", "--model-loader-extra-config"}
PACKAGES = (
    "launchers",
    "common",
    "openai",
)  # of vllm.entrypoints; the first in 0.32, the last in 0.23


def cli() -> Any:
    """The module that makes the parser, wherever this version has it."""
    for package in PACKAGES:
        name = f"vllm.entrypoints.{package}"
        if importlib.util.find_spec(name) and importlib.util.find_spec(f"{name}.cli_args"):
            return importlib.import_module(f"{name}.cli_args")
    raise SystemExit("vllm_flags.py: this version of vLLM keeps its parser elsewhere")


if __name__ == "__main__":
    answer("vllm", cli().make_arg_parser(FlexibleArgumentParser(prog="vllm serve")), OBJECTS)
