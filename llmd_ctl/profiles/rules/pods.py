"""Rules of pods that run an engine: images, memory, rights. `check_pod` asks all rules of pods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from llmd_ctl.profiles.image_names import read_image
from llmd_ctl.profiles.rules import devices, probes
from llmd_ctl.profiles.rules.line import version_of
from llmd_ctl.profiles.rules.pod import Amiss, Path, Pod, PodRule, containers, listed, mapped

PLACEHOLDER = re.compile(r"REPLACE_[A-Z0-9_]+|<[A-Z][A-Z0-9_]*>")
SHM = "/dev/shm"
LIBRARIES, NVIDIA_LIBRARIES = "LD_LIBRARY_PATH", "/usr/local/nvidia/lib64"
GKE_GPU = "cloud.google.com/gke-accelerator"


# --- images ---


def _images(pod: Pod) -> Iterator[Amiss]:
    for path, each in containers(pod):
        if not each.get("image") and not pod.partial:
            name = each.get("name", "?")
            yield Amiss(path, f"the container {name} has no image: the API server refuses the pod")


def _placeholders(pod: Pod) -> Iterator[Amiss]:
    for path, value in _texts(pod.spec, ()):
        match = PLACEHOLDER.search(value)
        if match is not None:
            yield Amiss(path, f"the placeholder {match[0]} was not filled in", value)


def _texts(data: object, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _texts(value, (*path, str(key)))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _texts(value, (*path, index))


def _gone(pod: Pod) -> Iterator[Amiss]:
    if pod.known is not None and pod.known.gone:
        yield Amiss(pod.own_at("image"), pod.known.gone, str(pod.image))


def _fork(pod: Pod) -> Iterator[Amiss]:
    known, image = pod.known, pod.image
    if known is not None and image is not None and known.forked and image.digest is None:
        message = f"{image.name} is not {known.name}: somebody else's build of the same name"
        yield Amiss(pod.own_at("image"), message, str(image))


def _built_for(pod: Pod) -> Iterator[Amiss]:
    known, image = pod.known, pod.image
    pattern = known.built_for(image) if known is not None and image is not None else None
    if pattern is None or not pod.accelerators:
        return
    own = [one.spec.architecture for one in pod.accelerators]
    family = pattern[:3]  # of one maker; another's image is told by Q21
    if not any(fnmatchcase(each, pattern) for each in own) and own[0].startswith(family):
        message = f"the image is built for {pattern}, and {pod.accelerators[0].name} is {own[0]}"
        yield Amiss(pod.own_at("image"), message, str(image))


def _unmade(pod: Pod) -> Iterator[Amiss]:
    known, image = pod.known, pod.image
    version = known.version_of(image) if known is not None and image is not None else None
    if known is None or image is None or version is None:
        return
    for word, end in known.before.items():
        if word in image.words and version_of(version) >= version_of(end):
            message = f"{image.name} has no image with {word} from {end} on"
            yield Amiss(pod.own_at("image"), message, str(image))


def _moving(pod: Pod) -> Iterator[Amiss]:
    for path, each in containers(pod):
        image = read_image(str(each.get("image") or ""))
        if image is not None and image.moves and not PLACEHOLDER.search(str(image)):
            message = f"the image {image} is another one from time to time"
            yield Amiss((*path, "image"), message, str(image))


# --- memory, rights ---


def _shared_memory(pod: Pod) -> Iterator[Amiss]:
    line, one = pod.line, pod.accelerators[0] if pod.accelerators else None
    container = one.spec.container if one is not None else None
    if line is None or container is None or container.shm_bytes.value is None:
        return
    if line.tensor * line.pipeline == 1 or pod.spec.get("hostIPC") is True:
        return
    mounts = [each for each in listed(pod.own, "volumeMounts") if isinstance(each, Mapping)]
    if not any(str(each.get("mountPath", "")).rstrip("/") == SHM for each in mounts):
        wanted = f"{container.shm_bytes.value / 2**30:.0f} GiB"
        message = f"workers share memory in {SHM}, and without a volume there it has 64 MiB"
        yield Amiss(pod.own_at("volumeMounts"), message, None, (wanted,))


def _numa(pod: Pod) -> Iterator[Amiss]:
    one = pod.accelerator
    if one is None or one.spec.host is None or one.spec.container is None:
        return
    wanted = one.spec.container.capabilities
    added = listed(mapped(mapped(pod.own, "securityContext"), "capabilities"), "add")
    missing = [name for name in wanted if name not in added]
    if missing:
        message = f"binding workers to their memory needs {', '.join(missing)}: it is left out"
        yield Amiss(pod.own_at("securityContext"), message)


def _libraries(pod: Pod) -> Iterator[Amiss]:
    said = pod.env.get(LIBRARIES)
    if said is not None and GKE_GPU in pod.nodes and NVIDIA_LIBRARIES not in said.split(":"):
        message = f"{LIBRARIES} leaves out {NVIDIA_LIBRARIES}, where the driver lies on GKE"
        yield Amiss(pod.own_at("env"), message, said)


def _deepep(pod: Pod) -> Iterator[Amiss]:
    line = pod.line
    if line is None or GKE_GPU not in pod.nodes:
        return
    privileged = mapped(pod.own, "securityContext").get("privileged")
    if str(line["--all2all-backend"]).startswith("deepep") and privileged is not True:
        message = "DeepEP on GKE needs a privileged pod, or nodes with PeerMappingOverride=1"
        yield Amiss(pod.own_at("securityContext"), message)


def _offload(pod: Pod) -> Iterator[Amiss]:
    line = pod.line
    if line is None or "TPUOffloadConnector" not in line.connectors:
        return
    inits = [mapped(each, "securityContext") for each in listed(pod.spec, "initContainers")]
    if not any(context.get("privileged") is True for context in inits):
        message = "KV in main memory needs vm.max_map_count raised by a privileged init container"
        yield Amiss(("initContainers",), message)


RULES = (
    *devices.RULES,
    *probes.RULES,
    PodRule(
        "Q12",
        "Every container has an image",
        "Kubernetes 1.34 API: containers[].image; llm-d v0.8 renders a sidecar without",
        _images,
        "Name an image: NAME:TAG, or NAME@sha256:… .",
    ),
    PodRule(
        "Q04",
        "No placeholder is left",
        "llm-d v0.8 guides/recipes: REPLACE_MODEL_SERVER_IMAGE",
        _placeholders,
        "Fill it in: a kustomize component or a value of the chart is missing.",
    ),
    PodRule(
        "Q05",
        "An image stays what it is",
        "llm-d v0.8 names sidecars by -dev:main and TPU images by nightly tags",
        _moving,
        "Name a released version, or a digest.",
        "warning",
    ),
    PodRule(
        "Q27",
        "The image is still published",
        "llm-d v0.8 release notes",
        _gone,
        "Take the image that replaces it.",
        "warning",
    ),
    PodRule(
        "Q38",
        "The image is built for this generation of the accelerator",
        "images.yaml: SGLang 0.5.23 docker/rocm.Dockerfile; vllm-ascend 182b75e Dockerfile.a3",
        _built_for,
        "Take the image whose tag names it.",
    ),
    PodRule(
        "N02",
        "The image holds a CUDA that it is made with",
        "SGLang release notes: CUDA 12 ends with 0.5.19",
        _unmade,
        "Take the tag without it, on nodes with driver 580.65.06 or newer.",
    ),
    PodRule(
        "Q31",
        "The image is its maker's",
        "llm-d v0.8 names ghcr.io/revit13/vllm-openai",
        _fork,
        "Take the maker's image, or name this one by digest.",
        "warning",
    ),
    PodRule(
        "Q13",
        "Workers of one pod have memory to share",
        "llm-d v0.8 guides: emptyDir in memory at /dev/shm",
        _shared_memory,
        "Mount an emptyDir with medium: Memory at /dev/shm.",
        "warning",
    ),
    PodRule(
        "C07",
        "Workers on processors may bind memory",
        "llm-d v0.8 guides: CPU",
        _numa,
        "Add the capability to securityContext.capabilities.add.",
        "warning",
    ),
    PodRule(
        "N07",
        "The driver's libraries are on the path on GKE",
        "llm-d v0.8 docs: GKE",
        _libraries,
        "Add /usr/local/nvidia/lib64 to it, or leave the variable to the image.",
    ),
    PodRule(
        "N09",
        "DeepEP on GKE may map its peers' memory",
        "llm-d v0.8 docs: GKE",
        _deepep,
        "Set securityContext.privileged: true, or that option of the driver.",
        "warning",
    ),
    PodRule(
        "T11",
        "Offloading on TPUs is prepared by a privileged container",
        "llm-d v0.8 guides/tiered-prefix-cache: TPU",
        _offload,
        "Add one that sets vm.max_map_count=33554432 and vfio's dma_entry_limit=8000000.",
        "warning",
    ),
)


def check_pod(pod: Pod) -> Iterator[tuple[PodRule, Amiss]]:
    """What is wrong with a pod, rule by rule."""
    for rule in RULES:
        for amiss in rule.find(pod):
            yield rule, amiss
