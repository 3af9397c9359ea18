"""Whoever waits is told for whom, since when, for how long at most, and how to change that."""

from __future__ import annotations

import re
from typing import Any

import pytest

from llmd_ctl.apply.apply import apply_plan
from llmd_ctl.apply.events import ApplyEvent, EndpointSilent
from llmd_ctl.cli.boundary import run
from llmd_ctl.cli.events import describe
from llmd_ctl.errors import ApplyFailed, Interrupted, LlmdError, Problem
from llmd_ctl.plan import Plan
from llmd_ctl.router.answer import Answer
from tests.unit.cli.test_boundary import FLEET
from tests.unit.controller.plans import external, model, plan, variant
from tests.unit.controller.world import PYTHON, World

SILENT = plan(model("chat", variant("a"), external("old", "http://10.0.0.7:8000")))
NO_ROUTE = Answer(ok=False, reason="no route")


def failure(
    world: World, wanted: Plan, kind: type[LlmdError], events: list[ApplyEvent], **options: Any
) -> Problem:
    """The one problem of an apply that cannot succeed."""
    machine = world.machine(world.actor())
    with pytest.raises(kind) as error:
        apply_plan(wanted, world.folder(machine), machine, PYTHON, events.append, **options)
    (problem,) = error.value.problems
    return problem


def test_a_silent_endpoint_is_named_with_how_long_it_was_asked_and_the_limit() -> None:
    problem = failure(World(), SILENT, ApplyFailed, [], timeout_seconds=40.0)
    assert problem.code == "LC4007"
    assert problem.message.startswith("chat-old gives no answer through the router: HTTP 502")
    assert problem.found is not None
    asked = re.fullmatch(r"silent for (\d+) s; the limit of this wait is 40s", problem.found)
    assert asked is not None
    assert 20 <= int(asked[1]) <= 40
    assert "Apply again to go on waiting; `--timeout 10m` waits longer." in problem.remedy


def test_the_event_of_silence_says_since_when_and_until_when() -> None:
    world = World()
    events: list[ApplyEvent] = []
    began = world.machine(world.actor()).clock.wall()
    failure(world, SILENT, ApplyFailed, events, timeout_seconds=40.0)
    [silent] = [event for event in events if isinstance(event, EndpointSilent)]
    assert began <= silent.since <= began + 20
    assert silent.until == pytest.approx(began + 40, abs=2)


def test_progress_names_the_option() -> None:
    told: list[str] = []

    class Lines:
        def done(self, text: str) -> None:
            told.append(text)

    lines: Any = Lines()
    describe(EndpointSilent("chat", "chat-old", "no route", 1e9, 1e9 + 60), lines)
    pattern = r"chat-old .* yet: no route \(asked since [\d:]+, until [\d:]+ at most: --timeout\)"
    assert re.fullmatch(pattern, told[0])


def test_ctrl_c_names_who_is_silent_and_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    machine = world.machine(world.actor())
    clock: Any = machine.clock
    asked: list[str] = []

    def on_sleep() -> None:
        if len(asked) > 20:
            raise KeyboardInterrupt

    def probe(_url: str, _key: str, _model: str, endpoint: str, _seconds: float) -> Answer:
        asked.append(endpoint)
        return NO_ROUTE if endpoint == "chat-old" else Answer(ok=True, reason="")

    monkeypatch.setattr(machine.network, "probe", probe)
    clock.on_sleep = on_sleep
    with pytest.raises(Interrupted) as error:
        apply_plan(SILENT, world.folder(machine), machine, PYTHON, lambda _e: None,
                   timeout_seconds=300.0)  # fmt: skip
    (problem,) = error.value.problems
    assert problem.code == "LC4008"
    assert re.fullmatch(r"chat-old is silent for \d+ s: no route", problem.found or "")
    assert "(5m at most; `--timeout 10m` waits longer)" in problem.remedy


def test_what_does_not_start_in_time_is_named_with_its_state() -> None:
    world = World()
    world.router_complaint = "models[0] is odd"
    problem = failure(world, SILENT, ApplyFailed, [], timeout_seconds=20.0)
    assert problem.code == "LC4005"
    assert problem.message == "revision 1 does not answer within 20s"
    assert "`--timeout 10m` waits longer" in problem.remedy


def test_no_question_lasts_longer_than_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    machine = world.machine(world.actor())
    allowed: list[float] = []

    def probe(_url: str, _key: str, _model: str, _endpoint: str, seconds: float) -> Answer:
        allowed.append(seconds)
        return NO_ROUTE

    monkeypatch.setattr(machine.network, "probe", probe)
    with pytest.raises(ApplyFailed):
        apply_plan(SILENT, world.folder(machine), machine, PYTHON, lambda _e: None,
                   timeout_seconds=30.0)  # fmt: skip
    assert max(allowed) <= 30
    assert allowed[-1] == 2.0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--timeout", "10"], "LC6002"),
        (["--timeout", "soon"], "LC6002"),
        (["--timeout", "5m", "--no-wait"], "LC6004"),
        (["--timeout", "5m", "--dry-run"], "LC6004"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused_before_anything_is_done(
    words: list[str], code: str, tmp_path: Any, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "fleet.yaml").write_text(FLEET)
    assert run(["apply", str(tmp_path / "fleet.yaml"), "--simulate", *words]) == 64
    assert f"error[{code}]: --timeout" in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


def test_a_limit_in_words_is_the_limit_in_seconds(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    seen: list[float] = []

    def stop(*_: object, timeout_seconds: float, **__: object) -> None:
        seen.append(timeout_seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr("llmd_ctl.apply.apply.apply_plan", stop)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run(["apply", str(tmp_path / "fleet.yaml"), "--simulate", "--timeout", "1m30s"])
    assert seen == [90.0]
