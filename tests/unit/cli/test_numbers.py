"""The demo's numbers and the second program agree on any logs, and follow from them."""

import importlib.util
import json
import random
from pathlib import Path
from typing import Any

import pytest

from llmd_ctl.cli.demo.numbers import RunLogs, VariantFacts, endings, variant_rows

SECOND_PROGRAM = Path(__file__).parents[2] / "recompute" / "recompute.py"
VARIANTS = (VariantFacts("a", "nvidia-h100", 300.0), VariantFacts("b", "amd-mi300x", 100.0))


def second_program() -> Any:
    spec = importlib.util.spec_from_file_location("recompute", SECOND_PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random_logs(seed: int, requests: int) -> RunLogs:
    """Logs with everything that happens: retries, broken streams, probes, refusals."""
    rng = random.Random(seed)
    access: dict[str, list[dict[str, Any]]] = {"a-0": [], "b-0": [], "b-1": []}
    load = []
    for number in range(requests):
        start, stream = rng.randrange(10**9), rng.random() < 0.8
        chunks = sorted(start + rng.randrange(10**6) for _ in range(rng.randrange(5) * stream))
        end = rng.choices(["done", "error-event", "silent", "refused"], [20, 2, 1, 1])[0]
        load.append(
            {
                "requestId": f"r{number}", "stream": stream, "ended": end, "startUs": start,
                "firstTokenUs": chunks[0] if chunks else None, "chunkUs": chunks,
            }
        )  # fmt: skip
        if end == "done":
            access[rng.choice(list(access))].append(entry(rng, f"r{number}", "length"))
        if rng.random() < 0.1:
            access[rng.choice(list(access))].append(entry(rng, f"r{number}", "abort"))
    access["a-0"].append(entry(rng, "probe-1", "length"))
    return RunLogs(load, access, {"a-0": "a", "b-0": "b", "b-1": "b"})


def entry(rng: random.Random, request: str, finish: str) -> dict[str, Any]:
    prompt = rng.randrange(1, 5000)
    return {
        "requestId": request, "finish": finish, "promptTokens": prompt,
        "cachedTokens": rng.randrange(prompt), "completionTokens": rng.randrange(300),
    }  # fmt: skip


def keep(logs: RunLogs, folder: Path) -> None:
    (folder / "access").mkdir(parents=True)

    def write(name: str, lines: list[dict[str, Any]]) -> None:
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    write("load.jsonl", logs.load)
    for name, lines in logs.access.items():
        write(f"access/{name}.jsonl", lines)
    (folder / "endpoints.json").write_text(json.dumps(dict(logs.variant_of)))
    plan = {"models": [{"variants": [
        {"name": v.name, "accelerator": v.accelerator, "replicas": 2,
         "capacity": {"tokensPerSecond": v.tokens_per_second / 2}} for v in VARIANTS
    ]}]}  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "metrics.txt").write_text("")


@pytest.mark.parametrize(("seed", "requests"), [(1, 0), (2, 1), (3, 200), (4, 500)])
def test_the_second_program_gets_the_same_numbers(seed: int, requests: int, tmp_path: Path) -> None:
    logs = random_logs(seed, requests)
    keep(logs, tmp_path / "expected-finish")
    found = second_program().run(tmp_path / "expected-finish")
    rows, every = variant_rows(logs, VARIANTS)
    assert found["variants"] == rows
    assert found["all"] == every
    assert found["ended"] == endings(logs.load)
    assert found["requests"] == len(logs.load)


def test_a_request_belongs_to_the_engine_that_finished_it_and_probes_to_nobody() -> None:
    rng = random.Random(1)
    load = [
        {"requestId": "x", "stream": True, "ended": "done", "startUs": 0, "firstTokenUs": 5,
         "chunkUs": [5, 9]}
    ]  # fmt: skip
    finished = entry(rng, "x", "stop")
    access = {"a-0": [entry(rng, "x", "abort"), entry(rng, "probe", "stop")], "b-0": [finished]}
    rows, every = variant_rows(RunLogs(load, access, {"a-0": "a", "b-0": "b"}), VARIANTS)
    assert [row["requests"] for row in rows] == [0, 1]
    assert [row["tokenShare"] for row in rows] == [0.0, 1.0]
    assert [row["capacityShare"] for row in rows] == [0.75, 0.25]
    assert rows[1]["tokens"] == finished["promptTokens"] + finished["completionTokens"]
    assert (rows[1]["ttftUs"]["p50"], rows[1]["itlUs"]["p50"]) == (5, 4)
    assert every["requests"] == 1
