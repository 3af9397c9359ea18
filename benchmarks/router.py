"""The router beside what could be used instead of it, on the same engines, in the same rounds.

`python -m benchmarks.router [--quick] [--only NAME,…] [--workloads NAME,…] [--profile FOLDER]`, or
`--soak REQUESTS` for our router's memory over a long run. Called by `make bench` and `make soak`;
who takes part is built, or made by `ci/peers`, and nobody else. Prints the tables; a whole run also
writes them to router.md beside itself, the raw runs to router.json and profiles of our router to
profiles/ (`--record` names another place). The subject has one processor, engines and load have the
other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from benchmarks.routers import footprint, profile, report, table
from benchmarks.routers.ends import Ends, Report, free_ports
from benchmarks.routers.subject import AbsentError, Place, Running, Subject, start, subjects
from benchmarks.routers.table import DIRECT, Runs
from benchmarks.routers.workload import WORKLOADS, Effort, Workload, direct, folder_of, run

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path(__file__).parent / "routers" / "config" / "vllm-metrics.txt"
SUBJECT_CORE, OTHER_CORE = 0, 1
ENGINES = 4
AT_REST = "rest"


def build(wanted: list[Subject], folder: Path) -> None:
    """Make our programs as they are shipped: of the routers only one that takes part."""
    packages = ["llmd-bench"]
    if any(subject.program == folder / "llmd-router" for subject in wanted):
        packages.append("llmd-router")
    argv = ["cargo", "build", "--quiet", "--profile", folder.name]
    argv += [word for package in packages for word in ("-p", package)]
    subprocess.run(argv, cwd=ROOT, check=True)


def make_peers(wanted: list[Subject]) -> None:
    """Have the peers made that take part."""
    if names := sorted({one.name.partition(" ")[0] for one in wanted if one.kind != "ours"}):
        subprocess.run([ROOT / "ci" / "peers", *names], check=True)


def started(
    wanted: list[Subject], ports: tuple[int, int], top: Path, stack: ExitStack
) -> tuple[list[Running], dict[str, str]]:
    """Everybody who can be started, and why the others cannot."""
    running, absent = [], {}
    engines = tuple(range(ports[0], ports[0] + ENGINES))
    for subject in wanted:
        port = free_ports(2)
        place = Place(port, port + 1, ports[1], engines, folder_of(top, subject.name))
        try:
            one = start(subject, place, SUBJECT_CORE)
        except AbsentError as error:
            absent[subject.name] = str(error)
            continue
        stack.callback(one.stop)
        running.append(one)
    return running, absent


def rounds(workloads: list[Workload], effort: Effort, ends: Ends, running: list[Running]) -> Runs:
    """All runs: in each round every workload, and in each workload everybody in turn."""
    runs: Runs = {workload.name: {} for workload in workloads}
    for number in range(effort.rounds):
        for workload in workloads:
            kept = runs[workload.name]
            if "--rate" in workload.options:
                engine = running[0].place.engines[0]
                kept.setdefault(DIRECT, []).append(direct(workload, effort, ends, engine))
            for one in running:
                began = time.monotonic()
                result = run(workload, effort, ends, one)
                kept.setdefault(one.subject.name, []).append(result)
                say(number, workload, one, result, time.monotonic() - began)
    return runs


def say(number: int, workload: Workload, one: Running, result: Report, took: float) -> None:
    """One line to stderr while it goes on."""
    line = (
        f"round {number + 1}, {workload.name}, {one.subject.name}: "
        f"{table.number(table.cpu_us(result))} µs for each {workload.unit}, "
        f"{result['problem'] or 'all right'} ({took:.0f} s)"
    )
    print(line, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    """What is asked for."""
    plain = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", default="", help="subjects by name, with commas between")
    parser.add_argument(
        "--workloads",
        default="",
        help=f"by name, with commas between; {AT_REST}: what they hold idle",
    )
    parser.add_argument("--programs", type=Path, help="a folder of them; else they are built")
    parser.add_argument("--soak", type=int, help="only that many requests through our router")
    parser.add_argument(
        "--router", type=Path, action="append", default=[], help="another build, beside ours"
    )
    parser.add_argument("--record", type=Path, help="where tables and raw runs go, without suffix")
    parser.add_argument("--tables", type=Path, help="only: tables anew from raw runs in this file")
    parser.add_argument("--profile", type=Path, help="a folder for profiles of our router")
    return parser.parse_args()


def picked(names: str, all_of_them: list[Any], also: tuple[str, ...] = ()) -> list[Any]:
    """Those that were named; all without names. A name that nobody has ends the program."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = [one.name for one in all_of_them]
    if strange := [name for name in wanted if name not in {*known, *also}]:
        sys.exit(f"nothing is named {', '.join(strange)}; there are: {', '.join([*known, *also])}")
    return [one for one in all_of_them if not wanted or one.name in wanted]


def at_rest(
    asked: argparse.Namespace, wanted: list[Subject], bench: footprint.Bench
) -> dict[str, Report]:
    """Memory, idling and open streams of everybody, one after the other."""
    if asked.workloads and AT_REST not in asked.workloads.split(","):
        return {}
    size = footprint.Size.quick() if asked.quick else footprint.Size.full()
    reports = {}
    for subject in wanted:
        print(f"at rest: {subject.name}", file=sys.stderr, flush=True)
        # Who is absent is told by the rounds.
        with suppress(AbsentError):
            reports[subject.name] = footprint.of(bench, subject, size)
    return reports


def again(raw: Path) -> None:
    """Works the tables out anew from raw runs, beside them."""
    kept = json.loads(raw.read_text())
    known = subjects(Path("llmd-router"))
    text = report.text(kept["rounds"], known, kept["absent"], kept["head"], kept["at rest"])
    raw.with_suffix(".md").write_text(text)


def main() -> None:
    """Measures and tells."""
    asked = arguments()
    if asked.tables:
        again(asked.tables)
        return
    programs = asked.programs or Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dist"
    whole = not (asked.only or asked.workloads or asked.quick)
    record = asked.record or (Path(__file__).with_suffix("") if whole else None)
    profiles = asked.profile or (record.with_name("profiles") if whole and record else None)
    effort = Effort.quick() if asked.quick else Effort.full()
    if asked.rounds:
        effort = Effort(effort.seconds, effort.tokens, asked.rounds)
    known = subjects(programs / "llmd-router")
    for other in asked.router:
        known.append(Subject(other.name, "ours", known[0].command, other))
    wanted = [known[0]] if asked.soak else picked(asked.only, known)
    workloads = picked(asked.workloads, list(WORKLOADS), also=(AT_REST,))
    if not asked.programs:
        build(wanted, programs)
    make_peers(wanted)
    ends = Ends(programs / "llmd-bench", OTHER_CORE)
    with tempfile.TemporaryDirectory() as top, ExitStack() as stack:
        bench = footprint.Bench(ends, PAGE, Path(top), SUBJECT_CORE)
        if asked.soak:
            print(footprint.soak_table(footprint.soak(bench, known[0], asked.soak)))
            return
        ports = stack.enter_context(ends.engines(ENGINES, page=PAGE))
        running, absent = started(wanted, ports, Path(top), stack)
        runs = rounds(workloads, effort, ends, running)
        if profiles:
            profile.all_of(workloads, effort, ends, running[0], profiles)
        stack.pop_all().close()
        resting = at_rest(asked, wanted, bench)
    top_lines = report.head(effort)
    text = report.text(runs, wanted, absent, top_lines, resting)
    print(text)
    if record:
        record.with_suffix(".md").write_text(text)
        raw = {"head": top_lines, "absent": absent, "rounds": runs, "at rest": resting}
        record.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")
    sys.exit(1 if table.problems(runs) else 0)


if __name__ == "__main__":
    main()
