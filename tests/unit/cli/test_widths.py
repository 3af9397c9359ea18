"""What people read fits the terminal they read it on, and nothing is cut or said twice."""

import io
from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import RenderableType

from llmd_ctl.apply.changes import Change
from llmd_ctl.apply.status import FleetStatus, ModelStatus, ReplicaStatus, VariantStatus
from llmd_ctl.cli import output
from llmd_ctl.cli.demo.view import summary_view
from llmd_ctl.cli.plan_view import plan_view
from llmd_ctl.cli.problems import tell
from llmd_ctl.cli.status import reasons, status_view
from llmd_ctl.errors import Problem
from tests.unit.cli.test_status import endpoint, fleet, served_by
from tests.unit.cli.test_views import FIT, UNKNOWN, VARIANT, demo_document, drawn, plan_of

WIDTHS = [60, 80, 120, 200]
ACCELERATORS = tuple(f"nvidia-b{number}" for number in range(100, 133))
LONG = "a-model-with-" + "a-name-" * 7 + "x"
CHANGE = Change("change", LONG, "h100", ("facts.prefill: 1 → 2", "env.LD_PRELOAD: a → b"), 3)
STALE = "load last reported {}s ago: loses weight as it ages"


def replica(number: int, *degraded: str, reason: str = "") -> ReplicaStatus:
    return ReplicaStatus(
        f"chat-h100-{number}-ab12cd", f"127.0.0.1:1823{number}", "ready", reason, 1, 0, 4711,
        "ready", 3, degraded,
    )  # fmt: skip


def variant(*replicas: ReplicaStatus) -> VariantStatus:
    return VariantStatus("h100", "nvidia-h100", "vllm", simulated=True, desired=3,
                         replicas=replicas)  # fmt: skip


def found(*models: ModelStatus) -> FleetStatus:
    return replace(fleet(), models=models)


ILL = found(
    ModelStatus(LONG, (variant(*(replica(i, STALE.format(11 + i)) for i in range(3))),)),
    ModelStatus("code", (served_by(replace(endpoint("down"), unreachable="refused (error 111)")),)),
)
PLAN = plan_of(
    replace(VARIANT, reasons=("because " + "of many words " * 20 + "in all",)),
    replace(UNKNOWN, accelerator="an-accelerator-profile-of-mine"),
    replace(VARIANT, name="b" * 63, fit=replace(FIT, kv_bytes_limit=1 << 30)),
)


def views() -> dict[str, Iterable[RenderableType]]:
    return {
        "status": status_view(ILL),
        "plan": plan_view(PLAN, [CHANGE]),
        "explain": plan_view(PLAN, explain=True),
        "demo": summary_view(demo_document()),
    }


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", list(views()))
def test_no_line_is_wider_than_its_terminal_and_nothing_is_cut(name: str, width: int) -> None:
    shown = drawn(views()[name], width)
    assert max(map(cell_len, shown.splitlines())) <= width
    assert "…" not in shown
    wide = drawn(views()[name], 4000)
    narrow = "".join(shown.split())
    words = [word for word in wide.split() if word.strip("─└├│·")]
    assert len(words) > 30
    assert [word for word in words if word not in narrow] == []


@pytest.mark.parametrize(
    ("width", "under"),
    [
        (60, "Accelerators 3 × 2 nvidia-h100 · Engine vllm 0.32.0 · Confidence -"),
        (80, "Engine vllm 0.32.0 · Confidence -"),
        (120, ""),
    ],
)
def test_what_finds_no_room_stands_named_under_its_row(width: int, under: str) -> None:
    lines = drawn(plan_view(plan_of(VARIANT)), width).splitlines()
    row = next(i for i, line in enumerate(lines) if line.startswith(" chat "))
    assert "17.70" in lines[row]
    until = next(i for i, line in enumerate(lines[row + 1 :], row + 1) if not line)
    assert " ".join(line.strip() for line in lines[row + 1 : until]) == under


@pytest.mark.parametrize(
    ("columns", "out", "prose"),
    [("60", 60, 60), ("90", 90, 90), ("200", 200, 200), ("0", 160, 80), ("x", 160, 80)],
)
def test_what_is_no_terminal_is_as_wide_as_columns_says_else_as_usual(
    columns: str,
    out: int,
    prose: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    output.show(plan_view(PLAN, [CHANGE]))
    tell([Problem("LC2010", "no such thing", found="nvidia-b", allowed=ACCELERATORS)])
    shown = capsys.readouterr()
    assert out - 25 < max(map(cell_len, shown.out.splitlines())) <= out
    assert prose - 25 < max(map(cell_len, shown.err.splitlines())) <= prose


class Terminal(io.StringIO):
    """What is written to it, as if to a terminal."""

    def isatty(self) -> bool:
        """Whether a person reads it."""
        return True


@pytest.mark.parametrize(("no_color", "escapes"), [("1", False), ("", True)])
def test_no_color_leaves_no_escape_code_at_all(
    monkeypatch: pytest.MonkeyPatch, no_color: str, *, escapes: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    terminal = Terminal()
    output.show(plan_view(PLAN, [CHANGE]), terminal)
    assert ("\x1b" in terminal.getvalue()) == escapes


@pytest.mark.parametrize(
    ("columns", "width"),
    [("0", 80), ("1", 80), ("19", 80), ("20", 20), ("-1", 80), ("\N{SUPERSCRIPT TWO}", 80)],
)
def test_a_terminal_too_narrow_for_words_is_taken_for_one_of_80(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "9" * 5000)
    assert output.make_console(Terminal()).width == width


def test_a_reason_is_said_once_for_all_whom_it_meets() -> None:
    same = "no profile: starts from a neutral one and learns"
    one = ModelStatus("chat", (variant(replica(0, same), replica(1, same)),))
    two = ModelStatus("code", (variant(replica(0, same), replica(1, same), replica(2)),))
    shown = drawn(status_view(found(one, two)), 200)
    assert shown.count(same) == 1
    assert f"chat/h100, code/h100 127.0.0.1:18230, 127.0.0.1:18231: {same}" in shown


def test_spans_of_time_are_drawn_together_and_other_numbers_are_not() -> None:
    ages = [replica(i, STALE.format(age)) for i, age in enumerate(("9.5", "11.0", "10.25"))]
    ended = [replica(i, reason=f"pid {4711 + i} was killed") for i in range(2)]
    assert list(reasons(found(ModelStatus("chat", (variant(*ages),))))) == [
        STALE.format("9.5 to 11.0")
    ]
    assert list(reasons(found(ModelStatus("chat", (variant(*ended),))))) == [
        "pid 4711 was killed", "pid 4712 was killed",
    ]  # fmt: skip


def test_an_endpoint_that_never_reported_is_said_to_have_never_done_so() -> None:
    never = "never reported load in 12.0s: own requests, and of others what is usual in the pool"
    shown = drawn(status_view(found(ModelStatus("chat", (variant(replica(0, never)),)))), 200)
    assert f"chat/h100: {never}" in shown
