"""Says which data-parallel ranks a machine would run. Run by the vLLM environment's own Python.

tests/e2e/parser gives it a JSON list of argument lists (behind `vllm serve`) on standard input; it
prints, for each, what vLLM's configuration makes of them. It starts no engine.
"""

import json
import sys
from typing import Any

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser


def layout(line: list[str]) -> dict[str, Any]:
    """The ranks of one machine."""
    given = make_arg_parser(FlexibleArgumentParser()).parse_args(line)
    given.model = given.model_tag
    whole = AsyncEngineArgs.from_cli_args(given).create_engine_config(headless=given.headless)
    found = whole.parallel_config
    return {
        "first": found.data_parallel_rank,
        "here": found.data_parallel_size_local,
        "all": found.data_parallel_size,
        "machines of a rank": found.nnodes_within_dp,
        "leader": found.data_parallel_master_ip,
        "one address": not found.local_engines_only,
        "serves": not given.headless,
    }


sys.stdout.write(json.dumps([layout(line) for line in json.load(sys.stdin)]) + "\n")
