"""The accelerators that come with llmd-ctl, against their data sheets, restated here by hand.

And what a profile has to say so that the device can be asked for, reached and served on.
"""

from math import prod
from typing import Any

import pytest

from llmd_ctl.profiles import Accelerator, Catalog
from llmd_ctl.profiles.rules.attention import CHOOSES
from llmd_ctl.profiles.rules.line import platform_of

CATALOG = Catalog.load()
NAMES = CATALOG.names("AcceleratorProfile")
GIB, MIB, GB = 2**30, 2**20, 10**9

# A whole card, chip or package: memory in bytes, memory bandwidth in GB/s, dense TFLOP/s of bf16,
# fp8, fp4, int8, and the devices that engines see in it. Sources: NVIDIA and B60, aiconfigurator
# systems/*.yaml; A100 40 GB, NVIDIA's data sheet; GH200, stas00/ml-engineering; MI300X, a public
# benchmark repository; MI325X, Vultr; MI355X, AMD; TPU, Google Cloud TPU docs; Gaudi, spec pages;
# Max 1550, ark.intel.com and Aurora; ATOM, docs.rbln.ai; Ascend, arXiv 2506.12708 and public pages;
# AWS, aws-neuron-sdk architecture docs.
SHEETS: dict[str, tuple[Any, ...]] = {
    "nvidia-a100": (80 * GIB, 2039, 312, None, None, 624, 1),
    "nvidia-a100-40": (40 * GIB, 1555, 312, None, None, 624, 1),
    "nvidia-a100-pcie": (80 * GIB, 1935, 312, None, None, 624, 1),
    "nvidia-l4": (24 * GIB, 300, 121, 242, None, 242, 1),
    "nvidia-l40s": (46068 * MIB, 864, 362.05, 733, None, 733, 1),
    "nvidia-h100": (80 * GIB, 3350, 989, 1978, None, 1978, 1),
    "nvidia-h100-pcie": (80 * GIB, 2000, 756.5, 1513, None, 1513, 1),
    "nvidia-h200": (141 * GIB, 4800, 989, 1978, None, 1978, 1),
    "nvidia-gh200": (96 * GIB, 4000, 989, 1978, None, 1978, 1),
    "nvidia-b200": (180 * GIB, 7700, 2250, 4500, 9000, 4500, 1),
    "nvidia-b300": (275040 * MIB, 7750, 2250, 4500, 14000, 153.5, 1),
    "nvidia-gb200": (189471 * MIB, 8000, 2500, 5000, 10000, 5000, 1),
    "nvidia-gb300": (284208 * MIB, 8000, 2500, 5000, 15000, None, 1),
    "nvidia-rtx-pro-6000": (97887 * MIB, 1792, 467.8, 935.6, 1871, None, 1),
    "amd-mi300x": (192 * GB, 5300, 1307.4, 2614.9, None, 2614.9, 1),
    "amd-mi325x": (256 * GB, 6000, 1307, 2615, None, 2615, 1),
    "amd-mi355x": (288 * GB, 8000, 2500, 5000, 10000, None, 1),
    "google-tpu-v5e": (16 * GB, 819, 197, None, None, 393, 1),
    "google-tpu-v5p": (95 * GB, 2765, 459, None, None, 918, 1),
    "google-tpu-v6e": (32 * GB, 1638, 918, None, None, 1836, 1),
    "google-tpu-v7x": (192 * GIB, 7370, 2307, 4614, None, None, 2),
    "intel-gaudi2": (96 * GB, 2450, 432, 865, None, None, 1),
    "intel-gaudi3": (128 * GB, 3700, 1835, 1835, None, None, 1),
    "intel-max-1550": (128 * GB, 3276.8, 273, None, None, 577, 2),
    "intel-arc-b60": (24 * GIB, 456, 98.3, None, None, 197, 1),
    "cpu-x86": (None, 32, None, None, None, None, 1),
    "cpu-arm": (None, 32, None, None, None, None, 1),
    "rebellions-atom": (16 * GB, None, None, None, None, None, 1),
    "ascend-910b": (64 * GB, None, None, None, None, None, 1),
    "ascend-910c": (128 * GB, 3200, 752, None, None, None, 2),
    "aws-trn2": (96 * GIB, 2900, 667, 1299, None, None, 4),
    "aws-inf2": (32 * GIB, 820, 190, 190, None, 380, 2),
}
# Prices of one device for an hour, from public lists; all others are not known.
PRICES = {
    "nvidia-a100": 3.67, "nvidia-a100-40": 2.93, "nvidia-l4": 0.70, "nvidia-l40s": 3.50,
    "nvidia-h100": 2.95, "nvidia-h200": 5.80, "nvidia-b200": 7.50, "nvidia-b300": 15.0,
    "nvidia-gb200": 16.0, "nvidia-gb300": 18.0, "nvidia-rtx-pro-6000": 4.50, "amd-mi300x": 3.75,
    "amd-mi355x": 8.60, "google-tpu-v5e": 1.20, "google-tpu-v5p": 4.20, "google-tpu-v6e": 2.70,
}  # fmt: skip
# What pods ask for, how many of it a node has, and a label of its nodes (device plugins' sources,
# Google Kubernetes Engine docs).
KUBERNETES = {
    "nvidia-a100": ("nvidia.com/gpu", 8, "NVIDIA-A100-SXM4-80GB"),
    "nvidia-l4": ("nvidia.com/gpu", 8, "nvidia-l4"),
    "nvidia-l40s": ("nvidia.com/gpu", 8, "NVIDIA-L40S"),
    "nvidia-h100": ("nvidia.com/gpu", 8, "nvidia-h100-mega-80gb"),
    "nvidia-h200": ("nvidia.com/gpu", 8, "nvidia-h200-141gb"),
    "nvidia-gh200": ("nvidia.com/gpu", 1, "NVIDIA-GH200-480GB"),
    "nvidia-b200": ("nvidia.com/gpu", 8, "nvidia-b200"),
    "nvidia-gb200": ("nvidia.com/gpu", 4, "nvidia-gb200"),
    "nvidia-gb300": ("nvidia.com/gpu", 4, "NVIDIA-GB300"),
    "amd-mi300x": ("amd.com/gpu", 8, "74a1"),
    "amd-mi325x": ("amd.com/gpu", 8, "74a5"),
    "amd-mi355x": ("amd.com/gpu", 8, "75a3"),
    "google-tpu-v5e": ("google.com/tpu", 8, "tpu-v5-lite-podslice"),
    "google-tpu-v5p": ("google.com/tpu", 4, "tpu-v5p-slice"),
    "google-tpu-v6e": ("google.com/tpu", 8, "tpu-v6e-slice"),
    "google-tpu-v7x": ("google.com/tpu", 4, "tpu7x"),
    "intel-gaudi2": ("habana.ai/gaudi", 8, "true"),
    "intel-gaudi3": ("habana.ai/gaudi", 8, "true"),
    "intel-max-1550": ("gpu.intel.com/i915", 6, "Max_1550"),
    "intel-arc-b60": ("gpu.intel.com/xe", 8, "true"),
    "cpu-x86": ("cpu", 1, "amd64"),
    "cpu-arm": ("cpu", 1, "arm64"),
    "rebellions-atom": ("rebellions.ai/ATOM", None, "ATOM"),
    "ascend-910b": ("huawei.com/Ascend910", 8, "module-910b-8"),
    "ascend-910c": ("huawei.com/Ascend910", 16, "huawei-Ascend910"),
    "aws-trn2": ("aws.amazon.com/neuron", 16, "trn2.48xlarge"),
    "aws-inf2": ("aws.amazon.com/neuron", 12, "inf2.48xlarge"),
}
# Of a package of two dies, the device plugin counts the dies.
COUNTED_IN_PARTS = {"ascend-910c"}
CLASSES = {"dense", "sinks", "mla", "dsa", "deepseek-v4", "hybrid"}


@pytest.fixture(params=NAMES)
def accelerator(request: pytest.FixtureRequest) -> Accelerator:
    return CATALOG.accelerator(request.param)


def known(value: float | None, factor: float) -> Any:
    return value if value is None else pytest.approx(value * factor)


# --- figures ---


@pytest.mark.parametrize("name", SHEETS)
def test_figures_are_those_of_the_data_sheet(name: str) -> None:
    memory, bandwidth, *flops, parts = SHEETS[name]
    spec = CATALOG.accelerator(name).spec
    assert spec.memory_bytes.value == known(memory, 1 / parts)
    assert spec.memory_bandwidth.value == known(bandwidth, 1e9 / parts)
    for dtype, expected in zip(("bf16", "fp8", "fp4", "int8"), flops, strict=True):
        found = spec.flops.get(dtype)
        assert (found.value if found else None) == known(expected, 1e12 / parts), dtype
    if parts > 1 and name not in COUNTED_IN_PARTS:
        assert spec.kubernetes is not None
        assert spec.kubernetes.resource.devices == parts


def test_every_accelerator_is_in_the_tables() -> None:
    assert set(SHEETS) == set(NAMES)
    assert set(NAMES) - set(KUBERNETES) == {
        "nvidia-a100-40", "nvidia-a100-pcie", "nvidia-h100-pcie", "nvidia-b300",
        "nvidia-rtx-pro-6000",
    }  # fmt: skip


def test_prices_are_those_of_the_lists_and_no_other_is_made_up() -> None:
    prices = {name: CATALOG.accelerator(name).spec.price_per_device_hour.value for name in NAMES}
    assert {name: price for name, price in prices.items() if price is not None} == PRICES


def test_what_a_device_computes_with_is_what_it_has_a_speed_for(accelerator: Accelerator) -> None:
    spec = accelerator.spec
    given = {dtype for dtype, figure in spec.flops.items() if figure.value is not None}
    none = {
        dtype for dtype, figure in spec.flops.items() if figure.source.startswith("the hardware")
    }
    assert given <= set(spec.native_dtypes)
    assert not none & set(spec.native_dtypes)


def test_b300_is_slow_at_int8_and_hopper_has_no_fp4() -> None:
    b300, h100 = (CATALOG.accelerator(f"nvidia-{name}").spec.flops for name in ("b300", "h100"))
    assert b300["int8"].known < b300["bf16"].known / 10
    assert h100["fp4"].value is None


# --- where it is and how it is asked for ---


@pytest.mark.parametrize("name", KUBERNETES)
def test_a_cluster_hands_it_out_as_its_plugin_does(name: str) -> None:
    resource, in_a_node, label = KUBERNETES[name]
    spec = CATALOG.accelerator(name).spec
    assert spec.kubernetes is not None
    assert spec.kubernetes.resource.name == resource
    devices = spec.devices_per_node.value
    assert (devices and devices / spec.kubernetes.resource.devices) == in_a_node
    selectors = [s for several in spec.kubernetes.selectors.values() for s in several]
    assert label in {value for selector in selectors for value in selector.values}


def test_it_says_all_that_a_renderer_needs(accelerator: Accelerator) -> None:
    spec = accelerator.spec
    assert spec.architecture
    assert spec.native_dtypes
    assert spec.host_architectures
    assert spec.driver is not None
    assert spec.topology is not None
    assert spec.container is not None
    assert spec.kubernetes is not None
    assert spec.kubernetes.resource.name
    assert any(spec.kubernetes.selectors.values())
    assert spec.engines["vllm"]


def test_it_says_all_that_an_engine_needs(accelerator: Accelerator) -> None:
    on = accelerator.spec.engines["vllm"]
    assert on.images
    assert "auto" in on.kv_dtypes or platform_of(accelerator.spec) in CHOOSES
    assert on.weight_dtypes
    assert set(on.attention) == CLASSES
    assert on.transfer is not None
    assert on.offload is not None
    assert on.startup_seconds.known >= 600
    assert "--block-size" in on.settings or on.not_yet


def test_what_it_does_not_know_it_explains(accelerator: Accelerator) -> None:
    for on in accelerator.spec.engines.values():
        for version, image in on.images.items():
            assert image.reference or image.note, version
            assert image.digest is None or image.digest.startswith("sha256:")
            assert image.reference is None or ":" in image.reference
        for name, backend in on.attention.items():
            words = (*backend.order, backend.unsupported, backend.note, backend.block_multiple)
            assert any(words), name


def test_the_block_size_is_a_multiple_of_what_the_dense_backend_takes(
    accelerator: Accelerator,
) -> None:
    on = accelerator.spec.engines["vllm"]
    base, setting = on.attention["dense"].block_multiple, on.settings.get("--block-size")
    if base is not None and setting is not None:
        assert int(setting.value) % base == 0


def test_what_is_advised_is_a_backend_that_the_engine_has(accelerator: Accelerator) -> None:
    for on in accelerator.spec.engines.values():
        for backend in on.attention.values():
            assert backend.advised is None or backend.advised in backend.order
            assert not (backend.unsupported and backend.order)


def test_buffers_of_kv_on_their_way_are_those_of_the_platform() -> None:
    sets = {
        "nvidia": {"cuda", "cpu"}, "amd": {"cuda", "cpu"}, "google": {"cpu"},
        "intel": {"xpu", "hpu", "cpu"}, "cpu": {"cpu"}, "rebellions": {"rbln", "cpu"},
        "ascend": set(), "aws": {"cpu"},
    }  # fmt: skip
    for name in NAMES:
        spec = CATALOG.accelerator(name).spec
        transfer = spec.engines["vllm"].transfer
        assert transfer is not None
        assert set(transfer.buffers) <= sets[spec.vendor], name
        assert not transfer.connector or transfer.buffers or spec.vendor == "ascend", name


@pytest.mark.parametrize("name", ["gh200", "gb200", "gb300"])
def test_grace_hosts_are_arm_and_taint_their_nodes(name: str) -> None:
    spec = CATALOG.accelerator(f"nvidia-{name}").spec
    assert spec.host_architectures == ("arm64",)
    assert spec.kubernetes is not None
    assert ("kubernetes.io/arch", "Equal", "arm64") in {
        (t.key, t.operator, t.value) for t in spec.kubernetes.tolerations
    }


def test_racks_of_gb200_are_one_domain_of_72() -> None:
    for name in ("nvidia-gb200", "nvidia-gb300"):
        spec = CATALOG.accelerator(name).spec
        assert spec.topology is not None
        assert spec.kubernetes is not None
        assert spec.topology.domain_devices.value == 72
        assert spec.kubernetes.domain is not None
        assert spec.transports["nvlink"].env["NCCL_MNNVL_ENABLE"] == "1"
    h100 = CATALOG.accelerator("nvidia-h100").spec
    assert h100.kubernetes is not None
    assert h100.kubernetes.domain is None
    assert "nvlink" not in h100.transports


def test_slices_of_tpus_are_made_of_whole_machines() -> None:
    for name in NAMES:
        spec = CATALOG.accelerator(name).spec
        assert spec.topology is not None
        assert spec.kubernetes is not None
        for machine in spec.topology.machines:
            for shape in machine.single:
                assert prod(int(n) for n in shape.split("x")) == machine.units, (name, shape)
            for shape in machine.several:
                chips = prod(int(n) for n in shape.split("x"))
                assert chips > machine.units, (name, shape)
                assert chips % machine.units == 0, (name, shape)
            devices = machine.units * spec.kubernetes.resource.devices
            assert devices in spec.topology.groups, (name, machine.name)


def test_a_bundle_for_a_network_is_never_half() -> None:
    efa = CATALOG.accelerator("nvidia-h100").spec.transports["efa"]
    assert efa.env["FI_EFA_ENABLE_SHM_TRANSFER"] == "0"
    assert (efa.resource, dict(efa.connector)) == (
        "vpc.amazonaws.com/efa", {"backends": ("LIBFABRIC",)},
    )  # fmt: skip
