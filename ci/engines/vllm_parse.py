"""Parses command lines with vLLM's own parser. Run by the vLLM environment's own Python.

tests/e2e/parser gives it a JSON list of argument lists (behind `vllm serve`) on standard input; it
prints, for each, what the engine understood of a few flags, or why it refused. It starts no engine.
"""

import json
import sys
from typing import Any

from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser

SHOWN = (
    "model_tag", "served_model_name", "host", "port", "tensor_parallel_size",
    "pipeline_parallel_size", "data_parallel_size", "max_model_len", "max_num_seqs", "block_size",
    "kv_cache_dtype", "gpu_memory_utilization", "enable_expert_parallel",
)  # fmt: skip


def parsed(parser: FlexibleArgumentParser, line: list[str]) -> dict[str, Any]:
    """What is understood, or `refused`."""
    try:
        found = parser.parse_args(line)
        validate_parsed_serve_args(found)
    except SystemExit:
        return {"refused": "the parser ended"}
    except Exception as error:  # noqa: BLE001 - whatever it is, this line cannot be started
        return {"refused": f"{type(error).__name__}: {error}"}
    return {name: getattr(found, name) for name in SHOWN}


def main() -> None:
    """Answers all lines at once: importing vLLM takes ten seconds."""
    parser = make_arg_parser(FlexibleArgumentParser())
    print(json.dumps([parsed(parser, line) for line in json.load(sys.stdin)]))


main()
