"""The endpoint picker of one InferencePool: llm-d's own program, its configuration and rights.

Called by `llm_d`. Of several replicas one leads and the others wait, so that all prefixes are known
in one place; those that wait are never ready, so a rollout starts anew instead of one by one.
"""

from __future__ import annotations

from typing import Any

from llmd_ctl.plan import PlannedModel
from llmd_ctl.plan.place import Place, PlannedRouter
from llmd_ctl.render.kubernetes.custom import Right, Role, RoleBinding, RoleRef, Subject
from llmd_ctl.render.kubernetes.document import Meta, Object, dumped
from llmd_ctl.render.kubernetes.engine import SLACK_SECONDS, digest
from llmd_ctl.render.kubernetes.names import DOMAIN, Names
from llmd_ctl.render.kubernetes.objects import (
    ConfigMap,
    Deployment,
    DeploymentSpec,
    Service,
    ServiceAccount,
    ServicePort,
    ServiceSpec,
    Strategy,
)
from llmd_ctl.render.kubernetes.pod import on_nodes, variables
from llmd_ctl.render.kubernetes.pods import (
    Capabilities,
    Container,
    ContainerSecurity,
    FieldRef,
    GrpcProbe,
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
    ValueFrom,
    Variable,
    Volume,
)

GRPC, GRPC_PORT = "grpc", 9002
HEALTH_PORT = 9003
METRICS, METRICS_PORT = "metrics", 9090
CONFIG_MOUNT, CONFIG_FILE = "/config", "picker.yaml"
DRAIN_SECONDS = 130  # longer than a gateway needs to see that it ends (llm-d's chart)
READ = ("get", "list", "watch")
RIGHTS = (
    Right(("",), ("pods",), READ),
    Right(("inference.networking.k8s.io",), ("inferencepools",), READ),
    Right(("llm-d.ai",), ("inferenceobjectives", "inferencemodelrewrites"), READ),
)
LEADING = (
    Right(("coordination.k8s.io",), ("leases",), (*READ, "create", "update", "patch", "delete")),
    Right(("",), ("events",), ("create", "patch")),
)


def picker_objects(
    names: Names,
    router: PlannedRouter,
    pool: str,
    labels: dict[str, str],
    model: PlannedModel,
    *,
    apart: bool,
) -> tuple[Object, ...]:
    """All objects of a pool's picker. `apart`: prompts are read elsewhere than answers written."""
    name = names.picker(pool)
    selector = {**names.fleet_labels("router"), f"{DOMAIN}/pool": pool}
    meta = Meta(name, {**names.router_labels(), **labels, f"{DOMAIN}/pool": pool})
    config = dumped(apart_config(model) if apart else plain_config())
    rights = (*RIGHTS, *(LEADING if router.replicas > 1 else ()))
    return (
        ServiceAccount(meta),
        Role(meta, rights),
        RoleBinding(meta, RoleRef(name), (Subject(name),)),
        ConfigMap(meta, {CONFIG_FILE: config}),
        Deployment(meta, _deployment(router, meta, pool, config, Labels(selector))),
        Service(
            meta,
            ServiceSpec(selector, (ServicePort(GRPC, GRPC_PORT, GRPC, "kubernetes.io/h2c"),)),
        ),
    )


def plain_config() -> dict[str, Any]:
    """As llm-d weighs without a word of configuration, and counts what is at each endpoint."""
    plugins = ("queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer")
    scored = [(name, weight) for name, weight in zip(plugins, (2, 2, 3), strict=True)]
    return _config(
        [{"type": name} for name in (*plugins, "max-score-picker", "inflight-load-producer")],
        {"default": [("max-score-picker", None), *scored]},
    )


def apart_config(model: PlannedModel) -> dict[str, Any]:
    """Prompts are read elsewhere where enough of them is not cached yet."""
    least = model.disaggregation.min_prompt_tokens if model.disaggregation else 0
    decider = "prefix-based-pd-decider"
    plugins: list[dict[str, Any]] = [
        {"type": name}
        for name in (
            "prefill-filter", "decode-filter", "queue-scorer", "prefix-cache-scorer",
            "max-score-picker", "inflight-load-producer",
        )
    ]  # fmt: skip
    plugins.append({"type": decider, "parameters": {"nonCachedTokens": least}})
    handler = {"deciders": {"prefill": decider}}
    plugins.append({"type": "disagg-profile-handler", "parameters": handler})
    scored = [("max-score-picker", None), ("prefix-cache-scorer", 2), ("queue-scorer", 1)]
    return _config(
        plugins, {role: [(f"{role}-filter", None), *scored] for role in ("prefill", "decode")}
    )


def _config(
    plugins: list[dict[str, Any]], profiles: dict[str, list[tuple[str, int | None]]]
) -> dict[str, Any]:
    return {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": plugins,
        "schedulingProfiles": [
            {
                "name": name,
                "plugins": [
                    {"pluginRef": ref} if weight is None else {"pluginRef": ref, "weight": weight}
                    for ref, weight in used
                ],
            }
            for name, used in profiles.items()
        ],
    }


def _deployment(
    router: PlannedRouter, meta: Meta, pool: str, config: str, selector: Labels
) -> DeploymentSpec:
    place = router.place or Place()
    pod = PodSpec(
        containers=(_container(router, place, pool),),
        service_account_name=meta.name,
        automount_service_account_token=True,  # it watches pods and its pool
        termination_grace_period_seconds=DRAIN_SECONDS,
        security_context=PodSecurity(
            run_as_non_root=True, seccomp_profile=Seccomp("RuntimeDefault")
        ),
        volumes=(Volume("config", config_map=Named(meta.name)),),
    )
    return DeploymentSpec(
        selector=selector,
        template=PodTemplate(
            # It reads its configuration once.
            PodMeta(meta.labels, {f"{DOMAIN}/config": digest(config)}),
            on_nodes(pod, place.nodes),
        ),
        strategy=Strategy(None, "Recreate"),
        progress_deadline_seconds=SLACK_SECONDS,
        replicas=router.replicas,
    )


def _container(router: PlannedRouter, place: Place, pool: str) -> Container:
    lead = ("--ha-enable-leader-election",) if router.replicas > 1 else ()
    services = ("readiness", "liveness") if lead else ("inference-extension",) * 2
    here = ValueFrom(field_ref=FieldRef("metadata.namespace"))
    this = ValueFrom(field_ref=FieldRef("metadata.name"))
    return Container(
        name="picker",
        image=place.image.pinned if place.image else "",
        args=(
            "--pool-name", pool,
            "--pool-namespace", "$(NAMESPACE)",
            "--pool-group", "inference.networking.k8s.io",
            "--config-file", f"{CONFIG_MOUNT}/{CONFIG_FILE}",
            "--grpc-port", str(GRPC_PORT),
            "--grpc-health-port", str(HEALTH_PORT),
            "--metrics-port", str(METRICS_PORT),
            "--metrics-endpoint-auth=false",
            "--tracing=false",
            *lead,
        ),
        env=(
            Variable("NAMESPACE", value_from=here),
            Variable("POD_NAME", value_from=this),
            *variables(router.env, ()),
        ),
        ports=(Port(GRPC, GRPC_PORT), Port("health", HEALTH_PORT), Port(METRICS, METRICS_PORT)),
        readiness_probe=Probe(None, 2, 3, grpc=GrpcProbe(HEALTH_PORT, services[0])),
        liveness_probe=Probe(None, 10, 3, grpc=GrpcProbe(HEALTH_PORT, services[1])),
        security_context=ContainerSecurity(
            allow_privilege_escalation=False, capabilities=Capabilities(drop=("ALL",))
        ),
        volume_mounts=(Mount("config", CONFIG_MOUNT, read_only=True),),
    )  # fmt: skip
