"""Each code of `codes.yaml` met once: what a user writes or does, and what must be told of it.

A row: the code, how it is met, what is found, one word of what is allowed. None: the message says
all of what was found, or there is no list of what is allowed.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from llmd_ctl.apply import delete_fleet, fleet_status
from llmd_ctl.apply.apply import apply_plan
from llmd_ctl.apply.lock import COMMAND_LOCK, hold
from llmd_ctl.cli.boundary import run
from llmd_ctl.cli.demo.traffic import Traffic, _attend
from llmd_ctl.errors import LlmdError, Problem
from llmd_ctl.plan import Observed
from llmd_ctl.plan.place import PlannedTarget
from llmd_ctl.profiles import Catalog
from llmd_ctl.router.answer import Answer, RouterStatus
from llmd_ctl.spec import load_fleets
from tests.unit.controller.plans import model, plan, real_variant, variant
from tests.unit.controller.world import PYTHON, World
from tests.unit.plan.fleets import MACHINE, fleet_text, plan_text, tiny

VALID = Path(__file__).parents[2] / "fixtures" / "spec" / "valid.yaml"
HEAD = "apiVersion: fleet.llmd-ctl.dev/v1alpha1\nkind: AcceleratorProfile\nmetadata: {name: mine}\n"


@dataclass(frozen=True)
class Bench:
    """What a case works with."""

    folder: Path
    patch: pytest.MonkeyPatch
    streams: pytest.CaptureFixture[str]


Meet = Callable[[Bench], Sequence[Problem]]
Row = tuple[str, Meet, str | None, str | None]


def raised(act: Callable[[], object]) -> tuple[Problem, ...]:
    """The problems that a call ends with."""
    try:
        act()
    except LlmdError as error:
        return error.problems
    return ()


# --- fleet files ---


def content(text: str | bytes) -> Meet:
    """A fleet file that holds this."""

    def meet(bench: Bench) -> Sequence[Problem]:
        (bench.folder / "mine.yaml").touch()
        file = bench.folder / "fleet.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return raised(lambda: load_fleets([file]))

    return meet


def instead(before: str, after: str) -> Meet:
    """The valid fleet with one thing written otherwise."""
    whole = VALID.read_text("utf-8")
    assert before in whole
    return content(whole.replace(before, after, 1))


def files(*names: str) -> Meet:
    """These files, which are not there, or are the valid fleet."""

    def meet(bench: Bench) -> Sequence[Problem]:
        (bench.folder / "mine.yaml").touch()
        (bench.folder / "valid.yaml").write_bytes(VALID.read_bytes())
        return raised(lambda: load_fleets([str(bench.folder / name) for name in names]))

    return meet


# --- profiles and plans ---


def profile(text: str, head: str = HEAD) -> Meet:
    """A profile file that holds this under its head."""

    def meet(bench: Bench) -> Sequence[Problem]:
        file = bench.folder / "mine.yaml"
        file.write_text(head + text)
        return raised(lambda: Catalog.load([file]))

    return meet


def planning(
    variants: str,
    *,
    simulate: float | None = 1.0,
    profiles: Sequence[str] = (),
    here: Observed = MACHINE,
    **more: str,
) -> Meet:
    """A fleet with these variants, planned: its errors, or the warnings where there are none."""

    def meet(bench: Bench) -> Sequence[Problem]:
        observed = tiny(bench.folder) if more.get("uri") == "./tiny" else here
        text = fleet_text(variants, **more)
        made: list[Problem] = []

        def act() -> None:
            done = plan_text(text, simulate=simulate, observed=observed, profiles=profiles)
            made.extend(done.warnings)

        return (*raised(act), *made)

    return meet


def cluster(variants: str, **more: str) -> Meet:
    """Variants in a cluster, beside which there is another."""
    here = variants if "target" in variants else variants.replace("}", ", target: here}")
    text = fleet_text(here, **more)
    there = "{name: here, kind: kubernetes}, {name: other, kind: kubernetes}"

    def meet(_bench: Bench) -> Sequence[Problem]:
        made: list[Problem] = []

        def act() -> None:
            text_there = text.replace("{name: here, kind: local}", there)
            made.extend(plan_text(text_there, simulate=None).warnings)

        return (*raised(act), *made)

    return meet


def apart(
    prefill: str = "", decode: str = "", how: str = "{transport: ib}", more: str = ""
) -> Meet:
    """Prefill and decode apart on H100s in a cluster; `prefill` and `decode` say more of each."""
    given = ("prefill", prefill), ("decode", decode)
    variants = "\n".join(
        f"- {{name: {role[0]}, accelerator: nvidia-h100, role: {role}{', ' * bool(own)}{own}}}"
        for role, own in given
    )
    text = fleet_text(
        f"{variants}\n{more}", model=f"disaggregation: {how}", spec="router: {kind: llm-d}"
    ).replace("kind: local", "kind: kubernetes")

    def meet(_bench: Bench) -> Sequence[Problem]:
        made: list[Problem] = []
        return (*raised(lambda: made.extend(plan_text(text, simulate=None).warnings)), *made)

    return meet


def h100(more: str, **others: Any) -> Meet:
    """A variant on an H100."""
    return planning(f"- {{name: v, accelerator: nvidia-h100{', ' * bool(more)}{more}}}", **others)


def mine(spec: str) -> str:
    """A profile that extends that of an H100."""
    return f"{HEAD}extends: nvidia-h100\nspec: {{{spec}}}\n"


# --- apply ---

ONE = plan(model("chat", variant("a")))


def applying(prepare: Callable[[World], object], **options: Any) -> Meet:
    """An apply in a world that was prepared for it to fail."""

    def meet(_bench: Bench) -> Sequence[Problem]:
        world = World()
        prepare(world)
        machine = world.machine(world.actor())
        folder = world.folder(machine)
        return raised(
            lambda: apply_plan(ONE, folder, machine, PYTHON, lambda _event: None, **options)
        )

    return meet


def engine_breaks(world: World) -> None:
    world.broken = {"a": "exited with code 9"}


def engine_never_boots(world: World) -> None:
    world.unbootable = {"a"}


def applied(world: World) -> None:
    machine = world.machine(world.actor())
    apply_plan(ONE, world.folder(machine), machine, PYTHON, lambda _event: None)


def stranger_on_the_routers_port(world: World) -> None:
    applied(world)
    (router,) = world.named("@router")
    world.stranger(8000)
    world.signal(router, signal.SIGKILL)
    world.advance(3.0)


def locked(_bench: Bench) -> Sequence[Problem]:
    """Two commands at once."""
    world = World()
    one, two = (world.machine(world.actor()) for _ in range(2))
    with hold(world.folder(one), COMMAND_LOCK, one, "apply"):
        return raised(lambda: apply_plan(ONE, world.folder(two), two, PYTHON, lambda _event: None))


def program_is_missing(_bench: Bench) -> Sequence[Problem]:
    """A real engine whose program is not on the machine."""
    world = World()
    world.uninstalled = {"vllm"}
    machine = world.machine(world.actor())
    folder = world.folder(machine)
    real = plan(model("chat", real_variant("a")))
    return raised(lambda: apply_plan(real, folder, machine, PYTHON, lambda _event: None))


def is_elsewhere(_bench: Bench) -> Sequence[Problem]:
    """A real engine for a cluster."""
    world = World()
    machine = world.machine(world.actor())
    there = replace(real_variant("a"), target="gke")
    cluster = replace(plan(model("chat", there)), targets=(PlannedTarget("gke", "kubernetes"),))
    folder = world.folder(machine)
    return raised(lambda: apply_plan(cluster, folder, machine, PYTHON, lambda _event: None))


def silent(bench: Bench) -> Sequence[Problem]:
    """Engines run, and nobody answers through the router."""

    def prepare(world: World) -> None:
        answer = Answer(ok=False, reason="HTTP 502")
        bench.patch.setattr("tests.unit.controller.world.WorldNetwork.probe", lambda *_: answer)

    return applying(prepare, timeout_seconds=20.0)(bench)


def interrupted(bench: Bench) -> Sequence[Problem]:
    """Ctrl-C before anything was written."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    bench.patch.setattr("llmd_ctl.apply.apply.compare", stop)
    return applying(lambda _world: None)(bench)


def undeleted(_bench: Bench) -> Sequence[Problem]:
    """A delete whose engine does not go."""
    world = World()
    applied(world)
    machine = world.machine(world.actor())
    (engine,) = (proc for proc in world.living() if proc.mark.startswith("chat"))

    def immortal(*_: object) -> None:
        engine.alive = True

    clock: Any = machine.clock
    clock.on_sleep = immortal
    return raised(lambda: delete_fleet(world.folder(machine), machine, PYTHON, lambda _event: None))


def shown(prepare: Callable[[World], object]) -> Meet:
    """What status says of a world."""

    def meet(_bench: Bench) -> Sequence[Problem]:
        world = World()
        applied(world)
        prepare(world)
        machine = world.machine(world.actor())
        found = fleet_status(world.folder(machine), machine)
        assert found is not None
        return found.problems

    return meet


def desired_is_damaged(world: World) -> None:
    world.files[Path("/state/prod/desired.json")] = b"["


def controller_is_dead(world: World) -> None:
    for proc in world.controllers():
        world.bury(proc.id.pid, "")


def certificate_is_old(bench: Bench) -> Sequence[Problem]:
    """A router that could not take over a changed certificate."""
    answer = World.router_status

    def complaining(world: World) -> RouterStatus | None:
        found = answer(world)
        said = ("listen.tls: the key does not fit the certificate; the old certificates stay",)
        return None if found is None else replace(found, certificates=said)

    bench.patch.setattr(World, "router_status", complaining)
    return shown(lambda _world: None)(bench)


# --- the command line ---


def command(*argv: str) -> Meet:
    """A command in a folder that holds fleet.yaml."""

    def meet(bench: Bench) -> Sequence[Problem]:
        bench.patch.chdir(bench.folder)
        bench.patch.setenv("XDG_STATE_HOME", str(bench.folder / "state"))
        (bench.folder / "fleet.yaml").write_text(fleet_text("- {accelerator: nvidia-h100}"))
        (bench.folder / "list.json").write_text("[]")
        (bench.folder / "empty.json").write_text("{}")
        (bench.folder / "taken").mkdir()
        (bench.folder / "taken" / "run.sh").write_text("mine")
        run([*argv, "--output", "json"])
        return [
            Problem.from_json(p) for p in json.loads(bench.streams.readouterr().out)["problems"]
        ]

    return meet


def failing(error: BaseException) -> Meet:
    """A status that ends in an error of the system or of its user."""

    def meet(bench: Bench) -> Sequence[Problem]:
        def fail(*_: object) -> None:
            raise error

        bench.patch.setattr("llmd_ctl.cli.planning.known_fleets", fail)
        return command("status")(bench)

    return meet


def stopped_watching(bench: Bench) -> Sequence[Problem]:
    """Ctrl-C while a status is watched: no document, only words."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    bench.patch.setattr("llmd_ctl.cli.status._all", stop)
    run(["status", "--watch"])
    return said(bench.streams.readouterr().err)


def traffic_breaks_off(bench: Bench) -> Sequence[Problem]:
    """A demo whose load generator ended before it had begun."""
    (bench.folder / "load.txt").write_text("no route")
    ended = subprocess.Popen(["true"])
    ended.wait()
    traffic = Traffic("chat", rate=1.0, seconds=1.0, seed=1)
    log = bench.folder / "load.jsonl"
    return raised(lambda: _attend(ended, "demo", traffic, log, lambda _line: None))


def beside(target: str) -> Meet:
    """Two fleets in a target like this, of one command."""

    def meet(bench: Bench) -> Sequence[Problem]:
        text = fleet_text("- {accelerator: nvidia-h100}").replace("kind: local", target)
        (bench.folder / "other.yaml").write_text(text.replace("name: test", "name: other"))
        (bench.folder / "one.yaml").write_text(text)
        return command("validate", "one.yaml", "other.yaml")(bench)

    return meet


def manifests(text: str) -> Meet:
    """A folder with this manifest, judged."""

    def meet(bench: Bench) -> Sequence[Problem]:
        (bench.folder / "rendered").mkdir()
        (bench.folder / "rendered" / "chat.yaml").write_text(text)
        return command("validate", "--manifests", "rendered")(bench)

    return meet


def shell(line: str) -> Meet:
    """A command as a shell runs it; what it says on stderr is read."""

    def meet(bench: Bench) -> Sequence[Problem]:
        bench.patch.setenv("XDG_STATE_HOME", str(bench.folder / "state"))
        words = line.replace("llmd-ctl", f"{sys.executable} -m llmd_ctl")
        done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False)
        return said(done.stderr)

    return meet


def bug(bench: Bench) -> Sequence[Problem]:
    """What nobody foresaw."""
    program = (
        "from llmd_ctl.cli import main, planning\n"
        "def fail(): raise RuntimeError('odd')\n"
        "planning.known_fleets = fail\n"
        "main()"
    )
    return shell(f'{sys.executable} -c "{program}" status')(bench)


def said(text: str) -> Sequence[Problem]:
    """Read a problem as it stands on stderr; its last words, which may be wrapped, are the hint."""
    first, *more = text.strip().splitlines()
    code = re.fullmatch(r"error\[(\w+)\]: (.*)", first)
    assert code is not None, text
    words = " ".join(line.strip() for line in more)
    return [Problem(code[1], code[2], hint=words.rpartition("hint: ")[2])]
