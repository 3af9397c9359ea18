"""Apply: make a plan the desired revision and wait until it answers through the router.

Called by the command line with a plan that has been checked. It writes desired.json, sees to it
that a controller runs and follows it; it starts and stops no engine itself. Interrupted or killed
anywhere, the same call again goes on from where things are.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.apply.changes import Change, compare
from llmd_ctl.apply.events import (
    ApplyEvent,
    DocumentSetAside,
    EndpointAnswered,
    EndpointSilent,
    Listen,
    ModelAnswered,
    NothingChanged,
    RevisionDesired,
)
from llmd_ctl.apply.failure import Baseline, failed_parts, interrupted, timed_out, unanswered
from llmd_ctl.apply.lock import COMMAND_LOCK, hold
from llmd_ctl.apply.machine import Machine
from llmd_ctl.apply.patience import Patience
from llmd_ctl.apply.program import missing_programs
from llmd_ctl.apply.records import Desired, Observed
from llmd_ctl.apply.state import StateFolder, Unreadable, desired_plan
from llmd_ctl.apply.supervisor import POLL_SECONDS, Supervisor
from llmd_ctl.errors import ApplyFailed, DoesNotFit, Problem
from llmd_ctl.plan import Plan, PlannedModel
from llmd_ctl.render import external_name, replica_specs
from llmd_ctl.router.answer import Answer

# Beyond what the engines' own start-up times allow: the backstop for a controller that hangs.
SLACK_SECONDS = 60.0
DRAIN_SECONDS = 45.0
PROBE_SECONDS = 15.0
ANSWER_SECONDS = 120.0  # one token of a large model on a slow engine, after a cold start
LEAST_ANSWER_SECONDS = 2.0
ASKED_API = "completions"


class ApplyResult(Struct, frozen=True):
    """What was reached. URLs are None when nobody waited.

    `simulated`: the variants (MODEL/VARIANT) with simulated engines, as planned or as their
    endpoints said when they were asked.
    """

    revision: int
    changes: tuple[Change, ...]
    waited: bool
    url: str | None
    admin_url: str | None
    simulated: tuple[str, ...] = ()


LOCAL = "local"  # the kind of target that is this machine


class Applying(Struct, frozen=True):
    """One apply at work."""

    plan: Plan
    folder: StateFolder
    machine: Machine
    supervisor: Supervisor
    listen: Listen
    python: str


def apply_plan(
    plan: Plan,
    folder: StateFolder,
    machine: Machine,
    python: str,
    listen: Listen,
    *,
    wait: bool = True,
    timeout_seconds: float | None = None,
) -> ApplyResult:
    """Apply a plan. Raises Locked, ApplyFailed or Interrupted, which say how things stand."""
    _refuse_shared_devices(plan)
    _refuse_elsewhere(plan)
    said: set[str] = set()

    def hear(event: ApplyEvent) -> None:
        if isinstance(event, EndpointAnswered) and event.simulated:
            said.add(event.endpoint)
        listen(event)

    folder.prepare()
    with hold(folder, COMMAND_LOCK, machine, "apply"):
        supervisor = Supervisor(folder, machine, python, hear)
        work = Applying(plan, folder, machine, supervisor, hear, python)
        patience: Patience | None = None
        try:
            before = supervisor.observed()
            _refuse_missing_programs(work, before)
            revision, changes = _desire(work)
            if before is not None and before.converged and before.revision == revision:
                supervisor.ensure(retry=False)
            else:
                supervisor.renew()  # something starts: in the environment of this command
            if not wait:
                return _result(work, revision, changes, said, None)
            limit = _limit(work, before) if timeout_seconds is None else timeout_seconds
            patience = Patience.begin(machine.clock, limit)
            observed = _wait(work, revision, Baseline.of(before), patience)
            return _result(work, revision, changes, said, observed)
        except KeyboardInterrupt:
            raise interrupted(folder, plan, patience) from None


def _result(
    work: Applying,
    revision: int,
    changes: tuple[Change, ...],
    said: set[str],
    observed: Observed | None,
) -> ApplyResult:
    """`said`: the endpoints whose answers said that they are simulated."""
    told = {owner for name, owner in _owners(work).items() if name in said}
    simulated = [
        f"{model.name}/{variant.name}"
        for model in work.plan.models
        for variant in model.variants
        if variant.simulated or (model.name, variant.name) in told
    ]
    router = observed.router if observed is not None else None
    return ApplyResult(
        revision,
        changes,
        waited=observed is not None,
        url=router.url if router else None,
        admin_url=router.admin_url if router else None,
        simulated=tuple(simulated),
    )


def _refuse_shared_devices(plan: Plan) -> None:
    """A plan may be looked at with this warning; carried out, it would not be what it says."""
    shared = [replace(p, severity="error") for p in plan.warnings if p.code == "LC3023"]
    if shared:
        raise DoesNotFit(shared)


def _refuse_elsewhere(plan: Plan) -> None:
    """Only this machine is carried out; simulated engines run here, whatever they stand for."""
    kinds = {target.name: target.kind for target in plan.targets}
    problems = []
    for model in plan.models:
        for variant in model.variants:
            if variant.target is None or kinds.get(variant.target, LOCAL) == LOCAL:
                continue
            title = f"{model.name}/{variant.name}"
            if variant.role != "both":
                message = f"{title} has the role {variant.role}, which nothing here carries out"
                problems.append(Problem("LC4012", message, found=variant.role))
            elif not variant.simulated:
                kind = kinds[variant.target]
                message = f"{title} is for target {variant.target} ({kind}), which is rendered only"
                problems.append(Problem("LC4012", message, found=kind, allowed=(LOCAL,)))
    if problems:
        raise DoesNotFit(problems)


def _refuse_missing_programs(work: Applying, before: Observed | None) -> None:
    """What cannot start is told before anything is changed, and not after failed starts."""
    layout, processes = work.folder.layout, work.machine.processes
    found = missing_programs(work.plan, layout, work.python, processes, running=_ready(before))
    if found:
        raise DoesNotFit(found)


def latest_desired(folder: StateFolder, listen: Listen) -> Desired | None:
    """The desired revision; an unreadable one is set aside and the history's newest counts."""
    try:
        return folder.desired()
    except Unreadable as error:
        kept = folder.set_aside(error.path)
        listen(DocumentSetAside(str(error), str(kept)))
    for revision in reversed(folder.revisions()):
        try:
            past = folder.past(revision)
        except Unreadable:
            continue
        if past is not None:
            return replace(past, revision=folder.revisions()[-1])
    return None


def _desire(work: Applying) -> tuple[int, tuple[Change, ...]]:
    """Write the next revision, unless this very plan is desired already."""
    desired = latest_desired(work.folder, work.listen)
    document = work.plan.to_json()
    on_disk = work.folder.desired() is not None  # else it was set aside: write it anew
    if desired is not None and desired.plan == document and on_disk:
        work.listen(NothingChanged(desired.revision))
        return desired.revision, ()
    changes = compare(desired_plan(desired), work.plan, running=None)
    revision = desired.revision + 1 if desired is not None else 1
    work.folder.write_desired(Desired(revision, deleted=False, plan=document))
    work.listen(RevisionDesired(revision, changes))
    return revision, changes


def _wait(work: Applying, revision: int, baseline: Baseline, patience: Patience) -> Observed:
    """Until all of the revision runs and answers; a failure that won't pass ends it early."""
    told: dict[str, str] = {}
    while True:
        observed = work.supervisor.seen_now()
        if observed is not None and observed.revision == revision:
            problems = failed_parts(work.folder, work.plan, observed, baseline)
            if problems:
                raise ApplyFailed(problems)
            if observed.converged:
                _prove(work, observed, told, patience)
                if not patience.silent:
                    return observed
                if patience.is_over:
                    raise unanswered(work.folder, revision, patience)
        if patience.is_over:
            raise timed_out(work.folder, work.plan, revision, observed, patience)
        work.supervisor.ensure(retry=False)
        work.machine.clock.sleep(POLL_SECONDS)


def _prove(work: Applying, observed: Observed, told: dict[str, str], patience: Patience) -> None:
    """Ask every endpoint, then every model, for one token; who doesn't answer is in `patience`.

    `told` holds what was said of each endpoint, over all rounds: nothing is said twice.
    """
    if observed.router is None:
        patience.note("router", "has no address")
        return
    patience.answered("router")
    waiting = {endpoint: model for endpoint, (model, _) in _owners(work).items()}
    clock, network = work.machine.clock, work.machine.network
    key = work.folder.admin_key() or ""
    round_ends = clock.monotonic() + PROBE_SECONDS
    while waiting:
        for endpoint, served in list(waiting.items()):
            seconds = _patient(patience)
            if endpoint not in patience.silent:
                patience.note(endpoint)
            answer = network.probe(observed.router.admin_url, key, served, endpoint, seconds)
            if answer.ok:
                patience.answered(endpoint)
                del waiting[endpoint]
                event = EndpointAnswered(served, endpoint, answer.latency_ms, answer.simulated)
                _tell_once(work, told, event, "")
            else:
                patience.note(endpoint, answer.reason)
        if waiting and (clock.monotonic() >= round_ends or patience.is_over):
            for endpoint, served in waiting.items():
                one = patience.silent[endpoint]
                silent = EndpointSilent(
                    served, endpoint, one.reason, one.since_wall, patience.until_wall
                )
                _tell_once(work, told, silent, one.reason)
            return
        if waiting:
            clock.sleep(POLL_SECONDS)
    _prove_models(work, observed.router.url, patience)


def _patient(patience: Patience) -> float:
    """How long one question may take: not beyond the limit of all of it, but never no time."""
    return min(ANSWER_SECONDS, max(LEAST_ANSWER_SECONDS, patience.left_seconds))


def _tell_once(
    work: Applying, told: dict[str, str], event: EndpointAnswered | EndpointSilent, reason: str
) -> None:
    if told.get(event.endpoint) != reason:
        told[event.endpoint] = reason
        work.listen(event)


def _prove_models(work: Applying, url: str, patience: Patience) -> None:
    """Ask each model as its users do, as far as one without a certificate can."""
    network, tls = work.machine.network, work.plan.router_tls
    if tls is not None and tls.client_ca_file is not None:
        answer = network.shake_hands(url, tls.cert_file)
        _hear(patience, "the router's port", answer)
        return
    certificate = tls.cert_file if tls else None
    for model in work.plan.models:
        if _answers_users(model):
            answer = network.complete(url, model.name, certificate, _patient(patience))
            _hear(patience, f"model {model.name}", answer)
            if not answer.ok:
                return
            work.listen(ModelAnswered(model.name, answer.latency_ms, answer.simulated))


def _hear(patience: Patience, name: str, answer: Answer) -> None:
    if answer.ok:
        patience.answered(name)
    else:
        patience.note(name, answer.reason)


def _owners(work: Applying) -> dict[str, tuple[str, str]]:
    """Model and variant of each endpoint, for replicas and for what runs already."""
    specs = replica_specs(work.plan, work.folder.layout, work.python)
    external = {
        external_name(model, variant): (model.name, variant.name)
        for model in work.plan.models
        for variant in model.variants
        if variant.endpoint_url is not None
    }
    return {spec.name: (spec.model, spec.variant) for spec in specs} | external


def _answers_users(model: PlannedModel) -> bool:
    """Whether it completes texts: of other APIs the endpoints were asked, which is all there is."""
    return any(
        (variant.endpoint_url is not None or variant.replicas > 0)
        and (variant.apis is None or ASKED_API in variant.apis)
        for variant in model.variants
    )


def _limit(work: Applying, before: Observed | None) -> float:
    """How long everything may take: what isn't up yet starts one after another at worst."""
    specs = replica_specs(work.plan, work.folder.layout, work.python)
    starting = [spec for spec in specs if spec.name not in _ready(before)]
    router = (work.plan.resilience.limits.drain_ms or 0) / 1_000  # it may have to start again
    engines = sum(spec.startup_seconds + DRAIN_SECONDS for spec in starting)
    return SLACK_SECONDS + router + engines


def _ready(before: Observed | None) -> set[str]:
    """The replicas that need no start."""
    records = before.replicas if before is not None else ()
    return {record.name for record in records if record.state == "ready"}
