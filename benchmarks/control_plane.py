"""How long the control plane takes for a fleet of fifty models, and whether that is good enough.

`python -m benchmarks.control_plane` measures `validate` and `plan` in process and the whole
commands, seven rounds, medians; writes control-plane.md beside itself and exits 1 when a limit is
passed. It takes no words. Called by `make bench`. Bytecode is compiled first, as an installation
does.
"""

from __future__ import annotations

import argparse
import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import yaml

import llmd_ctl

ROUNDS = 7
MODELS = 50
LIMITS_MS = {
    "validate, in process": 300.0,
    "plan, in process": 500.0,
    "llmd-ctl validate": 700.0,
    "llmd-ctl plan": 700.0,
}
ACCELERATORS = ("nvidia-h100", "amd-mi300x", "google-tpu-v6e", "intel-gaudi3")
REPORT = Path(__file__).with_name("control-plane.md")


def fleet_of_fifty() -> str:
    """A fleet file of fifty models, four variants each."""
    variants = [{"name": name.split("-")[1], "accelerator": name} for name in ACCELERATORS]
    models = [
        {
            "name": f"chat-{number}",
            "uri": "hf://meta-llama/Llama-3.1-8B-Instruct",
            "maxModelLen": 8192,
            "slo": {"ttft": {"p95": "800ms"}, "itl": {"p95": "60ms"}},
            "variants": variants,
        }
        for number in range(MODELS)
    ]
    fleet = {
        "apiVersion": "fleet.llmd-ctl.dev/v1alpha1",
        "kind": "Fleet",
        "metadata": {"name": "fifty"},
        "spec": {"targets": [{"name": "here", "kind": "local"}], "models": models},
    }
    return yaml.safe_dump(fleet, sort_keys=False)


def milliseconds(call: Callable[[], object]) -> float:
    """The time one call takes."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def in_process(fleet: Path) -> dict[str, Callable[[], object]]:
    """The two steps without start-up. Each reads its file and its profiles anew."""
    from llmd_ctl.cli.planning import catalog_for, make_plan
    from llmd_ctl.spec import load_fleets

    [loaded] = load_fleets([fleet])

    def validate() -> None:
        [one] = load_fleets([fleet])
        catalog_for(one)

    def plan() -> None:
        make_plan(loaded, 1.0)

    return {"validate, in process": validate, "plan, in process": plan}


def command(verb: str, fleet: Path, home: Path) -> Callable[[], object]:
    """A whole command, as a shell starts it."""
    environment = {**os.environ, "XDG_STATE_HOME": str(home)}
    flags = ["--simulate"] if verb == "plan" else []
    argv = [sys.executable, "-m", "llmd_ctl", verb, *flags, "--output", "json", str(fleet)]

    def run() -> None:
        subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)

    return run


def measure() -> dict[str, list[float]]:
    """All rounds of each step, interleaved, after one that warms the file cache."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        fleet = home / "fleet.yaml"
        fleet.write_text(fleet_of_fifty(), "utf-8")
        steps = in_process(fleet)
        for verb in ("validate", "plan"):
            steps[f"llmd-ctl {verb}"] = command(verb, fleet, home)
        times: dict[str, list[float]] = {name: [] for name in steps}
        for number in range(ROUNDS + 1):
            for name, step in steps.items():
                taken = milliseconds(step)
                if number:
                    times[name].append(taken)
    return times


def report(times: dict[str, list[float]]) -> tuple[str, bool]:
    """The report's text, and whether every median is within its limit."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    day = datetime.now(UTC).date().isoformat()
    lines = [
        "# Control plane",
        "",
        f"A fleet of {MODELS} models with {len(ACCELERATORS)} variants each, {ROUNDS} rounds, on",
        f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; {day}, commit"
        f" {commit or 'none yet'}. Written by `benchmarks/control_plane.py`.",
        "",
        "| step | median ms | least | most | limit |",
        "|---|---|---|---|---|",
    ]
    good = True
    for name, taken in times.items():
        median = statistics.median(taken)
        good = good and median <= LIMITS_MS[name]
        cells = (name, f"{median:.0f}", f"{min(taken):.0f}", f"{max(taken):.0f}")
        lines.append(f"| {' | '.join(cells)} | {LIMITS_MS[name]:.0f} |")
    return "\n".join(lines) + "\n", good


def main() -> int:
    """Measure, write the report, and say whether it is good enough."""
    plain = argparse.RawTextHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=plain).parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for folder in (Path(llmd_ctl.__file__).parent, *map(Path, sys.path)):
        if folder.name == "site-packages" or folder.name == "llmd_ctl":
            compileall.compile_dir(str(folder), quiet=2, workers=0)
    text, good = report(measure())
    REPORT.write_text(text, "utf-8")
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
