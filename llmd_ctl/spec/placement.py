"""Where and with what a process runs: environment, resources, nodes, secrets, and its model cache.

The sections that targets, defaults, models, variants and the router share, used by `fleet`. Maps
are laid over each other key by key, a list replaces the one below it (`plan.placement`). Which
target can carry out which of them is `plan.capabilities`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from llmd_ctl.spec.fields import Bytes, refuse
from llmd_ctl.spec.place_fields import (
    Cores,
    EnvName,
    EnvValue,
    HostPath,
    KubeName,
    LabelKey,
    LabelValue,
)
from llmd_ctl.spec.section import Section


class Resources(Section):
    """What a container asks for beside its accelerators; None is what the profile says."""

    cpu: Cores | None = None
    memory: Bytes | None = None
    shm: Bytes | None = None


class Toleration(Section):
    """A taint that is accepted, in Kubernetes' own words."""

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] = "Exists"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Annotated[int, Field(ge=0, le=31_536_000)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            hint = "Write operator: Equal beside it, or remove value."
            raise refuse("LC1073", "a value is compared only with operator Equal", hint)
        if self.operator == "Equal" and (self.key is None or self.value is None):
            hint = "Give both, or write operator: Exists."
            raise refuse("LC1073", "operator Equal needs a key and a value", hint)
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            hint = "Write effect: NoExecute beside it, or remove it."
            raise refuse("LC1073", "tolerationSeconds only delays effect NoExecute", hint)
        return self


class SecretRef(Section):
    """A secret by name. `env` None: each of its keys is a variable; `key` None: that of `env`."""

    name: KubeName
    env: EnvName | None = None
    key: LabelKey | None = None

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.key is not None and self.env is None:
            hint = f"Add env: {self.key}, or remove key to have every key as a variable."
            raise refuse("LC1073", "a key needs the name of its variable", hint)
        return self


class Cache(Section):
    """Where weights and compiled graphs are kept between starts: one of the three, or nothing.

    `path` is a folder of the machine, `claim` a volume claim of the cluster that is there, `size`
    the most that a volume of the replica itself may hold.
    """

    path: HostPath | None = None
    claim: KubeName | None = None
    size: Bytes | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(part is not None for part in (self.path, self.claim, self.size)) != 1:
            hint = "Write {path: /var/cache/llm}, {claim: NAME} or {size: 200Gi}."
            raise refuse("LC1073", "give one of path, claim and size", hint)
        return self


class Placement(Section):
    """What targets, defaults, models, variants and the router may all say."""

    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    resources: Resources = Resources()
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    tolerations: list[Toleration] | None = None
    image_pull_secrets: list[KubeName] | None = None
    secret_refs: list[SecretRef] | None = None


class Autoscale(Section):
    """Replicas by rule."""

    min: Annotated[int, Field(ge=0, le=10_000)]
    max: Annotated[int, Field(ge=1, le=10_000)]
    scaler: Literal["keda", "hpa"] = "keda"

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if self.max < self.min:
            hint = "Raise max, or lower min."
            raise refuse("LC1073", f"max {self.max} is below min {self.min}", hint)
        if self.min == 0 and self.scaler == "hpa":
            hint = "Write min: 1, or scaler: keda."
            raise refuse("LC1073", "an HPA cannot go down to no replica", hint)
        return self


class Disaggregation(Section):
    """How the prefill and decode replicas of a model work together; None is what profiles say."""

    connector: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    transport: Literal["ib", "roce", "efa", "nvlink", "tcp"] | None = None
    min_prompt_tokens: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
