"""`status` says "as desired" only when everybody who asks is served."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from llmd_ctl.apply.status import FleetStatus, ModelStatus, ReplicaStatus, VariantStatus
from llmd_ctl.cli.boundary import run
from llmd_ctl.cli.status import status_view
from llmd_ctl.router.answer import EndpointHealth, RetryBudget
from tests.unit.cli.test_boundary import FLEET


def endpoint(router_state: str) -> ReplicaStatus:
    return ReplicaStatus(
        "chat-old", "http://10.0.0.7:8000", router_state, "", 1, 0, None, router_state, 0
    )


def served_by(replica: ReplicaStatus) -> VariantStatus:
    return VariantStatus(
        "old", "nvidia-l4", "vllm", simulated=False, desired=1, replicas=(replica,)
    )


def fleet(name: str = "prod", router_state: str = "ready") -> FleetStatus:
    """A fleet of one external endpoint, which the controller calls converged whatever it does."""
    variant = served_by(endpoint(router_state))
    return FleetStatus(
        fleet=name, revision=1, converged=True, deleted=False, controller="running",
        router_url="http://127.0.0.1:1", router_admin_url="http://127.0.0.1:2",
        router_state="ready", models=(ModelStatus("chat", (variant,)),), problems=(),
    )  # fmt: skip


def test_what_the_router_lacks_of_an_endpoint_is_shown() -> None:
    lacking = replace(endpoint("ready"), degraded=("load last reported 11.5s ago",))
    variant = served_by(lacking)
    found = replace(fleet(), models=(ModelStatus("chat", (variant,)),))
    console = Console(width=200, no_color=True)
    with console.capture() as shown:
        for part in status_view(found):
            console.print(part)
    assert "load last reported 11.5s ago" in shown.get()
    assert found.to_json()["models"][0]["variants"][0]["replicas"][0]["degraded"]


def test_an_endpoint_that_says_it_is_simulated_is_shown_so() -> None:
    variant = replace(served_by(endpoint("ready")), simulated=True)
    found = replace(fleet(), models=(ModelStatus("chat", (variant,)),))
    row = next(line for line in shown(found).splitlines() if "nvidia-l4" in line)
    assert " simulated " in row
    assert "vllm" not in row


def test_an_engine_that_runs_and_is_out_is_shown_as_out() -> None:
    ill = EndpointHealth("out", "checks", 4000, "failed")
    words = "active checks failed: until it answers again chosen only where no other is left"
    hung = replace(endpoint("ready"), router_state="out", health=ill, degraded=(words,))
    variant = replace(fleet().models[0].variants[0], replicas=(hung,))
    found = replace(fleet(), models=(ModelStatus("chat", (variant,)),))
    console = Console(width=200, no_color=True)
    with console.capture() as shown:
        for part in status_view(found):
            console.print(part)
    row = next(line for line in shown.get().splitlines() if "nvidia-l4" in line)
    assert " out " in row
    assert " ready " not in row
    assert words in " ".join(shown.get().split())
    document = found.to_json()["models"][0]["variants"][0]
    assert document["ready"] == 0
    assert document["replicas"][0]["health"] == {
        "state": "out", "why": "checks", "outForMs": 4000, "outAtLeastMs": None, "check": "failed",
    }  # fmt: skip


def shown(found: FleetStatus) -> str:
    console = Console(width=250, no_color=True)
    with console.capture() as text:
        for part in status_view(found):
            console.print(part)
    return text.get()


def test_why_an_endpoint_is_not_reached_is_shown() -> None:
    why = "connection refused (os error 111)"
    variant = served_by(replace(endpoint("down"), unreachable=why))
    found = replace(fleet(), models=(ModelStatus("chat", (variant,)),))
    assert f"cannot be reached: {why}" in shown(found)
    assert found.to_json()["models"][0]["variants"][0]["replicas"][0]["unreachable"] == why
    assert "cannot be reached" not in shown(fleet())


@pytest.mark.parametrize(("left", "told"), [(0.4, True), (1.0, False)])
def test_a_retry_budget_is_shown_where_it_is_used_up_and_always_in_json(
    left: float, told: bool
) -> None:
    (model,) = fleet().models
    found = replace(fleet(), models=(replace(model, retry_budget=RetryBudget(left, 7, 3)),))
    line = "Retries of chat: the budget is used up, 3 were not made"
    assert (line in shown(found)) == told
    budget = found.to_json()["models"][0]["retryBudget"]
    assert budget == {"left": left, "used": 7, "refused": 3}


DELETED = replace(fleet("gone"), deleted=True, controller="ended", models=(), router_url=None)


def seen(monkeypatch: pytest.MonkeyPatch, *found: FleetStatus) -> None:
    known = {one.fleet: one for one in found}
    monkeypatch.setattr("llmd_ctl.apply.fleet_status", lambda folder, _here: known[folder.fleet])
    monkeypatch.setattr("llmd_ctl.cli.planning.known_fleets", lambda: list(known))


@pytest.mark.parametrize(
    ("router_state", "code", "headline"),
    [
        ("ready", 0, "revision 1: as desired ·"),
        ("unready", 1, "revision 1: not as desired (1 endpoint is not ready) ·"),
    ],
)
def test_an_external_endpoint_that_is_down_is_not_as_desired(
    router_state: str,
    code: int,
    headline: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen(monkeypatch, fleet(router_state=router_state))
    assert run(["status"]) == code
    assert headline in capsys.readouterr().out
    assert run(["status", "--output", "json"]) == code
    [one] = json.loads(capsys.readouterr().out)["fleets"]
    assert one["converged"] is (code == 0)


def test_a_file_that_was_never_applied_is_told_how_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("fleet.yaml").write_text(FLEET)
    assert run(["status", "fleet.yaml"]) == 64
    told = capsys.readouterr().err
    assert "error[LC6006]: the fleet of fleet.yaml was not applied here" in told
    assert "hint: `llmd-ctl apply fleet.yaml` starts it." in told
    assert run(["status", "small"]) == 64
    assert "give the file instead" in capsys.readouterr().err


def test_a_deleted_fleet_is_told_only_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen(monkeypatch, fleet(), DELETED)
    monkeypatch.setattr("llmd_ctl.cli.planning.fleet_name", lambda given: given)
    assert run(["status"]) == 0
    assert "gone" not in capsys.readouterr().out
    assert run(["status", "gone"]) == 0
    assert "Fleet gone, revision 1: deleted" in capsys.readouterr().out
    deleting = replace(DELETED, controller="running", converged=False)
    seen(monkeypatch, deleting)
    assert run(["status"]) == 1
    assert "Fleet gone" in capsys.readouterr().out


def test_the_table_names_the_endpoint_that_is_down() -> None:
    out = io.StringIO()
    for item in status_view(fleet(router_state="unready")):
        Console(file=out, width=160).print(item)
    assert "0/1" in out.getvalue()
    assert "http://10.0.0.7:8000" in out.getvalue()
