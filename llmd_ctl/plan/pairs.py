"""The prefill and decode variants of a model against the rules of pairs.

Called by `planner` when all variants of a model are planned, since what fits decides how many ways
each side is split. The rules are `profiles.rules.pairs`; here they get their lines, and what they
find gets its place in the fleet file. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from llmd_ctl.plan.line import line_of, place_of
from llmd_ctl.plan.place import Disaggregation
from llmd_ctl.plan.records import PlannedVariant
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.plan.scene import Ready
from llmd_ctl.profiles.rules.pair import Pair, PairFinding, Side
from llmd_ctl.profiles.rules.pairs import check_pair
from llmd_ctl.spec import fleet as spec
from llmd_ctl.spec.placement import Disaggregation as Said

BOTH = "both"
# What the other role's replicas do then (llm-d-inference-scheduler docs/disagg_pd.md).
ALONE = {
    "prefill": "those that decode read the prompts too, and hand nothing over",
    "decode": "nothing answers, as prompts alone are read",
}


class Half(Struct, frozen=True):
    """A variant of a model with roles: its words, and what was planned of them."""

    ready: Ready
    planned: PlannedVariant

    @property
    def is_judged(self) -> bool:
        """Whether an engine runs there that rules know: no simulated one of the fleet's own."""
        return not self.ready.chosen.is_simulated

    @property
    def runs(self) -> bool:
        """Whether it has replicas, or may get some."""
        return self.planned.replicas > 0 or self.ready.variant.autoscale is not None

    def at(self, key: str) -> Path:
        """Where the variant says something."""
        return (*self.ready.path, key)

    def side(self, uri: str) -> Side:
        """As rules see it."""
        place = self.planned.place
        image = place.image if place is not None else None
        return Side(line_of(self.ready, uri), None if image is None else image.pinned)


def join(model: spec.Model, halves: Sequence[Half], report: Report) -> Disaggregation | None:
    """What joins the replicas of a model; None where nothing is handed over.

    Reported is what is wrong between each prefill and each decode variant, and who has no part.
    """
    if all(half.planned.role == BOTH for half in halves):
        return None
    for half in halves:
        if half.planned.role == BOTH:
            message = f"{half.planned.name} has no role beside variants that have one"
            report.add("LC3063", message, (*half.ready.path, "accelerator"))
    _tell_idle(halves, report)
    _judge(model, halves, report)
    transfer = next((half.ready.transfer for half in halves if half.ready.transfer), None)
    if transfer is None:
        return None
    said = model.disaggregation or Said()
    return Disaggregation(transfer.connector, transfer.transport, said.min_prompt_tokens)


def _tell_idle(halves: Sequence[Half], report: Report) -> None:
    """Warn of a role that nothing has, while replicas of the other role run."""
    running = {half.planned.role for half in halves if half.runs}
    for half in halves:
        role = half.planned.role
        if role in running or half.runs or not running or role not in ALONE:
            continue
        report.warn("LC3066", f"no replica has the role {role}: {ALONE[role]}", half.at("replicas"))


def _judge(model: spec.Model, halves: Sequence[Half], report: Report) -> None:
    judged = [half for half in halves if half.is_judged]
    for prefill in judged:
        for decode in judged:
            if (prefill.planned.role, decode.planned.role) == ("prefill", "decode"):
                pair = _pair(model, prefill, decode)
                for finding in check_pair(pair):
                    _tell(finding, prefill, decode, report)


def _pair(model: spec.Model, prefill: Half, decode: Half) -> Pair:
    said = model.disaggregation.connector if model.disaggregation is not None else None
    known = prefill.ready.transfer or prefill.ready.chosen.on.transfer  # simulated: as it would be
    connector = said or (known.connector if known is not None else None)
    return Pair(prefill.side(model.uri), decode.side(model.uri), connector)


def _tell(finding: PairFinding, prefill: Half, decode: Half, report: Report) -> None:
    half = prefill if finding.rule.on == "prefill" else decode
    names = f"{prefill.planned.name} and {decode.planned.name}"
    report.add(
        "LC3040" if finding.rule.severity == "error" else "LC3041",
        f"{finding.rule.id}: {names}: {finding.message}",
        place_of(half.ready, (finding.at, *finding.rule.at)),
        allowed=finding.allowed,
        hint=finding.remedy,
        severity=finding.rule.severity,
    )
