"""Our router in a cluster: a Deployment, its configuration, its Service, and its budget.

Called by `manifests` for the target that the router runs in. The router asks the cluster's DNS for
engines, so it needs no right in the cluster. router.yaml is a ConfigMap of one name: a running
router takes a change over, with all that it has learnt, about a minute after it was applied. Only
what it cannot take over (where it listens, and TLS there) makes new pods, by an annotation.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from llmd_ctl.plan import EndpointTls, Plan, PlannedModel, PlannedVariant, RouterTls
from llmd_ctl.plan.place import Image, Place, PlannedRouter, PlannedTarget
from llmd_ctl.render.addresses import sources_of
from llmd_ctl.render.kubernetes.custom import Backend
from llmd_ctl.render.kubernetes.document import Meta, Object
from llmd_ctl.render.kubernetes.engine import (
    ANY_ADDRESS,
    SLACK_SECONDS,
    digest,
    drain_seconds,
    startup_seconds,
)
from llmd_ctl.render.kubernetes.names import DOMAIN, Names
from llmd_ctl.render.kubernetes.objects import (
    BudgetSpec,
    ConfigMap,
    Deployment,
    DeploymentSpec,
    PodDisruptionBudget,
    Rolling,
    Service,
    ServiceAccount,
    ServicePort,
    ServiceSpec,
    Strategy,
)
from llmd_ctl.render.kubernetes.pod import (
    ENGINE_PORT,
    HOSTNAME,
    HTTP,
    Part,
    all_variables,
    numeric_user,
    on_nodes,
    resources,
    shared_memory,
    variables,
)
from llmd_ctl.render.kubernetes.pods import (
    Capabilities,
    Container,
    ContainerSecurity,
    HttpGet,
    Labels,
    Mount,
    Named,
    PodMeta,
    PodSecurity,
    PodSpec,
    PodTemplate,
    Port,
    Probe,
    Seccomp,
    SecretFiles,
    Spread,
    Volume,
)
from llmd_ctl.render.kubernetes.route import route
from llmd_ctl.render.router import Listen, config_text, model_config
from llmd_ctl.router.config import DnsSource

DATA_PORT, ADMIN_PORT, ADMIN = 8000, 9090, "admin"
FOLDER = "/etc/llmd-ctl"
CONFIG_FILE, KEY_FILE = "router.yaml", "admin.key"
CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"  # as cert-manager and kubectl say
ZONE = "topology.kubernetes.io/zone"
ANY_USER = 65532  # for an image whose user is not known: the router needs no rights
# Nodes take a second or two to hear that a pod is ending, and send requests until then.
QUIET_MS = 5000
MARGIN_SECONDS = 5  # for spans to be handed over, and for the process to end


def router_objects(
    plan: Plan, names: Names, router: PlannedRouter, target: PlannedTarget, after: str = ""
) -> tuple[Object, ...]:
    """All objects of the router. `after` makes a Service's name one that is whole."""
    labels = names.router_labels()
    meta = Meta(names.router, labels)
    selector = Labels(names.fleet_labels("router"))
    return (
        ServiceAccount(meta),
        ConfigMap(meta, {CONFIG_FILE: router_config(plan, names, after)}),
        _deployment(plan, names, router, meta, selector),
        PodDisruptionBudget(meta, BudgetSpec(1, selector)),
        Service(meta, ServiceSpec(selector.match_labels, (_service_port(plan),))),
        *_routes(router, target, meta),
    )


def _routes(router: PlannedRouter, target: PlannedTarget, meta: Meta) -> Iterator[Object]:
    """What a gateway brings to the router, where the fleet names one."""
    if router.gateway is not None:
        backend = Backend(None, "Service", meta.name, port=DATA_PORT)
        yield route(meta, router.gateway, target, (backend,))


def router_config(plan: Plan, names: Names, after: str) -> str:
    """router.yaml: engines by the names of their Services, files where Secrets put them."""
    tls = plan.router_tls
    if tls is not None:
        folder = f"{FOLDER}/{names.router_tls}"
        clients = f"{folder}/{AUTHORITY}" if tls.client_ca_file is not None else None
        tls = RouterTls(f"{folder}/{CERTIFICATE}", f"{folder}/{KEY}", clients)
    home = next(one for one in plan.targets if plan.router and one.name == plan.router.target)
    fixed = sources_of(plan, home)
    models = [
        model_config(
            _with_files(model, names),
            (*fixed.get(model.name, ()), *_sources(model, names, home, after)),
        )
        for model in plan.models
    ]
    listen = Listen(f"{ANY_ADDRESS}:{DATA_PORT}", f"{ANY_ADDRESS}:{ADMIN_PORT}")
    key = f"{FOLDER}/{names.admin_key}/{KEY_FILE}"
    whole = replace(plan, router_tls=tls)
    return config_text(whole, listen, key, models, {"quietMs": quiet_ms(plan)})


def quiet_ms(plan: Plan) -> int:
    """How long no request may have come before a router that is to end stops listening.

    It has to be less than all the time that there is.
    """
    said = plan.resilience.limits.quiet_ms
    return min(QUIET_MS, drain_seconds(plan) * 500) if said is None else said


def _sources(
    model: PlannedModel, names: Names, home: PlannedTarget, after: str
) -> Iterator[DnsSource]:
    """Where the replicas of each variant are: what their Service's name stands for."""
    for variant in model.variants:
        if variant.place is not None and variant.target == home.name:
            yield DnsSource(names.engine(model, variant) + after, ENGINE_PORT, variant.name)


def _with_files(model: PlannedModel, names: Names) -> PlannedModel:
    """A model whose endpoints that run already have their certificates where a Secret puts them."""
    return replace(
        model,
        variants=tuple(
            replace(one, endpoint_tls=_in_secret(one.endpoint_tls, names.endpoint_tls(model, one)))
            if one.endpoint_tls is not None
            else one
            for one in model.variants
        ),
    )


def _in_secret(tls: EndpointTls, secret: str) -> EndpointTls:
    said = {"ca_file": AUTHORITY, "cert_file": CERTIFICATE, "key_file": KEY}
    return replace(
        tls,
        **{
            field: f"{FOLDER}/{secret}/{file}"
            for field, file in said.items()
            if getattr(tls, field) is not None
        },
    )


def _has_files(variant: PlannedVariant) -> bool:
    tls = variant.endpoint_tls
    return tls is not None and (tls.ca_file is not None or tls.cert_file is not None)


def _secrets(plan: Plan, names: Names) -> Iterator[str]:
    """The Secrets that the router reads as files; users make them."""
    yield names.admin_key
    if plan.router_tls is not None:
        yield names.router_tls
    for model in plan.models:
        for variant in model.variants:
            if _has_files(variant):
                yield names.endpoint_tls(model, variant)


def _service_port(plan: Plan) -> ServicePort:
    protocol = "https" if plan.router_tls is not None else "http"
    return ServicePort(HTTP, DATA_PORT, HTTP, protocol)


def _deployment(
    plan: Plan, names: Names, router: PlannedRouter, meta: Meta, selector: Labels
) -> Deployment:
    place = router.place or Place()
    parts = tuple(_parts(plan, names, place))
    listening = f"{DATA_PORT} {ADMIN_PORT} {_tls_of(plan)}"
    template = PodTemplate(
        PodMeta(meta.labels, {f"{DOMAIN}/listen": digest(listening)}),
        on_nodes(_pod(plan, router, place, parts, names.router, selector), place.nodes),
    )
    # Routers are ready once some model has an endpoint, so their pods wait for the first engine.
    starts = [startup_seconds(v) for m in plan.models for v in m.variants if v.place is not None]
    spec = DeploymentSpec(
        selector=selector,
        template=template,
        strategy=Strategy(Rolling(1, 0)),
        replicas=router.replicas,
        progress_deadline_seconds=min(starts, default=0) + SLACK_SECONDS,
    )
    return Deployment(meta, spec)


def _tls_of(plan: Plan) -> str:
    tls = plan.router_tls
    return "plain" if tls is None else "mutual" if tls.client_ca_file is not None else "tls"


def _pod(
    plan: Plan,
    router: PlannedRouter,
    place: Place,
    parts: tuple[Part, ...],
    account: str,
    selector: Labels,
) -> PodSpec:
    user = numeric_user(place) or ANY_USER
    container = Container(
        name="router",
        image=(place.image or Image("")).pinned,
        command=("llmd-router", "--config", f"{FOLDER}/router/{CONFIG_FILE}"),
        env=variables(router.env, place.secrets),
        env_from=all_variables(place.secrets),
        ports=(Port(HTTP, DATA_PORT), Port(ADMIN, ADMIN_PORT)),
        resources=resources(place.container, place.accelerators),
        readiness_probe=Probe(HttpGet("/readyz", ADMIN), 2, 2, 2),
        liveness_probe=Probe(HttpGet("/healthz", ADMIN), 10, 3),
        security_context=ContainerSecurity(
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            capabilities=Capabilities(drop=("ALL",)),
        ),
        volume_mounts=tuple(part.mount for part in parts),
    )
    return PodSpec(
        containers=(container,),
        service_account_name=account,
        termination_grace_period_seconds=drain_seconds(plan)
        + -(-quiet_ms(plan) // 1000)
        + MARGIN_SECONDS,
        security_context=PodSecurity(
            run_as_non_root=True,
            run_as_user=user,
            run_as_group=user,
            fs_group=user,
            seccomp_profile=Seccomp("RuntimeDefault"),
        ),
        topology_spread_constraints=tuple(
            Spread(1, key, "ScheduleAnyway", selector) for key in (HOSTNAME, ZONE)
        ),
        volumes=tuple(part.volume for part in parts),
    )


def _parts(plan: Plan, names: Names, place: Place) -> Iterator[Part]:
    volume = Volume("config", config_map=Named(names.router))
    yield Part(volume, Mount("config", f"{FOLDER}/router", read_only=True))
    for number, secret in enumerate(_secrets(plan, names)):
        name = f"secret-{number}"
        volume = Volume(name, secret=SecretFiles(secret))
        yield Part(volume, Mount(name, f"{FOLDER}/{secret}", read_only=True))
    yield from shared_memory(place.container.shm_bytes)
