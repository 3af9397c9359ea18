"""Rules of pods on accelerators: how many are asked for, of which nodes, beside which image."""

from __future__ import annotations

import math
from collections.abc import Iterator
from math import prod

from llmd_ctl.profiles.rules.line import Line, platform_of
from llmd_ctl.profiles.rules.pod import Amiss, Pod, PodRule, mapped, whole

SPLITS = ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size")
LOCAL = "--data-parallel-size-local"
ARCH = "kubernetes.io/arch"
PARTS = ("-SHARED", "-MIG-")  # of a product's label, where a device is shared or cut


def _whole_numbers(pod: Pod) -> Iterator[Amiss]:
    resources = mapped(pod.own, "resources")
    for name, value in pod.asked.items():
        said = [
            (kind, table[name])
            for kind in ("requests", "limits")
            if name in (table := mapped(resources, kind))
        ]
        if whole(value) is None or whole(value) == 0:
            yield Amiss(pod.resource_at(name), f"{name} is asked for by whole numbers", str(value))
        elif len({str(amount) for _, amount in said}) > 1:
            yield Amiss(
                pod.own_at("resources", "requests", name),
                f"requests and limits of {name} differ: {said[0][1]} and {said[1][1]}",
            )
        elif [kind for kind, _ in said] == ["requests"]:
            yield Amiss(
                pod.own_at("resources", "requests", name), f"{name} has requests and no limits"
            )


def _twice(pod: Pod) -> Iterator[Amiss]:
    if pod.asked and pod.claimed:
        name = next(iter(pod.asked))
        yield Amiss(pod.resource_at(name), f"devices are asked for by {name} and claimed as well")


def _node(pod: Pod) -> Iterator[Amiss]:
    """More than a node has."""
    counts = (one.spec.devices_per_node.over(math.inf) for one in pod.accelerators)
    devices, most = pod.devices, max(counts, default=math.inf)
    if devices is not None and devices > most:
        message = f"a pod asks for {devices} devices, and a node of {pod.names} has {most:.0f}"
        yield Amiss(pod.resource_at(next(iter(pod.asked), "")), message, str(pod.units))


def _split(pod: Pod) -> Iterator[Amiss]:
    line, devices = pod.line, pod.devices
    unknown = pod.unread & {*SPLITS, LOCAL}
    if line is None or devices is None or unknown or line.engine.name != "vllm":
        return
    local = line[LOCAL]
    # A pod of a group holds its share of ranks where it says it; else the group holds them all.
    by_pod = type(local) is int
    ranks = local if by_pod else line.data
    needed = line.tensor * line.pipeline * ranks
    there = devices if by_pod else devices * pod.hosts
    if line.platform == "tpu" and not _says_split(line):
        return
    if needed > there or (needed < there and pod.hosts > 1):
        split = f"{line.tensor} × {line.pipeline} × {ranks}"
        message = f"the engine is split {split} ways, and has {there} devices for that"
        yield Amiss(pod.resource_at(next(iter(pod.asked), "")), message, str(pod.units))


def _says_split(line: Line) -> bool:
    return line.says(*SPLITS)


def _idle(pod: Pod) -> Iterator[Amiss]:
    line, devices = pod.line, pod.devices
    unknown = pod.unread & {*SPLITS, LOCAL} or pod.hosts > 1
    if line is None or devices is None or unknown or line.engine.name != "vllm":
        return
    used = line.tensor * line.pipeline * line.data
    if line.platform != "tpu" and used < devices:
        message = f"{devices} devices are asked for, and the engine takes {used} of them"
        yield Amiss(pod.resource_at(next(iter(pod.asked), "")), message, str(pod.units))


def _machines(pod: Pod) -> Iterator[Amiss]:
    """A slice's shape and the chips of each of its machines."""
    units = pod.units
    if not pod.machines or units is None:
        return
    made = {each.units: {*each.single, *each.several} for each in pod.machines}
    at = pod.resource_at(next(iter(pod.asked), ""))
    if units not in made:
        sizes = [str(size) for size in sorted(made)]
        message = f"{pod.names} comes in machines of {_listed(sizes)} chips, and a pod takes all"
        yield Amiss(at, message, str(units), tuple(sizes))
        return
    shapes = set().union(*made.values())
    for key, values in pod.nodes.items():
        for shape in values if key.endswith("-topology") else ():
            if shape not in shapes:
                message = f"{pod.names} has no slices of {shape}"
                yield Amiss(("nodeSelector", key), message, shape, tuple(sorted(shapes)))
            elif shape not in made[units]:
                chips = prod(int(side) for side in shape.split("x"))
                message = f"a slice of {shape} has {chips} chips, and each pod asks for {units}"
                yield Amiss(at, message, str(units))


def _listed(sizes: list[str]) -> str:
    return " or ".join(sizes)


def _image(pod: Pod) -> Iterator[Amiss]:
    known = pod.known
    if known is None or not known.platforms or not pod.accelerators:
        return
    platforms = {platform_of(one.spec) for one in pod.accelerators}
    if not platforms & set(known.platforms):
        made = " or ".join(known.platforms)
        message = f"the image is built for {made}, and the pod gets {pod.names}"
        yield Amiss(pod.own_at("image"), message, str(pod.image))


def _no_device(pod: Pod) -> Iterator[Amiss]:
    known = pod.known
    if known is None or not known.platforms or "cpu" in known.platforms or pod.partial:
        return
    if not pod.asked and not pod.claimed:
        made = " or ".join(known.platforms)
        yield Amiss(
            pod.own_at("image"), f"the image is built for {made}, and no accelerator is asked for"
        )


def _arch(pod: Pod) -> Iterator[Amiss]:
    wanted = pod.accelerator.spec.host_architectures if pod.accelerator is not None else ()
    said = pod.nodes.get(ARCH)
    if wanted and said is not None and not set(said) & set(wanted):
        message = f"nodes of {pod.names} are {' or '.join(wanted)}"
        yield Amiss(("nodeSelector", ARCH), message, ", ".join(said), wanted)
    needs = {each.key for each in (pod.cluster.tolerations if pod.cluster is not None else ())}
    if ARCH in needs and ARCH not in _tolerated(pod):
        message = f"nodes of {pod.names} are usually tainted by {ARCH}, which the pod does not take"
        yield Amiss(("tolerations",), message)


def _tolerated(pod: Pod) -> set[str]:
    said = pod.spec.get("tolerations")
    keys = (
        {each.get("key") for each in said if isinstance(each, dict)}
        if isinstance(said, list)
        else set()
    )
    return {ARCH if key is None else str(key) for key in keys}


def _domain(pod: Pod) -> Iterator[Amiss]:
    """Several hosts of superchips, and no claim on what joins them."""
    domain = pod.cluster.domain if pod.cluster is not None else None
    if domain is None or pod.hosts < 2:
        return
    claims = pod.spec.get("resourceClaims")
    if not claims:
        message = f"{pod.hosts} hosts of {pod.names} have no claim of {domain.device_class}"
        yield Amiss(("resourceClaims",), message)


def _cut(pod: Pod) -> Iterator[Amiss]:
    for key, values in pod.nodes.items():
        for value in values:
            if key.endswith("gpu.product") and any(part in value for part in PARTS):
                message = f"{value} is a part of a device: its memory and speed are not known here"
                yield Amiss(("nodeSelector", key), message, value)


RULES = (
    PodRule(
        "Q01",
        "Accelerators are asked for by whole numbers, with limits that equal requests",
        "Kubernetes 1.34 docs: extended resources",
        _whole_numbers,
        "Write one whole number under limits; requests follow.",
    ),
    PodRule(
        "Q10",
        "Devices are claimed or asked for, not both",
        "NVIDIA dra-driver-nvidia-gpu 0.4.0 docs",
        _twice,
        "Remove the resource, or the claim: else each gives a device.",
    ),
    PodRule(
        "Q11",
        "A pod asks for no more devices than a node has",
        "profiles: devicesPerNode; llm-d v0.8 asks 8 GPUs of GB200 nodes",
        _node,
        "Ask for what one node has, and span several with a LeaderWorkerSet.",
    ),
    PodRule(
        "Q06",
        "The devices of all pods of a replica are those that it is split over",
        "vLLM 0.32.0 config/parallel.py: world size",
        _split,
        "Make devices, times pods of a group, equal tensor × pipeline × data.",
    ),
    PodRule(
        "Q30",
        "No device of a pod is idle",
        "vLLM 0.32.0 config/parallel.py: world size",
        _idle,
        "Raise --tensor-parallel-size, or ask for fewer devices.",
        "warning",
    ),
    PodRule(
        "T01",
        "A pod on TPUs takes all chips of a machine, and its slice is made of such machines",
        "AI-Hypercomputer/xpk system characteristics, 2026; llm-d v0.8 asks 8 chips of 2x2x1",
        _machines,
        "Ask for the chips of one machine, and choose a slice that is made of such.",
    ),
    PodRule(
        "Q21",
        "The image is built for the accelerator",
        "images.yaml: vLLM 0.32.0 docker",
        _image,
        "Take the image of this accelerator's vendor.",
    ),
    PodRule(
        "Q28",
        "An image for accelerators gets one",
        "images.yaml: vLLM 0.32.0 docker",
        _no_device,
        "Ask for the accelerator under resources.limits, or take the image for processors.",
    ),
    PodRule(
        "N03",
        "Pods go where the processors beside the accelerator are those of the image",
        "aiconfigurator 095f58a systems/gb200.yaml; profiles: hostArchitectures",
        _arch,
        "Select kubernetes.io/arch as the nodes are, and tolerate their taint.",
    ),
    PodRule(
        "Q29",
        "Several hosts of superchips claim what joins them",
        "NVIDIA dra-driver-nvidia-gpu 0.4.0: ComputeDomain",
        _domain,
        "Add a ComputeDomain and its claim: without it NVLink ends at the node.",
        "warning",
    ),
    PodRule(
        "N12",
        "A device is a whole one",
        "NVIDIA k8s-device-plugin 1b826acc: shared and MIG devices change the label",
        _cut,
        "Give the part a profile of its own, or select whole devices.",
        "warning",
    ),
)
