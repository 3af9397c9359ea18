"""How long the control plane takes for fleets of 50 and of 500 models, and whether that is enough.

`python -m benchmarks.control_plane` measures `validate`, `plan` and `render` in process and as
whole commands, in interleaved rounds; writes control-plane.md beside itself and exits 1 when a
limit is passed. It takes no words. Called by `make bench`. Bytecode is compiled first, as an
installation does.
"""

from __future__ import annotations

import argparse
import compileall
import gc
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import llmd_ctl
from benchmarks.control import fleets
from benchmarks.control.taken import Taken, of_call, of_command
from llmd_ctl.cli import FEW_COLLECTIONS
from llmd_ctl.plan import Plan

ROUNDS = 7
PEAK_MIB = 400.0
LEAST_RATE = 5.0  # MB/s
REPORT = Path(__file__).with_name("control-plane.md")
FORMS = {"kubernetes": ("kustomize", "helm"), "systemd": ("units",), "compose": ("compose",)}
ROUTER = {"kubernetes": "there", "systemd": fleets.EIGHT[0], "compose": "there"}  # its target


@dataclass(frozen=True)
class Step:
    """Something that is measured, and the most milliseconds that its median may be."""

    name: str
    run: Callable[[], Taken]
    limit_ms: float | None = None


def fifty(folder: Path) -> list[Step]:
    """The steps of the fleet of fifty."""
    from llmd_ctl.cli.planning import catalog_for, make_plan
    from llmd_ctl.spec import load_fleets

    file = folder / "fifty.yaml"
    file.write_text(fleets.fifty(), "utf-8")
    [loaded] = load_fleets([file])

    def validate() -> None:
        [one] = load_fleets([file])
        catalog_for(one)

    def plan() -> None:
        make_plan(loaded, 1.0)

    words = ["--output", "json", str(file)]
    return [
        Step("50: read, in process", partial(of_call, validate), 300.0),
        Step("50: plan, in process", partial(of_call, plan), 500.0),
        Step("50: llmd-ctl validate", partial(of_command, ["validate", *words], folder), 700.0),
        Step(
            "50: llmd-ctl plan", partial(of_command, ["plan", "--simulate", *words], folder), 700.0
        ),
    ]


def five_hundred(folder: Path) -> list[Step]:
    """The steps of the fleets of five hundred, one for each kind of target."""
    from llmd_ctl.cli.planning import make_plan
    from llmd_ctl.spec import load_fleets

    steps = []
    for kind, forms in FORMS.items():
        file = folder / f"{kind}.yaml"
        file.write_text(fleets.five_hundred(kind, folder), "utf-8")
        planned = make_plan(load_fleets([file])[0], None)
        if kind == "kubernetes":
            steps += _verbs(file, folder)
        for form in forms:
            name = f"500: render {form}, in process"
            steps.append(Step(name, partial(of_call, partial(_render, planned, form))))
            words = ["render", "--target", ROUTER[kind], "--format", form, str(file)]
            out = ["--output-dir", str(folder / form)]
            name = f"500: llmd-ctl render {form}"
            steps.append(Step(name, partial(of_command, [*words, *out], folder)))
    return steps


def _verbs(file: Path, folder: Path) -> list[Step]:
    from llmd_ctl.cli.planning import make_plan
    from llmd_ctl.spec import load_fleets

    def both() -> None:
        [one] = load_fleets([file])
        make_plan(one, 1.0, rehearsal=True)  # what `validate` does
        make_plan(one, None)

    words = ["--output", "json", str(file)]
    return [
        Step("500: validate + plan, in process", partial(of_call, both), 1500.0),
        Step("500: llmd-ctl validate", partial(of_command, ["validate", *words], folder)),
        Step("500: llmd-ctl plan", partial(of_command, ["plan", *words], folder)),
    ]


def _render(planned: Plan, form: str) -> int:
    """Render all targets of a plan; the bytes made."""
    from llmd_ctl.render.targets import render_target

    files = [file for one in planned.targets for file in render_target(planned, one.name, form)]
    return sum(len(file.text.encode()) for file in files)


def measure() -> dict[Step, list[Taken]]:
    """All rounds of each step, interleaved, after one that warms the file cache."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps = [*fifty(folder), *five_hundred(folder)]
        gc.set_threshold(FEW_COLLECTIONS)  # as the commands do
        taken: dict[Step, list[Taken]] = {step: [] for step in steps}
        for number in range(ROUNDS + 1):
            for step in steps:
                gc.collect()
                one = step.run()
                if number:
                    taken[step].append(one)
    return taken


def report(taken: dict[Step, list[Taken]]) -> tuple[str, bool]:
    """The report's text, and whether everything is within its limit."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    day = datetime.now(UTC).date().isoformat()
    lines = [
        "# Control plane",
        "",
        f"A fleet of {fleets.FIFTY} models, four variants each, and fleets of {fleets.FIVE_HUNDRED}"
        f" models, each on one of",
        f"{len(fleets.EIGHT)} accelerators of four vendors. Medians of {ROUNDS} rounds on",
        f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; {day}, commit"
        f" {commit or 'none yet'}. Written by `benchmarks/control_plane.py`.",
        "Processor time is user and system time. Limits are on medians; for rendering, on the",
        f"rate; no command may take more than {PEAK_MIB:.0f} MiB.",
        "",
        "| step | ms | least | most | processor ms | MB/s | peak MiB | limit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    good = True
    for step, runs in taken.items():
        line, within = _row(step, runs)
        lines.append(line)
        good = good and within
    return "\n".join(lines) + "\n", good


def _row(step: Step, runs: list[Taken]) -> tuple[str, bool]:
    walls = [one.wall_ms for one in runs]
    median, cpu = statistics.median(walls), statistics.median(one.cpu_ms for one in runs)
    peak = max((one.peak_mib for one in runs if one.peak_mib is not None), default=None)
    size = runs[0].size_bytes
    rate = None if size is None else size / median / 1000
    limit = "–" if step.limit_ms is None else f"{step.limit_ms:.0f} ms"
    if rate is not None:
        limit = f"{LEAST_RATE:.0f} MB/s"
    within = (
        (step.limit_ms is None or median <= step.limit_ms)
        and (rate is None or rate >= LEAST_RATE)
        and (peak is None or peak <= PEAK_MIB)
    )
    cells = (
        step.name, f"{median:.0f}", f"{min(walls):.0f}", f"{max(walls):.0f}", f"{cpu:.0f}",
        "" if rate is None else f"{rate:.1f}", "" if peak is None else f"{peak:.0f}", limit,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |", within


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
