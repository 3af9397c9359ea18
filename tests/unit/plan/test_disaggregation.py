"""Prefill and decode apart: what each side is started with, and pairs that cannot work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmd_ctl.errors import LlmdError, Problem
from llmd_ctl.plan import Plan, PlannedVariant
from tests.unit.plan.fleets import LLAMA, plan_text

FLEET = """apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {{name: test}}
spec:
  targets: [{{name: gke, kind: kubernetes}}]
  router: {{kind: llm-d}}
  inventory:
  - {{target: gke, accelerator: nvidia-h100, nodes: 4, devicesPerNode: 8}}
  - {{target: gke, accelerator: intel-gaudi3, nodes: 4, devicesPerNode: 8}}
  - {{target: gke, accelerator: google-tpu-v6e, nodes: 4, devicesPerNode: 8}}
  models:
  - name: chat
    uri: {uri}
    disaggregation: {how}
    variants:
    - {{name: p, accelerator: {prefill}, role: prefill, replicas: 1}}
    - {{name: d, accelerator: {decode}, role: decode, replicas: 1}}
"""


def fleet(
    prefill: str = "nvidia-h100",
    decode: str = "nvidia-h100",
    how: str = "{transport: ib}",
    uri: str = LLAMA,
) -> str:
    return FLEET.format(prefill=prefill, decode=decode, how=how, uri=uri)


def planned(text: str) -> Plan:
    return plan_text(text, simulate=None)


def config(variant: PlannedVariant) -> dict[str, Any]:
    """What the engine is told of its connector."""
    words = variant.command
    found: dict[str, Any] = json.loads(words[words.index("--kv-transfer-config") + 1])
    return found


def problems(text: str, code: str) -> list[Problem]:
    """The problems of a code that planning it reports."""
    with pytest.raises(LlmdError) as raised:
        planned(text)
    return [one for one in raised.value.problems if one.code == code]


def warned(text: str, code: str) -> list[str]:
    return [one.message for one in planned(text).warnings if one.code == code]


def test_each_side_is_told_its_connector_and_its_role() -> None:
    prefill, decode = planned(fleet()).models[0].variants
    assert config(prefill) == {
        "kv_connector": "NixlConnector", "kv_role": "kv_producer", "kv_buffer_device": "cuda",
    }  # fmt: skip
    assert config(decode)["kv_role"] == "kv_consumer"
    assert decode.settings["--kv-transfer-config"].set_by == "plan"


def test_the_proxy_before_decode_speaks_the_connectors_protocol() -> None:
    prefill, decode = planned(fleet(how="{connector: MooncakeConnector}")).models[0].variants
    assert prefill.place is not None
    assert decode.place is not None
    assert prefill.place.transfer is not None
    assert decode.place.transfer is not None
    assert (prefill.place.transfer.proxy, prefill.place.transfer.protocol) == (None, None)
    assert decode.place.transfer.proxy is not None
    assert decode.place.transfer.protocol == "mooncake"


def test_a_transport_comes_with_its_variables_its_cards_and_its_rights() -> None:
    model = planned(fleet()).models[0]
    prefill = model.variants[0]
    assert model.disaggregation is not None
    assert model.disaggregation.transport == "ib"
    assert prefill.env["UCX_TLS"] == "rc,cuda_copy,cuda_ipc,tcp"
    assert prefill.place is not None
    transfer = prefill.place.transfer
    assert transfer is not None
    assert (transfer.resource, transfer.capabilities) == ("rdma/ib", ("IPC_LOCK",))
    assert transfer.address_variable == "VLLM_NIXL_SIDE_CHANNEL_HOST"


def test_what_a_transport_asks_of_the_connector_is_a_list() -> None:
    prefill, _ = planned(fleet(how="{transport: efa}")).models[0].variants
    assert config(prefill)["kv_connector_extra_config"] == {"backends": ["LIBFABRIC"]}


def test_the_least_prompt_that_is_handed_over_is_kept() -> None:
    model = planned(fleet(how="{transport: ib, minPromptTokens: 64}")).models[0]
    assert model.disaggregation is not None
    assert model.disaggregation.min_prompt_tokens == 64


def test_without_a_transport_tcp_is_taken_and_told() -> None:
    text = fleet(how="{minPromptTokens: 1}")
    assert "cuda_copy,cuda_ipc,tcp" in planned(text).models[0].variants[0].env.values()
    assert warned(text, "LC3064") == [
        f"{name} hands KV over by TCP, as no transport is named" for name in "pd"
    ]


def test_a_variable_that_breaks_a_transport_apart_is_told() -> None:
    text = fleet().replace("role: prefill,", "role: prefill, env: {UCX_TLS: tcp},")
    assert len(warned(text, "LC3065")) == 1
    assert planned(text).models[0].variants[0].env["UCX_TLS"] == "tcp"


@pytest.mark.parametrize(
    ("how", "code", "allowed"),
    [
        ("{connector: TPUConnector}", "LC3061", "NixlConnector"),
        ("{connector: LMCacheMPConnector}", "LC3061", "NixlConnector"),
        ("{transport: nvlink}", "LC3062", "ib"),
    ],
)
def test_what_an_accelerator_has_not_is_refused_with_what_it_has(
    how: str, code: str, allowed: str
) -> None:
    found = problems(fleet(how=how), code)
    assert allowed in found[0].allowed


def test_an_accelerator_of_which_nothing_is_known_has_no_roles() -> None:
    text = fleet(decode="google-tpu-v6e", how="{minPromptTokens: 0}")
    told = [one.message.partition(":")[0] for one in problems(text, "LC3040")]
    assert {"K14", "K45"} <= set(told)


@pytest.mark.parametrize(
    ("prefill", "decode", "words"),
    [
        ("engineArgs: {kvCacheDtype: fp8}", "", "K47"),
        ("engineArgs: {dtype: float16}", "", "K47"),
        ("engineArgs: {blockSize: 64}", "engineArgs: {blockSize: 32}", "K42"),
    ],
)
def test_sides_that_would_not_understand_each_other_are_refused(
    prefill: str, decode: str, words: str
) -> None:
    text = fleet().replace("role: prefill", f"role: prefill, {prefill}")
    text = text.replace("role: decode", f"role: decode{', ' if decode else ''}{decode}")
    assert words in "; ".join(one.message for one in problems(text, "LC3040"))


def test_larger_blocks_take_whole_smaller_ones() -> None:
    text = fleet().replace("role: prefill", "role: prefill, engineArgs: {blockSize: 32}")
    text = text.replace("role: decode", "role: decode, engineArgs: {blockSize: 64}")
    assert planned(text).models[0].disaggregation is not None


def test_a_variant_without_a_role_beside_roles_is_refused() -> None:
    text = fleet() + "    - {name: b, accelerator: nvidia-h100, replicas: 1}\n"
    assert "b has no role" in problems(text, "LC3063")[0].message


def test_prompts_split_wider_than_answers_are_taken_while_heads_are_not_copied() -> None:
    text = fleet().replace("role: prefill", "role: prefill, parallelism: {tensor: 2}")
    text = text.replace("role: decode", "role: decode, parallelism: {tensor: 1}")
    assert planned(text).models[0].disaggregation is not None


def test_a_fault_of_a_pair_is_told_once() -> None:
    text = fleet().replace("role: prefill", "role: prefill, engineArgs: {kvCacheDtype: fp8}")
    with pytest.raises(LlmdError) as raised:
        planned(text)
    assert len([one for one in raised.value.problems if one.severity == "error"]) == 1


def test_a_rehearsal_judges_pairs_as_they_would_run() -> None:
    text = fleet().replace("role: prefill", "role: prefill, engineArgs: {kvCacheDtype: fp8}")
    with pytest.raises(LlmdError) as raised:
        plan_text(text, simulate=1.0, rehearsal=True)
    assert [one.message[:3] for one in raised.value.problems] == ["K47"]


def idle(p: str, d: str) -> list[str]:
    text = fleet().replace("prefill, replicas: 1", f"prefill, {p}")
    return warned(text.replace("decode, replicas: 1", f"decode, {d}"), "LC3066")


def test_a_role_without_replicas_is_told_while_the_other_role_has_some() -> None:
    (message,) = idle("replicas: 0", "replicas: 2")
    assert message == (
        "no replica has the role prefill: those that decode read the prompts too, and hand nothing"
        " over"
    )
    (message,) = idle("replicas: 2", "replicas: 0")
    assert message == "no replica has the role decode: nothing answers, as prompts alone are read"
    assert idle("replicas: 0", "replicas: 0") == []
    assert idle("replicas: 1", "replicas: 1") == []
    scaled = "autoscale: {min: 1, max: 2}"
    assert idle(scaled, "replicas: 2") == []


def test_without_roles_nothing_is_handed_over() -> None:
    text = fleet().replace("role: prefill, ", "").replace("role: decode, ", "")
    text = text.replace("    disaggregation: {transport: ib}\n", "")
    model = planned(text).models[0]
    assert model.disaggregation is None
    assert "--kv-transfer-config" not in model.variants[0].command
