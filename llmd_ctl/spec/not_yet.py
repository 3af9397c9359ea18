"""Fields and words of the format that are known and not built yet: refused, never ignored.

One table. A feature that gets built moves its row from here into `fleet` and from
`reference/not-yet.yaml` into `reference/fleet.yaml`. Read by `translate`; a path has no indices.
"""

from __future__ import annotations

_SERVING = {
    "lora": "adapters served beside the model",
    "chatTemplate": "a chat template of your own",
    "speculative": "speculative decoding",
    "kvOffload": "tiers for KV blocks beyond the accelerator's memory",
    "rollout": "how a new revision replaces the old one",
    "queueName": "the queue that admits the replicas",
    "region": "where the replicas are, for requests that must stay there",
    "timeSlicing": "several engines taking turns on one accelerator",
}

NOT_YET: dict[str, dict[str, str]] = {
    "spec": {"policies": "priorities, limits and splits by tenant, model or header"},
    "spec.targets[]": {
        "context": "the kubeconfig context of a cluster",
        "region": "where the target is",
        "queueName": "the queue that admits the replicas",
    },
    "spec.defaults": _SERVING,
    "spec.models[]": {
        "prefixRouting": "how requests with equal beginnings are kept together",
        "equivalence": "proof that every variant gives the same answers",
        **_SERVING,
    },
    "spec.models[].variants[]": {
        **_SERVING,
    },
    "spec.router": {
        "mode": "how requests reach the router: proxy or gateway",
        "flowControl": "queues with priorities and fairness",
        "prefixRouting": "how requests with equal beginnings are kept together",
        "region": "where the router is",
    },
}
"""Map by map: the key, and what it will do."""

NOT_YET_WORDS: dict[str, dict[str, str]] = {
    "spec.targets[].kind": {
        "kserve": "a cluster with KServe",
        "ray": "a Ray cluster",
        "slurm": "a Slurm cluster",
    },
}
"""Field by field: the word, and what it will mean."""


def homes_of(key: str) -> tuple[str, ...]:
    """Return the maps in which a key that is not built yet stands."""
    return tuple(section for section, keys in NOT_YET.items() if key in keys)
