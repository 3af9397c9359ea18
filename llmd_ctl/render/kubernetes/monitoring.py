"""What Prometheus reads, and when it wakes somebody: PodMonitors and PrometheusRules.

Called by `manifests`, for the operator of prometheus-operator. Alerts are for promises only: each
follows how fast a model uses up the share of requests that may be slower than its slo says, over a
long window and a short one, so that it neither fires for a spike nor goes on after the end. Every
alert has a page in docs/runbooks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct

from llmd_ctl.plan import Plan, PlannedModel, Slo
from llmd_ctl.plan.place import PlannedTarget
from llmd_ctl.render.kubernetes.custom import (
    MetricsEndpoint,
    MonitorSpec,
    PodMonitor,
    PrometheusRule,
    Relabeling,
    Rule,
    RuleGroup,
    RulesSpec,
)
from llmd_ctl.render.kubernetes.document import Meta, Object
from llmd_ctl.render.kubernetes.names import DOMAIN, ENGINE, ROUTER, Names
from llmd_ctl.render.kubernetes.picker import METRICS
from llmd_ctl.render.kubernetes.pod import HTTP
from llmd_ctl.render.kubernetes.pods import Labels
from llmd_ctl.render.kubernetes.router import ADMIN

RUNBOOKS = "https://github.com/llmd-ctl/llmd-ctl/blob/main/docs/runbooks"
LLM_D = "llm-d"
# The bounds of the router's histograms of seconds (llmd-router, metrics.rs); a test compares them.
BOUNDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
MICROSECONDS = 1_000_000
MOST = 0.9  # of requests: a wide promise is broken for good before its budget burns so fast


class Pace(Struct, frozen=True):
    """Budgets of 30 days, burnt so many times too fast, over a long and a short window."""

    severity: str
    factor: float
    long: str
    short: str
    lasting: str


# Of the budget of 30 days: a fiftieth within an hour, a tenth within six (Google's SRE workbook).
PACES = (
    Pace("critical", 14.4, "1h", "5m", "2m"),
    Pace("warning", 6.0, "6h", "30m", "15m"),
)


class Promise(Struct, frozen=True):
    """One bound of a model's slo."""

    alert: str
    page: str
    metric: str
    what: str
    bound_us: int
    percentile: int


def monitoring_objects(
    plan: Plan, names: Names, target: PlannedTarget, *, engines: bool
) -> tuple[Object, ...]:
    """What is read and watched of a target; `engines`: some run there."""
    found: list[Object] = []
    if engines:
        found.append(_engines(names))
    router = plan.router
    if router is not None and router.target == target.name:
        found.append(_router(plan, names, METRICS if router.kind == LLM_D else ADMIN))
        rules = () if router.kind == LLM_D else tuple(_groups(plan))
        if rules:
            meta = Meta(names.router, names.router_labels())
            found.append(PrometheusRule(meta, RulesSpec(rules)))
    return tuple(found)


def _engines(names: Names) -> PodMonitor:
    """Engines, with the labels that tell whose they are."""
    labels = tuple(f"{DOMAIN}/{name}" for name in ("fleet", "model", "variant"))
    selector = Labels(names.fleet_labels(ENGINE))
    return PodMonitor(
        Meta(names.engines, names.shared_labels()),
        MonitorSpec(selector, (MetricsEndpoint(HTTP),), labels),
    )


def _router(plan: Plan, names: Names, port: str) -> PodMonitor:
    """The router, whose series do not say by themselves of which fleet they are."""
    fleet = Relabeling("fleet", plan.fleet)
    return PodMonitor(
        Meta(names.router, names.router_labels()),
        MonitorSpec(
            Labels(names.fleet_labels(ROUTER)), (MetricsEndpoint(port, relabelings=(fleet,)),)
        ),
    )


def _groups(plan: Plan) -> Iterator[RuleGroup]:
    for model in plan.models:
        rules = tuple(
            _rule(plan, model, promise, pace)
            for promise in _promises(model.slo or Slo())
            for pace in PACES
        )
        if rules:
            yield RuleGroup(f"{plan.fleet}-{model.name}-slo", rules)


def _promises(slo: Slo) -> Iterator[Promise]:
    if slo.ttft_us is not None and slo.ttft_percentile is not None:
        yield Promise(
            "LlmdFirstTokenLate", "first-token-late", "time_to_first_token", "first tokens",
            slo.ttft_us, slo.ttft_percentile,
        )  # fmt: skip
    if slo.itl_us is not None and slo.itl_percentile is not None:
        yield Promise(
            "LlmdTokensSlow", "tokens-slow", "inter_token_latency", "tokens",
            slo.itl_us, slo.itl_percentile,
        )  # fmt: skip


def _rule(plan: Plan, model: PlannedModel, promise: Promise, pace: Pace) -> Rule:
    budget = (100 - promise.percentile) / 100
    most = min(pace.factor * budget, MOST)
    both = [
        f"({_late(plan, model, promise, window)}) > {most:g}" for window in (pace.long, pace.short)
    ]
    bound = f"{promise.bound_us / 1000:g} ms"
    return Rule(
        alert=promise.alert,
        expr=" and ".join(both),
        for_=pace.lasting,
        labels={"severity": pace.severity, "fleet": plan.fleet, "model": model.name},
        annotations={
            "summary": f"{model.name}: more than {most * 100:g} % of {promise.what} take longer "
            f"than {bound}, which {promise.percentile} % are promised to keep",
            "runbook_url": f"{RUNBOOKS}/{promise.page}.md",
        },
    )


def _late(plan: Plan, model: PlannedModel, promise: Promise, window: str) -> str:
    """The share that took longer than was promised; between two bounds it is taken as even."""
    name = f"llmd_router_{promise.metric}_seconds"
    seconds = promise.bound_us / MICROSECONDS
    at = bisect_left(BOUNDS, seconds)

    def rate(series: str, **labels: str) -> str:
        chosen = {"fleet": plan.fleet, "model": model.name, **labels}
        selector = ",".join(f'{key}="{value}"' for key, value in chosen.items())
        return f"sum(rate({name}_{series}{{{selector}}}[{window}]))"

    upper = _bucket(at)
    if at < len(BOUNDS) and BOUNDS[at] != seconds:
        lowest = BOUNDS[at - 1] if at else 0.0
        share = (seconds - lowest) / (BOUNDS[at] - lowest)
        kept = f"{share:.4g} * {rate('bucket', le=upper)}"
        if at:
            kept += f" + {1 - share:.4g} * {rate('bucket', le=_bucket(at - 1))}"
    else:
        kept = rate("bucket", le=upper)
    return f"1 - ({kept}) / {rate('count')}"


def _bucket(index: int) -> str:
    """The label of a bucket, as the router writes it; beyond the last one, what is not known."""
    return str(BOUNDS[min(index, len(BOUNDS) - 1)])
