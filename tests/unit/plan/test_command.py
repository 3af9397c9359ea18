"""The words that start an engine, read back by the engine's own parser where it is there."""

import json
import subprocess
from pathlib import Path

import pytest

from llmd_ctl.plan import PlannedVariant
from tests.unit.plan.fleets import fleet_text, plan_text, tiny

FLEET = """
- {name: plain, accelerator: cpu-x86}
- name: told
  accelerator: cpu-x86
  maxModelLen: 4096
  engineArgs: {enforceEager: true, maxNumSeqs: 8, enablePrefixCaching: false}
  extraArgs: [--block_size=32, --kv-cache-memory-bytes, "67108864", --no-enable-log-requests,
    --kv-events-config, '{"enable_kv_cache_events": false}', -cc.mode, "0", --seed, "-1"]
- {name: llama, accelerator: cpu-x86, engine: {name: llamacpp}, maxModelLen: 2048}
- {name: own, accelerator: cpu-x86, engine: {name: llamacpp, executable: /opt/llama-server},
   engineArgs: {parallel: 2, threads: 3}}
"""


@pytest.fixture
def variants(tmp_path: Path) -> dict[str, PlannedVariant]:
    text = fleet_text(FLEET, uri="./tiny", model="aliases: [small, s2]")
    plan = plan_text(text, simulate=None, observed=tiny(tmp_path))
    return {variant.name: variant for variant in plan.models[0].variants}


def test_vllm_gets_its_model_names_address_and_sorted_flags(
    variants: dict[str, PlannedVariant], tmp_path: Path
) -> None:
    assert variants["plain"].command == (
        "vllm", "serve", str(tmp_path), "--served-model-name", "chat", "small", "s2",
        "--host", "{host}", "--port", "{port}", "--block-size", "128",
        "--kv-cache-memory-bytes", "268435456", "--max-model-len", "8192",
        "--max-num-batched-tokens", "2048", "--max-num-seqs", "16",
    )  # fmt: skip


def test_flags_stand_on_the_command_line_as_they_were_meant(
    variants: dict[str, PlannedVariant],
) -> None:
    command = variants["told"].command
    assert command[11:] == (
        "--block-size", "32", "--compilation-config.mode", "0", "--no-enable-log-requests",
        "--no-enable-prefix-caching", "--enforce-eager", "--kv-cache-memory-bytes", "67108864",
        "--kv-events-config", '{"enable_kv_cache_events": false}', "--max-model-len", "4096",
        "--max-num-batched-tokens", "2048", "--max-num-seqs", "8", "--seed", "-1",
    )  # fmt: skip


def test_the_environment_is_the_profiles(variants: dict[str, PlannedVariant]) -> None:
    assert dict(variants["plain"].env) == {
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    assert dict(variants["llama"].env) == {}


def test_llamacpp_gets_a_context_for_every_slot(
    variants: dict[str, PlannedVariant], tmp_path: Path
) -> None:
    assert variants["llama"].command == (
        "{python}", "-P", "-m", "llmd_ctl.apply.llamacpp_server",
        "--model", f"{tmp_path}/tiny.gguf", "--alias", "chat,small,s2",
        "--host", "{host}", "--port", "{port}", "--metrics",
        "--ctx-size", "8192", "--parallel", "4",
    )  # fmt: skip
    fit = variants["llama"].fit
    assert fit is not None
    assert (fit.kv_tokens, fit.kv_bytes_free) == (8192, 8192 * 512)


def test_an_executable_of_the_users_own_is_started_instead(
    variants: dict[str, PlannedVariant],
) -> None:
    own = variants["own"]
    assert own.command[:2] == ("/opt/llama-server", "--model")
    assert own.command[-6:] == ("--ctx-size", "16384", "--parallel", "2", "--threads", "3")
    assert own.executable == "/opt/llama-server"


def test_a_revision_reaches_the_engine_and_a_hub_model_stays_online() -> None:
    from llmd_ctl.plan import Observed

    text = fleet_text("- {name: v, accelerator: nvidia-h100}", model="revision: abc")
    plan = plan_text(text, simulate=None, observed=Observed({"nvidia-h100": 1}))
    command = plan.models[0].variants[0].command
    assert command[2] == "meta-llama/Llama-3.1-8B-Instruct"
    assert command[command.index("--revision") + 1] == "abc"
    assert "HF_HUB_OFFLINE" not in plan.models[0].variants[0].env


PARSE = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
for argv in json.load(sys.stdin):
    found = parser.parse_args(argv[2:])
    found.model = found.model_tag
    validate_parsed_serve_args(found)
    keys = ("port", "block_size", "max_model_len", "max_num_seqs", "enforce_eager",
            "tensor_parallel_size", "enable_expert_parallel")
    print(json.dumps({key: getattr(found, key) for key in keys}))
"""


@pytest.mark.real
@pytest.mark.timeout(300)
def test_vllms_own_parser_reads_every_command_as_it_was_planned(
    variants: dict[str, PlannedVariant], vllm_executable: Path, tmp_path: Path
) -> None:
    from llmd_ctl.plan import Observed

    here = Observed({n: 8 for n in ("nvidia-h100", "amd-mi300x", "google-tpu-v6e", "intel-gaudi3")})
    text = fleet_text(
        "- {name: a, accelerator: nvidia-h100, parallelism: {tensor: 2, expert: 2}}\n"
        "- {name: b, accelerator: amd-mi300x}\n- {name: c, accelerator: google-tpu-v6e}\n"
        "- {name: d, accelerator: intel-gaudi3}",
        uri="hf://openai/gpt-oss-20b", model="maxModelLen: 8192",
    )  # fmt: skip
    many = plan_text(text, simulate=None, observed=here).models[0].variants
    all_of_them = [variants["plain"], variants["told"], *many]
    places = {"{host}": "127.0.0.1", "{port}": "18000"}
    argvs = [[places.get(word, word) for word in v.command] for v in all_of_them]
    python = vllm_executable.parent / "python"
    done = subprocess.run(
        [str(python), "-c", PARSE],
        input=json.dumps(argvs),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    read = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(read) == len(all_of_them)
    for found, variant in zip(read, all_of_them, strict=True):
        said = {flag: s.value for flag, s in variant.settings.items()}
        assert found["port"] == 18000
        assert found["max_model_len"] == said["--max-model-len"] == variant.max_model_len
        assert found["max_num_seqs"] == said["--max-num-seqs"]
        assert found["block_size"] == said["--block-size"]
        assert found["tensor_parallel_size"] == variant.parallelism.tensor
        assert found["enforce_eager"] is bool(said.get("--enforce-eager", False))
        assert found["enable_expert_parallel"] is (variant.parallelism.expert > 1)
