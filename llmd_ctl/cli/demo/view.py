"""The demo's summary for people, drawn from its document and from nothing else.

Called by `verb`. Simulated is said at the top, where every number below gets its meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from llmd_ctl.cli.load.view import duration

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

    from llmd_ctl.cli.table import Either

Json = dict[str, Any]
QUANTILES = ("p50", "p95", "p99")
# Of a span's attributes, those that tell its story; `--output json` has them all.
SHOWN = {
    "llmd.variant": "variant",
    "error.type": "error",
    "http.response.status_code": "status",
    "llmd.pick.candidates": "candidates",
    "llmd.pick.inflight_requests": "in flight there",
    "llmd.pick.prompt_tokens": "prompt tokens",
    "llmd.pick.cached_tokens": "cached there",
    "llmd.pick.ttft_us": "TTFT expected in",
    "gen_ai.usage.output_tokens": "output tokens",
}


def summary_view(document: Json) -> Iterator[RenderableType]:
    """The whole summary. The plan's own table is shown before it, by `verb`."""
    from rich.text import Text

    runs = document["runs"]
    streams = sum(runs[0]["ended"]["streams"].values())
    yield Text(
        f"{runs[0]['requests']} requests ({streams} streamed) in {document['seconds']:g} s, "
        f"{document['requestsPerSecond']:.1f}/s, the same under each scheduler. "
        f"All engines are SIMULATED at {document['speed']:g} × the planned speed.",
        style="bold",
    )
    yield _table(WORK, runs)
    yield _table(LATENCY, runs)
    yield Text(conclusion(runs), style="bold")
    for run, kill in zip(runs, document["killed"], strict=True):
        yield Text(
            f"{run['scheduler']}: {kill['variant']} was killed (SIGKILL) after "
            f"{kill['afterSeconds']:.1f} s: non-streams retried {run['retried']['nonStreams']}, "
            f"streams ended by an error event {run['streamsEndedByErrorEvent']}, "
            f"silent ends {run['silentEnds']}, lost {lost(run)}"
        )
    if document["trace"] is not None:
        yield from trace_view(document["trace"])


def conclusion(runs: Sequence[Json]) -> str:
    """The two schedulers side by side, in one sentence; no judgement."""
    parts = [
        f"{name} p95 " + " against ".join(duration(run["all"][key]["p95"]) for run in runs)
        for key, name in (("ttftUs", "TTFT"), ("itlUs", "ITL"))
    ]
    hits = " against ".join(f"{run['all']['prefixHitRate']:.0%}" for run in runs)
    names = " against ".join(run["scheduler"] for run in runs)
    return f"{names}: {', '.join(parts)}, prefix hits {hits}"


def lost(run: Json) -> int:
    """Requests that got no 2xx, or no end."""
    ended = run["ended"]
    kinds = ("refused", "client-error")
    return sum(ended[part][kind] for part in ("streams", "nonStreams") for kind in kinds)


class _Kind(Struct, frozen=True):
    """One of the tables: what names a row, and what is told of it in each run."""

    heads: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Callable[[Json], tuple[str, ...]]


def _table(kind: _Kind, runs: Sequence[Json]) -> Either:
    """The runs side by side; below each other where there is no room for that."""
    from llmd_ctl.cli.table import Either

    return Either(_side_by_side(kind, runs), tuple(_alone(kind, run) for run in runs))


def _side_by_side(kind: _Kind, runs: Sequence[Json]) -> Table:
    """A table whose columns repeat for each run, under the name of the run's scheduler."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for head in kind.heads:
        table.add_column(f"\n{head}", no_wrap=True)
    for run in runs:
        for number, column in enumerate(kind.columns):
            over = f"[cyan]{run['scheduler']}[/cyan]" if number == 0 else ""
            table.add_column(f"{over}\n{column}", justify="right")
    for names, rows in _rows(runs):
        cells = [cell for row in rows for cell in kind.cells(row)]
        table.add_row(*names[: len(kind.heads)], *cells)
    return table


def _alone(kind: _Kind, run: Json) -> Group:
    from rich.console import Group
    from rich.text import Text

    from llmd_ctl.cli.table import Column, Sheet

    heads = [Column(name, number) for number, name in enumerate(kind.heads)]
    sheet = Sheet([*heads, *(Column(name, right=True) for name in kind.columns)])
    for names, [row] in _rows([run]):
        sheet.add(*names[: len(kind.heads)], *kind.cells(row))
    return Group(Text(run["scheduler"], style="cyan"), sheet)


def _rows(runs: Sequence[Json]) -> Iterator[tuple[tuple[str, str, str], list[Json]]]:
    """A head and the same variant's row in each run; the last is all variants together."""
    for number, row in enumerate(runs[0]["variants"]):
        head = (row["name"], row["accelerator"], _share(row["capacityShare"]))
        yield head, [run["variants"][number] for run in runs]
    yield ("all", "", ""), [{**run["all"], "tokenShare": 1.0} for run in runs]


def _work_cells(row: Json) -> tuple[str, ...]:
    shares = (_share(row["tokenShare"]), _share(row["prefixHitRate"]))
    return (str(row["requests"]), f"{row['tokens'] / 1000:.1f}k", *shares)


def _latency_cells(row: Json) -> tuple[str, ...]:
    return (_quantiles(row["ttftUs"], 1e6, 2), _quantiles(row["itlUs"], 1e3, 0))


WORK = _Kind(
    ("Variant", "Accelerator", "Capacity"), ("requests", "tokens", "share", "hits"), _work_cells
)
LATENCY = _Kind(("p50/p95/p99",), ("TTFT s", "ITL ms"), _latency_cells)


def _quantiles(found: Json, unit: float, digits: int) -> str:
    """Three percentiles in one unit, such as 0.11/0.43/0.90."""
    values = [found[name] for name in QUANTILES]
    return "/".join("-" if v is None else f"{v / unit:.{digits}f}" for v in values)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def trace_view(trace: Json) -> Iterator[RenderableType]:
    """One trace as a tree: each span with its start and its length."""
    from rich.text import Text
    from rich.tree import Tree

    def label(span: Json) -> Text:
        found = span["attributes"]
        attributes = ", ".join(
            f"{name} {duration(found[key]) if key.endswith('_us') else found[key]}"
            for key, name in SHOWN.items()
            if key in found
        )
        return Text.assemble(
            (span["name"], "bold red" if span["failed"] else "bold"),
            f"  at {duration(span['startUs'])}, took {duration(span['durationUs'])}",
            (f"  {attributes}", "dim"),
        )

    def add(parent: Tree, span: Json) -> None:
        branch = parent.add(label(span))
        for child in span["children"]:
            add(branch, child)

    root = Tree(f"Trace {trace['traceId']} of {trace['requestId']}, {trace['why']}")
    for span in trace["spans"]:
        add(root, span)
    yield root
