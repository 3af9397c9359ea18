"""`validate` tells everything in one run, in the order of the files, and counts it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from llmd_ctl.cli.boundary import run
from tests.unit.cli.test_boundary import FLEET

PROFILE = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: AcceleratorProfile
metadata: {name: mine}
extends: nvidia-h100
spec: {nonsense: 1}
"""
WRONG = FLEET.replace("kind: local", "kind: lokal").replace(
    "variants:", "replica: 3\n    profiles: x\n    variants:"
)
WARNED = FLEET.replace("name: small", "name: warned").replace(
    "variants:", "slo: {ttft: {p95: 1us}}\n    variants:"
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(PROFILE)
    (tmp_path / "b.yaml").write_text(
        WRONG.replace("  models:", "  profiles: [./mine.yaml]\n  models:")
    )
    (tmp_path / "a.yaml").write_text(WARNED)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_profiles_and_other_files_are_judged_in_the_run_that_finds_a_wrong_fleet(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "b.yaml", "a.yaml"]) == 65
    shown = told(capsys)
    places = re.findall(r"^  --> (\S+?):(\d+):\d+$", shown, re.MULTILINE)
    files = [Path(file).name for file, _ in places]
    assert sorted(set(files)) == ["a.yaml", "b.yaml", "mine.yaml"]
    assert "nonsense" in shown
    assert "warning[LC3020]" in shown
    for name in set(files):
        lines = [int(line) for file, line in places if Path(file).name == name]
        assert lines == sorted(lines)
    assert files == sorted(files, key=files.index), "each file's problems stand together"


def test_problems_stand_apart_and_the_last_line_counts_them(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["validate", "b.yaml", "a.yaml"])
    *blocks, last = told(capsys).rstrip("\n").split("\n\n")
    assert all(re.match(r"(error|warning)\[LC\d+\]: ", block) for block in blocks)
    errors = sum(block.startswith("error") for block in blocks)
    assert errors >= 4
    assert last == f"{errors} errors, 1 warning in 3 files"


def test_sarif_tells_in_its_message_all_that_the_text_does(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "c.yaml").write_text(FLEET.replace("nvidia-h100", "nvidia-h101"))
    assert run(["validate", "c.yaml", "--output", "sarif"]) == 65
    [result] = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    text = result["message"]["text"]
    assert "; found: nvidia-h101; did you mean: nvidia-h100; allowed: nvidia-h100, nvidia-" in text
    assert text.endswith(")")


def test_what_is_right_counts_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "c.yaml").write_text(FLEET)
    assert run(["validate", "c.yaml"]) == 0
    shown = capsys.readouterr()
    assert (shown.err, shown.out) == ("", "c.yaml: fleet small is valid (1 model)\n")
    assert run(["validate", "a.yaml"]) == 0
    assert told(capsys).endswith("\n\n1 warning in 1 file\n")
    assert run(["validate", "nosuch.yaml"]) == 65
    assert told(capsys).endswith("\n\n1 error\n")


def test_a_profile_that_two_fleets_list_is_told_of_once(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = WARNED.replace("  models:", "  profiles: [./mine.yaml]\n  models:")
    (here / "a.yaml").write_text(sound)
    assert run(["validate", "a.yaml", "b.yaml", "--output", "json"]) == 65
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert sum("nonsense" in problem["message"] for problem in problems) == 1


def test_what_is_wrong_with_the_types_hides_nothing_of_the_other_variants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = """variants:
    - {name: a, accelerator: NVIDIA-H100}
    - {name: b, accelerator: mi300x}
    - {name: c, accelerator: nvidia-h100, engineArgs: {max-num-seqs: 3, foo: 1}}
    - {name: d, accelerator: nvidia-h100, parallelism: {tensor: 3}}"""
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET.partition("variants:")[0] + variants + "\n")
    assert run(["validate", str(file), "--output", "json"]) == 65
    problems = json.loads(capsys.readouterr().out)["problems"]
    found = [(one["code"], one["place"]["path"].partition("variants")[2]) for one in problems]
    assert found == [
        ("LC1040", "[0].accelerator"),
        ("LC2010", "[1].accelerator"),
        ("LC1041", "[2].engineArgs.max-num-seqs"),
        ("LC2020", "[2].engineArgs.foo"),
        ("LC3011", "[3].parallelism.tensor"),
    ]


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("A100-80GB", "Write nvidia-a100."),
        ("H100-SXM", "Write nvidia-h100."),
        ("NVIDIA-H100", "Write nvidia-h100."),
        ("tpu v6e", "Write google-tpu-v6e."),
        ("Gaudi 3", "Write intel-gaudi3."),
        ("TPU-v5", "Write google-tpu-v5e or google-tpu-v5p."),
        ("V100", "Write the whole name: amd-mi300x for an MI300X, google-tpu-v6e for a TPU v6e."),
    ],
)
@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_a_vendors_name_for_an_accelerator_is_answered_with_its_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, word: str, hint: str
) -> None:
    file = tmp_path / "fleet.yaml"
    head = FLEET.partition("variants:")[0]
    file.write_text(f"{head}variants: [{{name: a, accelerator: {word}}}]\n")
    assert run([verb, str(file), "--output", "json"]) == 65
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["code"], problem["hint"]) == ("LC1040", hint)
    assert "nvidia-h100" in problem["allowed"]


def pair(tmp_path: Path, target: str, other: str | None = None, name: str = "a") -> list[str]:
    """Two fleets whose names meet, one in each target."""
    text = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: NAME}
spec:
  targets:
  - {name: there, TARGET}
  models:
  - name: MODEL
    uri: hf://Qwen/Qwen3-8B
    variants:
    - {name: v, accelerator: nvidia-h100}
"""
    first = text.replace("NAME", "a-b").replace("MODEL", "c").replace("TARGET", target)
    second = text.replace("NAME", name).replace("MODEL", "b-c").replace("TARGET", other or target)
    (tmp_path / "first.yaml").write_text(first)
    (tmp_path / "second.yaml").write_text(second)
    return ["validate", str(tmp_path / "first.yaml"), str(tmp_path / "second.yaml")]


@pytest.mark.parametrize(
    ("target", "taken"),
    [
        (
            "kind: kubernetes, namespace: llm",
            "ConfigMap a-b-c-v in namespace llm, Deployment a-b-c-v in namespace llm,"
            " Service a-b-c-v in namespace llm",
        ),
        ("kind: kubernetes", "ConfigMap a-b-c-v in the namespace in use,"),
        (
            "kind: systemd, hosts: [h1]",
            "/etc/systemd/system/llmd-a-b-c-v-0.service on h1, port 8000 of h1, port 9090 of h1"
            " and 2 more",
        ),
        ("kind: systemd", "/etc/systemd/system/llmd-a-b-c-v-0.service on this machine,"),
        (
            "kind: compose",
            "port 8000 of this machine, port 9090 of this machine, device 0 (nvidia-h100) of this"
            " machine",
        ),
    ],
)
def test_what_two_fleets_of_one_command_both_take_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, taken: str
) -> None:
    assert run(pair(tmp_path, target)) == 0
    shown = " ".join(told(capsys).split())
    (message,) = re.findall(r"warning\[LC3067\]: (.*?) -->", shown)
    assert f"fleet a takes what fleet a-b of {tmp_path}/first.yaml takes: {taken}" in message
    assert f"--> {tmp_path}/second.yaml:6:12" in shown


@pytest.mark.parametrize(
    ("target", "other"),
    [
        ("kind: kubernetes, namespace: llm", "kind: kubernetes, namespace: other"),
        ("kind: systemd, hosts: [h1]", "kind: systemd, hosts: [h2]"),
        ("kind: systemd, hosts: [h1]", "kind: compose"),
        ("kind: local", "kind: local"),
    ],
)
def test_fleets_that_take_nothing_of_each_other_are_not_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, other: str
) -> None:
    assert run(pair(tmp_path, target, other)) == 0
    assert "LC3067" not in told(capsys)


def test_two_fleets_of_one_name_are_wrong_by_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(pair(tmp_path, "kind: systemd", name="a-b")) == 65
    shown = told(capsys)
    assert "LC1060" in shown
    assert "LC3067" not in shown
