"""What everything is called in a cluster, and the labels by which it is found.

Used by every module here. A name is `FLEET-MODEL-VARIANT`; where that is too long, or two variants
of the fleet would share it, a digest of the three ends it. It stays the same as long as they do, so
that applying again changes what is there. Labels carry whole names, so selectors need no digest.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from llmd_ctl.plan import Plan, PlannedModel, PlannedVariant

# LeaderWorkerSets add up to 19 characters to a name, and labels hold 63: `-hosts`, then what their
# StatefulSets and the hash of a revision add.
LONGEST = 44
DIGEST = 6
DOMAIN = "llmd-ctl.dev"
LLM_D = "llm-d.ai"
ENGINE, ROUTER = "engine", "router"
CLUSTER_DOMAIN = "cluster.local"  # Kubernetes' own default
SERVING = f"{DOMAIN}/serving"


class Names(Struct, frozen=True):
    """The names of one fleet. Make it with `of`."""

    fleet: str
    shared: frozenset[str]  # what more than one variant would be called

    @classmethod
    def of(cls, plan: Plan) -> Names:
        """The names of a plan."""
        joined = Counter(
            f"{model.name}-{variant.name}" for model in plan.models for variant in model.variants
        )
        return cls(plan.fleet, frozenset(name for name, count in joined.items() if count > 1))

    @property
    def router(self) -> str:
        """The router and all that belongs to it alone; its Service is where users go."""
        return _fitting((self.fleet, ROUTER), exact=True)

    @property
    def engines(self) -> str:
        """What all engines of the fleet share."""
        return _fitting((self.fleet, "engines"), exact=True)

    @property
    def admin_key(self) -> str:
        """The Secret with the router's key, which users make."""
        return f"{self.router}-admin"

    @property
    def router_tls(self) -> str:
        """The Secret with the router's certificate, which users make."""
        return f"{self.router}-tls"

    def engine(self, model: PlannedModel, variant: PlannedVariant) -> str:
        """A variant: its headless Service has this name."""
        exact = f"{model.name}-{variant.name}" not in self.shared
        return _fitting((self.fleet, model.name, variant.name), exact=exact)

    def workload(self, model: PlannedModel, variant: PlannedVariant) -> str:
        """What runs a variant. LeaderWorkerSets make a Service of their own name themselves."""
        name = self.engine(model, variant)
        return f"{name}-hosts" if variant.place and variant.place.hosts > 1 else name

    def endpoint_tls(self, model: PlannedModel, variant: PlannedVariant) -> str:
        """The Secret with the certificates of an endpoint that runs already, which users make."""
        return f"{self.engine(model, variant)}-tls"

    def joined(self, model: PlannedModel) -> str:
        """What serves all variants of a model together; a variant is never called that."""
        return _fitting((self.fleet, model.name), exact=False)

    def picker(self, pool: str) -> str:
        """The picker of a pool."""
        return f"{pool}-picker"

    def fleet_labels(self, component: str) -> dict[str, str]:
        """What selects all engines, or the router."""
        return {f"{DOMAIN}/fleet": self.fleet, f"{DOMAIN}/component": component}

    def selector(self, model: PlannedModel, variant: PlannedVariant) -> dict[str, str]:
        """What selects every pod of a variant; it can never change."""
        return {
            **self.fleet_labels(ENGINE),
            f"{DOMAIN}/model": model.name,
            f"{DOMAIN}/variant": variant.name,
        }

    def serving(self, model: PlannedModel, variant: PlannedVariant) -> dict[str, str]:
        """What selects the pods of a variant that answer requests: one of each replica."""
        return {**self.selector(model, variant), SERVING: "true"}

    def engine_labels(self, model: PlannedModel, variant: PlannedVariant) -> dict[str, str]:
        """All labels of a variant's objects: ours, llm-d's, and Kubernetes' own."""
        return {
            **_recommended(self.engine(model, variant), variant.engine, ENGINE, self.fleet),
            **self.selector(model, variant),
            f"{LLM_D}/model": model.name,
            f"{LLM_D}/role": variant.role,
            f"{LLM_D}/engine-type": variant.engine,
            f"{LLM_D}/accelerator-variant": variant.accelerator,
            f"{LLM_D}/accelerator-vendor": variant.vendor,
        }

    def router_labels(self) -> dict[str, str]:
        """All labels of the router's objects."""
        recommended = _recommended(self.router, "llmd-router", ROUTER, self.fleet)
        return {**recommended, **self.fleet_labels(ROUTER)}

    def shared_labels(self) -> dict[str, str]:
        """The labels of what all engines share."""
        recommended = _recommended(self.engines, "llmd-engines", ENGINE, self.fleet)
        return {**recommended, f"{DOMAIN}/fleet": self.fleet}


def after(namespace: str, domain: str = CLUSTER_DOMAIN) -> str:
    """What makes the name of a Service of a namespace a whole one."""
    return f".{namespace}.svc.{domain}."


def _recommended(instance: str, name: str, component: str, fleet: str) -> Mapping[str, str]:
    return {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": instance,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": fleet,
        "app.kubernetes.io/managed-by": "llmd-ctl",
    }


def _fitting(parts: tuple[str, ...], *, exact: bool) -> str:
    """Parts joined to the name of a Service, which begins with a letter."""
    joined = "-".join(parts)
    name = joined if joined[0].isalpha() else f"f-{joined}"
    if exact and len(name) <= LONGEST:
        return name
    digest = hashlib.sha256("/".join(parts).encode()).hexdigest()[:DIGEST]
    return f"{name[: LONGEST - DIGEST - 1].rstrip('-')}-{digest}"
