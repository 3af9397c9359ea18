"""The Grafana dashboard of the router: run it to write docs/dashboards/router.json anew.

`tests/house/test_dashboard.py` checks the written file; `tests/e2e/telemetry/test_dashboard.py`
runs each of its queries against a Prometheus. Nothing here talks to Grafana.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent.parent / "docs" / "dashboards" / "router.json"
# Of Grafana 10; newer ones lift it to theirs when they load it.
SCHEMA_VERSION = 39
COLUMNS, HEIGHT = 24, 8

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Labels that every query is narrowed by: routers, models, and variants where there are any.
ROUTER = 'instance=~"$router"'
MODEL = f'{ROUTER}, model=~"$model"'
VARIANT = f'{MODEL}, variant=~"$variant"'

Json = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """One graph. `queries` are pairs of an expression and the legend of its series."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    about: str
    width: int = 8


def total(metric: str, by: str, narrowed: str) -> str:
    """How fast a counter grows, a second."""
    return f"sum by ({by}) (rate(llmd_router_{metric}_total{{{narrowed}}}[$__rate_interval]))"


def grown(metric: str, by: str) -> str:
    """By how much a counter of the router grew, for what is rare."""
    return f"sum by ({by}) (increase(llmd_router_{metric}_total{{{ROUTER}}}[$__rate_interval]))"


def gauge(metric: str, by: str, narrowed: str = VARIANT) -> str:
    """The sum of a gauge."""
    return f"sum by ({by}) (llmd_router_{metric}{{{narrowed}}})"


def largest(metric: str, by: str) -> str:
    """The largest of what the routers saw."""
    return f"max by ({by}) (llmd_router_{metric}{{{VARIANT}}})"


def quantiles(metric: str, by: str, narrowed: str) -> tuple[tuple[str, str], ...]:
    """The median, the 95th and the 99th percentile of a histogram."""
    buckets = f"rate(llmd_router_{metric}_seconds_bucket{{{narrowed}}}[$__rate_interval])"
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return tuple(
        (f"histogram_quantile({share}, sum by (le, {by}) ({buckets}))", f"{legend} {name}")
        for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    )


def share(part: str, whole: str) -> str:
    """A part of a whole; a part that never was (a code not yet given) is 0, not absent."""
    return f"({part} or {whole} * 0) / {whole}"


def process(expression: str) -> str:
    """A number of the router's process: other programs have the same names, none the version."""
    version = f"on (job, instance) group_left (version) llmd_router_build_info{{{ROUTER}}}"
    return f"{expression} * {version}"


ENDPOINT = "{{model}} {{endpoint}}"
BY_ENDPOINT = "model, variant, endpoint"
ONE = "{{instance}} {{version}}"
FAILED_REQUESTS = total("requests", "model", f'{MODEL}, code=~"5.."')
ALL_REQUESTS = total("requests", "model", MODEL)

ROWS: dict[str, tuple[Panel, ...]] = {
    "Traffic": (
        Panel(
            "Requests by model and code", "reqps",
            ((total("requests", "model, code", MODEL), "{{model}} {{code}}"),),
            "Requests that ended. 499: the client left. `other`: names that are not served.",
        ),
        Panel(
            "Share that failed", "percentunit",
            ((share(FAILED_REQUESTS, ALL_REQUESTS), "{{model}}"),),
            "Answers of 500 and above, of all. A 429 is the engine's word and is not counted here.",
        ),
        Panel(
            "Open requests", "short",
            ((gauge("open_requests", "instance", ROUTER), "{{instance}}"),),
            "Being worked on at this moment, of each router.",
        ),
        Panel(
            "Retries", "reqps",
            ((total("retries", "model, stream", MODEL), "{{model}} stream={{stream}}"),),
            "Attempts after a request's first: endpoints that failed, with nothing lost so far.",
        ),
        Panel(
            "Streams that broke", "reqps",
            ((total("stream_errors", "model", MODEL), "{{model}}"),),
            "Ended with an error event, because their endpoint failed after the first byte.",
        ),
        Panel(
            "Picks by variant", "reqps",
            ((total("picks", "model, variant", VARIANT), "{{model}} {{variant}}"),),
            "Attempts placed on each variant.",
        ),
    ),
    "Latency": (
        Panel(
            "Time to first token by variant", "s",
            quantiles("time_to_first_token", "model, variant", VARIANT),
            "From a request's arrival to the first byte of its answer's body, retries included.",
        ),
        Panel(
            "Time between tokens by variant", "s",
            quantiles("inter_token_latency", "model, variant", VARIANT),
            "Of streamed answers.",
        ),
        Panel(
            "Duration by model", "s",
            quantiles("request_duration", "model", MODEL),
            "From arrival to the answer's last byte.",
        ),
    ),
    "Tokens": (
        Panel(
            "Tokens by variant", "short",
            ((
                total("tokens", "model, variant, direction", VARIANT),
                "{{model}} {{variant}} {{direction}}",
            ),),
            "A second: prompts (in) and answers (out). `llmd-ctl plan` tells what was planned.",
            12,
        ),
        Panel(
            "Share of prompt tokens cached", "percentunit",
            ((
                share(
                    total("prefix_hit_tokens", "model, variant", VARIANT),
                    total("tokens", "model, variant", f'{VARIANT}, direction="in"'),
                ),
                "{{model}} {{variant}}",
            ),),
            "As the pick believed them to be cached at the endpoint.",
            12,
        ),
    ),
    "Endpoints": (
        Panel(
            "Endpoints that get requests", "short",
            ((
                "count by (model, variant) "
                f"(max by ({BY_ENDPOINT}) (llmd_router_inflight_requests{{{VARIANT}}}))",
                "{{model}} {{variant}}",
            ),),
            "Known to the scheduler of any router: ready, or draining with requests left.",
        ),
        Panel(
            "Requests: ours and reported", "short",
            (
                (gauge("inflight_requests", BY_ENDPOINT), f"{ENDPOINT} ours"),
                (largest("reported_running", BY_ENDPOINT), f"{ENDPOINT} running"),
                (largest("reported_waiting", BY_ENDPOINT), f"{ENDPOINT} waiting"),
            ),
            "Ours are exact, of all routers. What engines report is older, and of all clients.",
        ),
        Panel(
            "Tokens in flight", "short",
            ((gauge("inflight_tokens", BY_ENDPOINT), ENDPOINT),),
            "Ours: prompts to compute and answers to generate.",
        ),
        Panel(
            "KV space in use", "percentunit",
            ((largest("reported_kv_usage_ratio", BY_ENDPOINT), ENDPOINT),),
            "As the engine reports it.",
        ),
        Panel(
            "Age of reports", "s",
            ((largest("reported_age_seconds", BY_ENDPOINT), ENDPOINT),),
            "Since an engine's metrics were last read. Old reports count less in a pick.",
        ),
        Panel(
            "Readings that failed", "reqps",
            ((total("scrape_failures", BY_ENDPOINT, VARIANT), ENDPOINT),),
            "Readings of an engine's metrics.",
        ),
        Panel(
            "Out, simulated, or placed with less than there should be", "short",
            (
                (largest("endpoint_out", BY_ENDPOINT), f"{ENDPOINT} out"),
                (largest("endpoint_degraded", BY_ENDPOINT), f"{ENDPOINT} degraded"),
                (largest("endpoint_simulated", BY_ENDPOINT), f"{ENDPOINT} simulated"),
                (largest("breaker_state", BY_ENDPOINT), f"{ENDPOINT} breaker"),
            ),
            "1: it is so, as any router sees it. Breaker 1: half-open, 2: open. Status says why.",
        ),
        Panel(
            "Endpoints that went out", "reqps",
            ((total("ejections", f"{BY_ENDPOINT}, reason", VARIANT), ENDPOINT + " {{reason}}"),),
            "By reason: unreachable, failures in a row, share of failures, checks.",
        ),
        Panel(
            "Retry budget", "short",
            (
                (gauge("retry_budget", "model", MODEL), "{{model}} left"),
                (total("retries_refused", "model", MODEL), "{{model}} refused/s"),
            ),
            "Retries that may still be paid for, and those that could not be.",
        ),
        Panel(
            "Troubles of discovery", "short",
            ((gauge("discovery_problems", "model", MODEL), "{{model}}"),),
            "What is wrong with where endpoints are learnt from, files or names; status says what.",
        ),
    ),
    "Routers": (
        Panel(
            "Connections of clients", "short",
            (
                (gauge("connections", "instance", ROUTER), "{{instance}}"),
                (grown("connections_refused", "instance"), "{{instance}} beyond the limit"),
                (grown("tls_handshake_failures", "instance"), "{{instance}} failed handshakes"),
            ),
            "Open ones, and those that came to nothing since the last reading or so.",
        ),
        Panel(
            "Configuration and certificates", "short",
            (
                (grown("config_reloads", "instance, result"), "{{instance}} {{result}}"),
                (
                    grown("certificate_reloads", "instance, result"),
                    "{{instance}} certificates {{result}}",
                ),
            ),
            "Reloads; what is refused leaves the old one in force.",
        ),
        Panel(
            "Spans not delivered", "reqps",
            ((total("dropped_spans", "instance", ROUTER), "{{instance}}"),),
            "The collector is away or slow. Requests do not wait for it.",
        ),
        Panel(
            "CPU", "short",
            ((process(f"rate(process_cpu_seconds_total{{{ROUTER}}}[$__rate_interval])"), ONE),),
            "Cores in use.",
        ),
        Panel(
            "Memory", "bytes",
            ((process(f"process_resident_memory_bytes{{{ROUTER}}}"), ONE),),
            "Resident.",
        ),
        Panel(
            "File descriptors", "short",
            (
                (process(f"process_open_fds{{{ROUTER}}}"), f"{ONE} open"),
                (process(f"process_max_fds{{{ROUTER}}}"), f"{ONE} limit"),
            ),
            "Two for each open stream. At the limit no connection is accepted.",
        ),
        Panel(
            "Age", "s",
            ((process(f"(time() - process_start_time_seconds{{{ROUTER}}})"), ONE),),
            "Since the process began. It falls to zero at a restart; the legend tells the version.",
        ),
    ),
}  # fmt: skip


def panel(which: Panel, number: int, x: int, y: int) -> Json:
    """A graph as Grafana stores it."""
    targets = [
        {"datasource": DATASOURCE, "expr": expr, "legendFormat": legend, "refId": chr(65 + index)}
        for index, (expr, legend) in enumerate(which.queries)
    ]
    return {
        "id": number,
        "type": "timeseries",
        "title": which.title,
        "description": which.about,
        "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": which.width, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": which.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}},
        "targets": targets,
    }


def panels() -> list[Json]:
    """All rows with their panels, from left to right and from top to bottom."""
    found: list[Json] = []
    y = 0
    for title, row in ROWS.items():
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        found.append(
            {"id": len(found) + 1, "type": "row", "title": title, "collapsed": False,
             "gridPos": place, "panels": []}
        )  # fmt: skip
        x, y = 0, y + 1
        for each in row:
            if x + each.width > COLUMNS:
                x, y = 0, y + HEIGHT
            found.append(panel(each, len(found) + 1, x, y))
            x += each.width
        y += HEIGHT
    return found


def variable(name: str, label: str, metric: str) -> Json:
    """A choice of several values of a label, at first all."""
    query = f"label_values({metric}, {label})"
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def document() -> Json:
    """The whole dashboard."""
    datasource = {"name": "datasource", "label": "Data source", "type": "datasource"}
    models = f"llmd_router_requests_total{{{ROUTER}}}"
    variants = f"llmd_router_picks_total{{{MODEL}}}"
    return {
        "uid": "llmd-router",
        "title": "llmd-ctl: router",
        "tags": ["llmd-ctl"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {
            "list": [
                {**datasource, "query": "prometheus", "current": {}},
                variable("router", "instance", "llmd_router_build_info"),
                variable("model", "model", models),
                variable("variant", "variant", variants),
            ]
        },
        "panels": panels(),
    }


def text() -> str:
    """The file's text."""
    return json.dumps(document(), indent=1) + "\n"


def main() -> None:
    """Writes the file."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(text())


if __name__ == "__main__":
    main()
