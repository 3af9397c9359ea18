"""Rules of pods on ports and probes: who asks whom, when, and whether somebody answers there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.pod import Amiss, Pod, PodRule, containers, listed, mapped, whole

PORT_FLAG, USUAL_PORT = "--port", 8000
SIDE_PORT, USUAL_SIDE_PORT = "VLLM_NIXL_SIDE_CHANNEL_PORT", 5600
SIDE_HOST = "VLLM_NIXL_SIDE_CHANNEL_HOST"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
PERIOD, FAILURES = 10, 3  # Kubernetes' own
ACTS = ("httpGet", "tcpSocket", "grpc")


def engine_port(line: Line | None) -> int:
    """The port that an engine opens."""
    said = line[PORT_FLAG] if line is not None else None
    return said if type(said) is int else USUAL_PORT


def open_ports(pod: Pod) -> tuple[dict[str, int], set[int]]:
    """The ports of all containers: by name, and all numbers with that of the engine."""
    names: dict[str, int] = {}
    numbers = {engine_port(pod.line)}
    for _, each in containers(pod):
        for port in listed(each, "ports"):
            number = whole(port.get("containerPort")) if isinstance(port, Mapping) else None
            if number is not None:
                numbers.add(number)
                names[str(port.get("name"))] = number
    return names, numbers


def _probed(pod: Pod) -> Iterator[Amiss]:
    if PORT_FLAG in pod.unread or pod.partial:
        return
    names, numbers = open_ports(pod)
    for probe in PROBES:
        for act in ACTS:
            said = mapped(mapped(pod.own, probe), act)
            port = said.get("port")
            number = names.get(str(port), whole(port))
            path = pod.own_at(probe, act, "port")
            if port is not None and number is None:
                message = f"{probe} asks a port that no container names"
                yield Amiss(path, message, str(port), tuple(sorted(names)))
            elif number is not None and number not in numbers:
                message = (
                    f"{probe} asks port {number}, and the engine opens {engine_port(pod.line)}"
                )
                yield Amiss(path, message, str(port), (str(engine_port(pod.line)),))


def _patience(pod: Pod) -> Iterator[Amiss]:
    """A pod that is killed before its engine can have loaded."""
    probe = next((name for name in PROBES[:2] if mapped(pod.own, name)), None)
    if probe is None or pod.line is None:
        return
    said = mapped(pod.own, probe)
    period, failures, delay = (
        whole(said.get(key, default))
        for key, default in (("periodSeconds", PERIOD), ("failureThreshold", FAILURES),
                             ("initialDelaySeconds", 0))
    )  # fmt: skip
    if period is None or failures is None or delay is None:
        return
    given, wanted = delay + period * failures, int(pod.line.on.startup_seconds.known)
    if given < wanted / 4:
        message = f"{probe} kills the pod after {given} s, and a start may take {wanted} s"
        yield Amiss(pod.own_at(probe), message)


def _ready(pod: Pod) -> Iterator[Amiss]:
    if not mapped(pod.own, "readinessProbe") and not (pod.partial or pod.follows):
        message = "without a readiness probe requests come before the engine has loaded"
        yield Amiss(pod.at, message)


def _side_channel(pod: Pod) -> Iterator[Amiss]:
    line = pod.line
    if line is None or not any(name.startswith("Nixl") for name in line.connectors):
        return
    used = whole(pod.env.get(SIDE_PORT, USUAL_SIDE_PORT))
    for index, port in enumerate(listed(pod.own, "ports")):
        if not isinstance(port, Mapping):
            continue
        name, number = str(port.get("name", "")), whole(port.get("containerPort"))
        if ("nixl" in name or "side" in name) and None not in (used, number) and used != number:
            message = f"the port {name} is not the one that NIXL meets its peers on, {used}"
            path = pod.own_at("ports", index, "containerPort")
            yield Amiss(path, message, str(number), (str(used),))


def _side_host(pod: Pod) -> Iterator[Amiss]:
    line = pod.line
    names = [each.get("name") for each in listed(pod.own, "env") if isinstance(each, Mapping)]
    if line is None or not any(name.startswith("Nixl") for name in line.connectors):
        return
    if SIDE_HOST not in names and SIDE_HOST not in pod.env and not listed(pod.own, "envFrom"):
        message = f"NIXL tells its peers to come to localhost: {SIDE_HOST} is not the pod's address"
        yield Amiss(pod.own_at("env"), message)


RULES = (
    PodRule(
        "Q15",
        "Probes ask a port that is open",
        "Kubernetes 1.34 docs: probes",
        _probed,
        "Probe the port that the engine, or a sidecar, opens.",
    ),
    PodRule(
        "Q14",
        "Nobody kills a pod that still loads",
        "llm-d v0.8 guides: startup probe 120 x 30 s",
        _patience,
        "Add a startupProbe with failureThreshold × periodSeconds as long as a start may take.",
        "warning",
    ),
    PodRule(
        "Q32",
        "A pod says when it is ready",
        "llm-d v0.8 guides: readiness by /v1/models",
        _ready,
        "Add a readinessProbe: httpGet {path: /v1/models, port: 8000}.",
        "warning",
    ),
    PodRule(
        "Q25",
        "The port for NIXL is the one that it uses",
        "vLLM 0.32.0 envs.py: VLLM_NIXL_SIDE_CHANNEL_PORT is 5600; llm-d v0.8 docs say 5557",
        _side_channel,
        "Open that port, or set VLLM_NIXL_SIDE_CHANNEL_PORT.",
        "warning",
    ),
    PodRule(
        "Q33",
        "Peers are told the pod's own address",
        "vLLM 0.32.0 envs.py: VLLM_NIXL_SIDE_CHANNEL_HOST is localhost",
        _side_host,
        "Set it from status.podIP.",
    ),
)
