"""Fields and words of the format that are known and not built yet: refused, never ignored.

One table. A feature that gets built moves its row from here into `fleet` and from
`reference/not-yet.yaml` into `reference/fleet.yaml`. Read by `translate`; a path has no indices.
"""

from __future__ import annotations

_PLACEMENT = {
    "env": "environment variables of the process",
    "resources": "CPU, memory and shared memory of the container",
    "nodeSelector": "labels a node must have",
    "tolerations": "taints that are accepted",
    "imagePullSecrets": "secrets that pull images",
    "secretRefs": "secrets the process reads, such as a Hugging Face token",
}
_SERVING = {
    "cache": "where weights and compiled graphs are kept between starts",
    "lora": "adapters served beside the model",
    "chatTemplate": "a chat template of your own",
    "speculative": "speculative decoding",
    "kvOffload": "tiers for KV blocks beyond the accelerator's memory",
    "autoscale": "replicas by rule, down to zero",
    "rollout": "how a new revision replaces the old one",
    "queueName": "the queue that admits the replicas",
    "region": "where the replicas are, for requests that must stay there",
    "timeSlicing": "several engines taking turns on one accelerator",
    **_PLACEMENT,
}

NOT_YET: dict[str, dict[str, str]] = {
    "spec": {"policies": "priorities, limits and splits by tenant, model or header"},
    "spec.targets[]": {
        "context": "the kubeconfig context of a cluster",
        "namespace": "the namespace in a cluster",
        "hosts": "the machines of a target",
        "region": "where the target is",
        "queueName": "the queue that admits the replicas",
        **_PLACEMENT,
    },
    "spec.defaults": _SERVING,
    "spec.models[]": {
        "disaggregation": "prefill and decode on different replicas",
        "prefixRouting": "how requests with equal beginnings are kept together",
        "equivalence": "proof that every variant gives the same answers",
        **_SERVING,
    },
    "spec.models[].variants[]": {
        "role": "prefill, decode or both",
        "topology": "the shape of an accelerator slice, such as 2x4",
        **_SERVING,
    },
    "spec.router": {
        "kind": "which router stands in front: ours or llm-d's",
        "mode": "how requests reach the router: proxy or gateway",
        "replicas": "several routers side by side",
        "flowControl": "queues with priorities and fairness",
        "prefixRouting": "how requests with equal beginnings are kept together",
        "region": "where the router is",
        **_PLACEMENT,
    },
}
"""Map by map: the key, and what it will do."""

NOT_YET_WORDS: dict[str, dict[str, str]] = {
    "spec.targets[].kind": {
        "kubernetes": "a cluster",
        "kserve": "a cluster with KServe",
        "ray": "a Ray cluster",
        "slurm": "a Slurm cluster",
        "systemd": "units on hosts",
        "compose": "containers on a host",
    },
}
"""Field by field: the word, and what it will mean."""


def homes_of(key: str) -> tuple[str, ...]:
    """Return the maps in which a key that is not built yet stands."""
    return tuple(section for section, keys in NOT_YET.items() if key in keys)
