"""Prints the flags of `sglang serve` as YAML. Run by the vLLM environment's own Python.

`python sglang_flags.py VERSION [--accepts]`, with SGLang on PYTHONPATH. ci/generate calls it and
keeps the result in llmd_ctl/profiles/engines/. SGLang imports triton (1 GB) before it makes its
parser and asks it nothing for that: an empty stand-in gives the same table, flag by flag.
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from unittest.mock import MagicMock


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports anything below `triton` as a module in which every name is there."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Only for triton."""
        if fullname.partition(".")[0] != "triton":
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """A module that has what is asked of it."""
        made = MagicMock(name=spec.name, __path__=[], __name__=spec.name, __version__="3.9.0")
        made.__spec__ = spec
        module: types.ModuleType = made
        return module

    def exec_module(self, _module: types.ModuleType) -> None:
        """Nothing is in it."""


if __name__ == "__main__":
    from argparse_table import answer

    sys.meta_path.insert(0, StandIn())
    parser = argparse.ArgumentParser(prog="sglang serve")
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    answer("sglang", parser)
