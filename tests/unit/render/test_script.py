"""run.sh: the shell itself gives an engine exactly the words and variables of the plan."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from llmd_ctl.plan import HOST, PORT, PlannedVariant
from llmd_ctl.plan.place import HostDevices, PlannedRouter, PlannedTarget
from llmd_ctl.render.script import render
from tests.unit.controller.plans import external, model, plan, real_variant, variant
from tests.unit.render.hostile import ENV, WORDS

HERE = PlannedTarget("here", "local")
RECORDER = (
    "import json, os, sys; "
    "open(sys.argv[1], 'w').write(json.dumps([sys.argv[2:], dict(os.environ)]))"
)


def files(*variants: PlannedVariant, home: str = "here") -> dict[str, str]:
    """What is rendered for this machine, whose router is in `home`."""
    router = PlannedRouter("llmd-ctl", home, 1)
    whole = replace(plan(model("chat", *variants)), targets=(HERE,), router=router)
    return {file.path: file.text for file in render(whole, HERE)}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_reads_back_every_word_and_variable(shell: str, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    command = (sys.executable, "-c", RECORDER, str(record), *WORDS, HOST, PORT)
    made = replace(real_variant("a"), command=command, env=ENV)
    text = files(made, home="elsewhere")["run.sh"]
    (tmp_path / "run.sh").write_text(text)
    done = subprocess.run([shell, tmp_path / "run.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 1  # it ended, and so all does
    argv, env = json.loads(record.read_text())
    assert argv == [*WORDS, "0.0.0.0", "18000"]
    assert {name: env[name] for name in ENV} == dict(ENV)


def test_replicas_get_ports_and_devices_of_their_own() -> None:
    shared = HostDevices(8, "CUDA_VISIBLE_DEVICES")
    text = files(replace(real_variant("a"), replicas=2, devices_per_replica=2, host_devices=shared))
    lines = [line.strip() for line in text["run.sh"].splitlines()]
    assert [line for line in lines if line.startswith("export")] == [
        "export CUDA_VISIBLE_DEVICES=0,1",
        "export CUDA_VISIBLE_DEVICES=2,3",
    ]
    (source,) = yaml.safe_load(text["router.yaml"])["models"][0]["sources"]
    assert [(each["name"], each["address"], each["port"]) for each in source["endpoints"]] == [
        ("chat-a-0", "127.0.0.1", 18000),
        ("chat-a-1", "127.0.0.1", 18001),
    ]


def test_what_the_variant_says_of_its_devices_counts() -> None:
    shared = HostDevices(8, "CUDA_VISIBLE_DEVICES")
    own = {"CUDA_VISIBLE_DEVICES": "7"}
    text = files(replace(real_variant("a"), env=own, host_devices=shared))["run.sh"]
    assert "export CUDA_VISIBLE_DEVICES=7\n" in text


def test_a_simulated_engine_has_its_file() -> None:
    text = files(variant("a"), external("old", "http://10.0.0.7:8100"))
    assert sorted(text) == ["engines/chat-a-0.json", "router.yaml", "run.sh"]
    document = json.loads(text["engines/chat-a-0.json"])
    assert (document["name"], document["listen"]) == ("chat-a-0", "127.0.0.1:18000")
    names = [
        each["name"]
        for source in yaml.safe_load(text["router.yaml"])["models"][0]["sources"]
        for each in source["endpoints"]
    ]
    assert names == ["chat-old", "chat-a-0"]


def test_where_the_router_is_elsewhere_engines_can_be_reached_from_there() -> None:
    text = files(real_variant("a"), home="rack")
    assert sorted(text) == ["run.sh"]
    assert "--host 0.0.0.0 --port 18000" in text["run.sh"]


def test_every_file_with_comments_says_what_it_was_made_from() -> None:
    for path, text in files(variant("a")).items():
        assert path.endswith(".json") or "# spec h\n" in text
