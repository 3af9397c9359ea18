"""The Python face of `llmd-perf`: the same record on both sides, numbers equal to hand arithmetic.

The formulas have their own tests beside them in Rust; here it is shown that arguments arrive in
the right places, that errors name the fact, and that the stub tells the truth.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import asdict, fields, replace

from llmd_ctl import _native, perf
from llmd_ctl.perf import ReplicaFacts

ROOT = Path(__file__).resolve().parents[3]

# Round numbers: 1,000 us to read the weights, 10 us a token to multiply, 0.1 us a token of context.
ROUND = ReplicaFacts(
    speed=1.0,
    weight_bytes=1e9,
    flops_per_token=1e9,
    attention_flops_per_pair=1e5,
    kv_bytes_per_token=1e5,
    weight_bandwidth=1e12,
    kv_bandwidth=1e12,
    gemm_flops=1e14,
    gemm_half_tokens=50.0,
    attention_flops=1e14,
    step_us=100.0,
    sequence_us=2.0,
    token_us=0.5,
    request_us=5_000.0,
    max_batched_tokens=1_000,
    max_sequences=64,
    kv_tokens=100_000,
    block_size=16,
    max_model_len=32_768,
    prefix_caching=True,
    confidence="low",
)


def test_time_between_tokens_takes_batch_and_context_in_that_order() -> None:
    expected = 100 + 10 * 2.5 + 1_000 + 5_000 * 0.1
    assert perf.itl_us(ROUND, batch=10, context_tokens=5_000) == pytest.approx(expected)


def test_prefill_takes_tokens_past_batch_and_context_in_that_order() -> None:
    alone = 100 + 2 + 500 * 0.5 + 10 * 550 + 500 * (700 + 250) * 0.001
    assert perf.prefill_us(ROUND, tokens=500, past=700) == pytest.approx(alone)
    beside = alone + 3 * (2 + 0.5 + 10) + 900 * 0.1
    assert perf.prefill_us(ROUND, 500, 700, batch=3, context_tokens=900) == pytest.approx(beside)


def test_prefill_rate_is_a_full_chunk_over_its_time() -> None:
    rate = perf.prefill_tokens_per_second(ROUND)
    assert rate == pytest.approx(1_000 * 1e6 / perf.prefill_us(ROUND, 1_000))
    beside = perf.prefill_us(ROUND, 940, batch=60, context_tokens=60_000)  # 60 tokens decode
    assert perf.prefill_tokens_per_second(ROUND, 60, 60_000) == pytest.approx(940e6 / beside)


def test_speed_slows_the_wait_before_the_first_step_too() -> None:
    assert perf.request_us(replace(ROUND, speed=0.1)) == pytest.approx(50_000)


def test_capacity_is_a_record_and_keeps_the_promised_time_between_tokens() -> None:
    free = perf.capacity(ROUND, 100, 200)
    assert free.batch == 64
    assert free.decode_tokens_per_second == pytest.approx(64e6 / free.itl_us)
    assert free.prefill_tokens_per_second == perf.prefill_tokens_per_second(ROUND)
    # 200 / 64 steps for each request; one of them carries its prompt.
    each_us = perf.prefill_us(ROUND, 100, 0, 64, 64 * 200) + (200 / 64 - 1) * free.itl_us
    assert free.requests_per_second == pytest.approx(1e6 / each_us)
    assert free.tokens_per_second == pytest.approx(300 * free.requests_per_second)
    promised = perf.itl_us(ROUND, 20, 20 * 200)
    assert perf.capacity(ROUND, 100, 200, promised).batch == 20


@pytest.mark.parametrize("name", [f.name for f in fields(ReplicaFacts)])
def test_each_fact_is_read_by_rust_under_its_camel_case_name(name: str) -> None:
    document = ROUND.to_json()
    (key,) = (k for k in document if k.lower() == name.replace("_", ""))
    _native.check_facts(json.dumps(document))
    document[key] = []
    with pytest.raises(ValueError, match=rf"replica facts: {key}: "):
        _native.check_facts(json.dumps(document))


def test_rust_needs_no_fact_that_python_lacks_and_refuses_others() -> None:
    document = ROUND.to_json() | {"colour": "green"}
    with pytest.raises(ValueError, match="unknown field `colour`"):
        _native.check_facts(json.dumps(document))


def test_facts_are_one_document_and_nothing_after_it() -> None:
    with pytest.raises(ValueError, match="replica facts: trailing characters"):
        _native.check_facts(ROUND.json_text + "{}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gemm_flops": 0.0}, "gemmFlops is 0, but must be a finite number above 0"),
        ({"step_us": -1.0}, "stepUs is -1, but must be a finite number, 0 or more"),
        ({"experts_per_token": 2}, "expertsPerToken is 2, but must be at most the number"),
        ({"kv_tokens": -5}, "kvTokens: invalid value: integer `-5`"),
        ({"weight_bytes": float("nan")}, "expected value"),
    ],
)
def test_a_fact_that_no_replica_can_have_is_refused_by_name(
    change: dict[str, float], message: str
) -> None:
    facts = ReplicaFacts(**(asdict(ROUND) | change))
    with pytest.raises(ValueError, match=message):
        perf.check(facts)
    with pytest.raises(ValueError, match=message):
        perf.capacity(facts, 100, 100)


def test_facts_survive_the_way_through_json() -> None:
    assert ReplicaFacts.from_json(json.loads(ROUND.json_text)) == ROUND
    with pytest.raises(ValueError, match="unknown key 'colour'"):
        ReplicaFacts.from_json(ROUND.to_json() | {"colour": "green"})
    with pytest.raises(ValueError, match="Missing required argument 'speed'"):
        ReplicaFacts.from_json({k: v for k, v in ROUND.to_json().items() if k != "speed"})


def test_only_facts_of_rarer_models_and_the_price_have_defaults() -> None:
    given = {f.name for f in fields(ReplicaFacts) if not f.required}
    rare = {"expert_bytes", "experts", "experts_per_token", "window_tokens", "price_per_hour"}
    rare |= {"window_attention_flops_per_pair", "window_kv_bytes_per_token"}
    assert given == rare


def test_the_stub_tells_the_truth_about_the_module() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "llmd_ctl._native"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
