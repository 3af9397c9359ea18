"""Each code is met once as a user meets it: it tells where, what, what is allowed, what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llmd_ctl.errors import Problem, codes
from llmd_ctl.plan import Observed
from tests.unit.errors.cases import (
    HEAD,
    Bench,
    Meet,
    Row,
    apart,
    applying,
    beside,
    bug,
    certificate_is_old,
    cluster,
    command,
    content,
    controller_is_dead,
    desired_is_damaged,
    engine_breaks,
    engine_never_boots,
    failing,
    files,
    h100,
    instead,
    interrupted,
    is_elsewhere,
    locked,
    manifests,
    mine,
    planning,
    profile,
    program_is_missing,
    shell,
    shown,
    silent,
    stopped_watching,
    stranger_on_the_routers_port,
    traffic_breaks_off,
    undeleted,
)
from tests.unit.plan.manifests.folders import CLEAN

FLEETS: list[Row] = [
    ("LC1001", files("none.yaml"), None, None),
    ("LC1002", content(b"a: \xff"), "byte 0xff", None),
    ("LC1003", content("#" * (4 * 1024 * 1024 + 1)), None, None),
    ("LC1004", content("# nothing"), None, None),
    ("LC1005", files("valid.yaml", "valid.yaml"), None, None),
    ("LC1010", content("a: [1"), None, None),
    ("LC1011", instead("replicas: 4", "replicas: 4\n      replicas: 5"), "replicas", None),
    ("LC1012", instead("replicas: 4", "replicas: *four"), "*four", None),
    ("LC1013", content("[" * 99 + "]" * 99), None, None),
    ("LC1014", instead("replicas: 4", "replicas: !!int 4"), "!!int", None),
    ("LC1015", instead("replicas: 4", "4: replicas"), "4", None),
    ("LC1016", instead("replicas: 4", "<<: 4"), "4", None),
    ("LC1017", instead("uri: ./tiny", 'uri: "./\\x07"'), "U+0007", None),
    ("LC1018", instead("unsafe: true", "unsafe: yes"), "yes", None),
    ("LC1019", content("a: &a [yes, no]\nb: [" + "on, " * 600 + "off]"), None, None),
    ("LC1020", instead("replicas: 4", "replica: 4"), "replica", "replicas"),
    ("LC1021", instead("kind: Fleet\n", ""), None, "Fleet"),
    ("LC1022", instead("replicas: 4", "replicas:"), "nothing", None),
    ("LC1023", instead("engine: {name: sim}", "engine: sim"), '"sim"', "version"),
    ("LC1024", instead("objective: latency", "objective: latncy"), "latncy", "latency"),
    ("LC1025", instead("tensor: 2", "tensor: 0"), "0", "1 to 1024"),
    ("LC1026", instead("apis: [chat, completions]", "apis: []"), "an empty list", "chat"),
    ("LC1027", instead("executable: vllm", "executable: ''"), '""', None),
    ("LC1040", instead("name: prod", "name: My Fleet"), '"My Fleet"', None),
    ("LC1041", instead("blockSize: 16", "block-size: 16"), "block-size", None),
    ("LC1042", instead("[--seed, ", "[--seed 7, "), '"--seed 7"', None),
    ("LC1043", instead("blockSize: 16", "blockSize: .inf"), ".inf", None),
    ("LC1044", instead("total: 1h", "total: 60 min"), '"60 min"', None),
    ("LC1045", instead("uri: ./tiny", "uri: a/b"), '"a/b"', None),
    ("LC1046", instead("http://10.0.0.7:8000", "10.0.0.7:8000"), '"10.0.0.7:8000"', None),
    ("LC1047", instead("revision: main", "revision: a..b"), '"a..b"', None),
    ("LC1048", instead("body: 64Mi", "body: 64MB"), '"64MB"', None),
    ("LC1049", instead("path: /health", "path: health"), '"health"', None),
    ("LC1050", instead("replicas: 4", "lora: []"), "lora", None),
    ("LC1051", instead("{name: there, kind: local}", "{name: there, kind: ray}"), "ray", "local"),
    ("LC1060", instead("name: tiny", "name: chat"), "chat", None),
    ("LC1061", instead("target: there, engine", "target: ther, engine"), "ther", "there"),
    ("LC1062", instead("cpu-x86, target: here", "cpu-x86"), None, "here"),
    (
        "LC1063",
        instead("variants: [{name: cpu,", "variants: [{accelerator: cpu-x86, target: here}, {"),
        "cpu-x86",
        None,
    ),
    ("LC1064", instead("servedName: q}", "servedName: q}, replicas: 1"), "replicas", None),
    ("LC1065", instead("maxModelLen: 16384", "maxModelLen: 40000"), "40000", "1 to 32768"),
    ("LC1066", instead("uri: ./tiny", "uri: ./tiny, revision: main"), "revision", None),
    (
        "LC1067",
        instead("  models:", "  - {target: here, accelerator: nvidia-h100}\n  models:"),
        "nvidia-h100",
        None,
    ),
    ("LC1068", instead("ttft: {p50: 500ms", "ttft: {p50: 1s"), None, None),
    (
        "LC1069",
        instead("engine: {name: sim}", "engine: {name: sim, executable: x}"),
        "executable",
        None,
    ),
    (
        "LC1070",
        instead(
            "    - {name: tpu,",
            '    - {name: o, accelerator: cpu-x86, endpoint: {url: "http://10.0.0.7:8000"}}\n'
            "    - {name: tpu,",
        ),
        "http://10.0.0.7:8000",
        None,
    ),
    ("LC1071", instead("servedName: q", "tls: {}"), None, None),
    ("LC1072", instead("openMax: 30s", "openMax: 500ms"), "500ms", "1s to 24h"),
    ("LC1073", instead("unsafe: true", "cache: {}"), None, None),
    (
        "LC1074",
        instead("unsafe: true", "autoscale: {min: 1, max: 2}"),
        "replicas",
        None,
    ),
    ("LC1075", instead("unsafe: true", "role: decode"), "decode", None),
    ("LC1076", instead("drain: 31s", "quiet: 40s"), "40s", "0s, or less than 30s"),
    (
        "LC1077",
        instead("unsafe: true", "env: {A: x}\n      secretRefs: [{name: s, env: A}]"),
        "A",
        None,
    ),
]

PROFILES: list[Row] = [
    (
        "LC2001",
        profile("", HEAD.replace("Accelerator", "Accelerate")),
        "AccelerateProfile",
        "EngineProfile",
    ),
    ("LC2002", profile("extends: cpu-x86\nspec: {memoryByts: 1}"), "memoryByts", "memoryBytes"),
    ("LC2003", profile("extends: nvidia-h100"), None, None),
    ("LC2004", profile("extends: cpu-x86\nspec: {vendor: 7}"), "7", None),
    ("LC2005", profile("extends: cpu-x86\nspec: {memoryBytes: 80GB}"), '"80GB"', "GiB"),
    (
        "LC2006",
        profile("extends: cpu-x86\nspec: {memoryBytes: {value: 0, unit: GB}}"),
        "0",
        "a whole number of B, above 0, at most 1048576 GiB",
    ),
    ("LC2007", profile("extends: nvidia-h10\nspec: {}"), "nvidia-h10", "nvidia-h100"),
    (
        "LC2008",
        planning(
            "- {name: v, accelerator: mine}",
            profiles=[mine("memoryBandwidth: {value: null, unit: TB/s}")],
        ),
        None,
        None,
    ),
    ("LC2009", profile("", "# nothing"), None, None),
    (
        "LC2014",
        profile(f"extends: cpu-x86\nspec: {{}}\n---\n{HEAD}extends: cpu-x86\nspec: {{}}"),
        "mine",
        None,
    ),
]

WORDS: list[Row] = [
    ("LC2010", planning("- {accelerator: nvidia-h10}"), "nvidia-h10", "nvidia-h100"),
    ("LC2011", h100("engine: {name: vllm, version: 0.31.0}"), "0.31.0", "0.32.0"),
    ("LC2012", h100("", uri="hf://acme/secret-7B"), "acme/secret-7B", "Qwen/Qwen3-8B"),
    ("LC2013", h100("engine: {name: llamacpp}"), "llamacpp", "vllm"),
    ("LC2020", h100("engineArgs: {maxNumSeq: 3}"), "maxNumSeq", "maxNumSeqs"),
    ("LC2021", h100("engineArgs: {maxNumSeqs: -5}"), "-5", "1 to 1048576"),
    ("LC2022", h100("engineArgs: {dtype: bf16}"), "bf16", "bfloat16"),
    ("LC2023", h100("engineArgs: {port: 1}"), "--port", None),
    (
        "LC2024",
        planning("- {accelerator: intel-gaudi3, engineArgs: {blockSize: 64}}"),
        "64",
        "128",
    ),
    ("LC2025", h100("engineArgs: {enableLora: true}"), "--enable-lora", None),
    ("LC2026", h100("extraArgs: [--enforce-eager, 'true']"), "true", None),
    ("LC2027", h100("engineArgs: {quantization: fp8}"), None, None),
    (
        "LC2028",
        planning("- {accelerator: intel-gaudi3, engineArgs: {blockSize: 64}, unsafe: true}"),
        None,
        None,
    ),
    ("LC2029", h100("unsafe: true"), None, None),
    ("LC2030", h100("extraArgs: [--load-format, dummy]"), "dummy", None),
    ("LC2034", h100("", uri="./nowhere"), "./nowhere", None),
    (
        "LC2035",
        h100("", profiles=[mine("").replace("name: mine", "name: nvidia-h100")]),
        None,
        None,
    ),
    (
        "LC2042",
        h100("parallelism: {tensor: 2}, engineArgs: {tensorParallelSize: 4}"),
        None,
        None,
    ),
]


def _config(**changes: object) -> str:
    """A profile of the model `acme/one` with a config like that of Llama."""
    config = {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 128, "vocab_size": 2048,
        "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 8192, **changes,
    }  # fmt: skip
    said = ", ".join(f"{key}: {value}" for key, value in config.items() if value is not None)
    head = HEAD.replace("Accelerator", "Model").replace("mine", "acme/one")
    return f"{head}spec: {{source: me, config: {{{said}}}}}\n"


def _model(**changes: object) -> Meet:
    return h100("", uri="hf://acme/one", profiles=[_config(**changes)])


MODELS: list[Row] = [
    ("LC2031", _model(kv_lora_rank=8), "kv_lora_rank", None),
    ("LC2032", _model(model_type="rwkv"), "rwkv", "llama"),
    ("LC2032", _model(model_type=None), "nothing", None),
    ("LC2033", _model(num_hidden_layers=0), "0", None),
]

LATER = (
    f"{HEAD.replace('Accelerator', 'Model').replace('mine', 'Qwen/Qwen3-8B')}"
    "extends: Qwen/Qwen3-8B\nspec: {minVersion: {vllm: 9.0.0}}\n"
)
CLAIMED = (
    "- {accelerator: intel-gaudi3, target: here, deviceAllocation: dra,"
    " engine: {name: vllm, image: r/gaudi:1}}"
)
SIXTEEN = "inventory: [{accelerator: nvidia-h100, nodes: 2, devicesPerNode: 8}]"
TWO = Observed(accelerators={"nvidia-h100": 2})

PLANS: list[Row] = [
    ("LC3001", command("plan", "list.json"), "a list", None),
    ("LC3001", command("plan", "empty.json"), "no schema", "plan"),
    ("LC3010", h100("", uri="hf://meta-llama/Llama-3.1-405B-Instruct"), "GiB too little", None),
    ("LC3011", h100("parallelism: {tensor: 3}"), "3", "4"),
    ("LC3012", h100("maxModelLen: 200000"), "200000", "1 to 131072"),
    (
        "LC3013",
        h100("replicas: 9", spec="inventory: [{accelerator: nvidia-h100, devicesPerNode: 8}]"),
        "9",
        "8",
    ),
    ("LC3014", h100("", simulate=None), "none here", "cpu-x86"),
    (
        "LC3015",
        planning("- {accelerator: cpu-x86, replicas: 9}", simulate=None, uri="./tiny"),
        "",
        "",
    ),
    (
        "LC3016",
        cluster("- {accelerator: google-tpu-v6e, target: here, parallelism: {tensor: 2}}"),
        None,
        None,
    ),
    (
        "LC3017",
        planning("- {accelerator: nvidia-b200, engineArgs: {kvCacheDtype: nvfp4}}"),
        "nvfp4",
        "fp8",
    ),
    (
        "LC3018",
        planning(
            "- {name: v, accelerator: mine}",
            profiles=[mine("memoryBytes: {value: null, unit: GB}")],
        ),
        "nothing",
        None,
    ),
    (
        "LC3019",
        h100("engineArgs: {blockSize: 16}", uri="hf://Qwen/Qwen3.5-35B-A3B"),
        "16",
        None,
    ),
    ("LC3020", h100("", model="slo: {itl: {p95: 1us}}"), None, None),
    (
        "LC3021",
        planning("- {accelerator: intel-gaudi3, engine: {name: vllm, version: 0.32.0}}"),
        None,
        None,
    ),
    ("LC3022", planning("- {accelerator: my-gpu, endpoint: {url: 'http://h:1'}}"), None, None),
    ("LC3023", h100("replicas: 2", simulate=None, here=TWO), None, None),
    ("LC3024", h100("", model="slo: {itl: {p50: 1s, p95: 2s}}"), None, None),
    ("LC3025", h100("", spec="router: {routing: {objective: cost}}"), None, None),
    (
        "LC3026",
        h100("", spec="router: {routing: {objective: cost, scheduler: random}}"),
        None,
        None,
    ),
    ("LC3027", h100("engine: {name: sim}, apis: [chat, embeddings]"), None, None),
    ("LC3028", h100("engine: {name: sim}, apis: [embeddings]"), "embeddings", "chat"),
    (
        "LC3029",
        h100("", uri="hf://Qwen/Qwen3-8B", profiles=[LATER]),
        "0.32.0",
        "9.0.0 or newer",
    ),
    ("LC3030", h100("", spec=SIXTEEN, simulate=None, here=TWO), None, None),
    (
        "LC3031",
        cluster(
            "- {accelerator: nvidia-h100, target: here, autoscale: {min: 1, max: 17}}",
            spec=SIXTEEN.replace("accelerator", "target: here, accelerator"),
        ),
        None,
        None,
    ),
    ("LC3040", h100("engineArgs: {attentionBackend: FLASHMLA}"), "FLASHMLA", "FLASH_ATTN"),
    ("LC3041", h100("engineArgs: {maxParallelLoadingWorkers: 2}"), "2", None),
    ("LC3050", h100("topology: 2x4"), None, None),
    ("LC3051", h100("nodeSelector: {a: b}"), None, None),
    ("LC3052", cluster("- {accelerator: intel-gaudi3}"), "vllm 0.26.0", None),
    ("LC3053", cluster("- {accelerator: nvidia-h100}"), None, None),
    ("LC3054", cluster("- {accelerator: google-tpu-v6e, topology: 3x3}"), "3x3", "2x4"),
    ("LC3055", cluster("- {accelerator: nvidia-h100, target: other}"), "other", "here"),
    ("LC3056", cluster(CLAIMED), None, None),
    ("LC3057", apart(), None, None),
    ("LC3060", apart(decode="engine: {name: sglang}"), "decode", None),
    ("LC3061", apart(how="{connector: TPUConnector}"), "TPUConnector", "NixlConnector"),
    ("LC3062", apart(how="{transport: nvlink}"), "nvlink", "ib"),
    ("LC3063", apart(more="- {name: b, accelerator: nvidia-h100}"), None, None),
    ("LC3064", apart(how="{minPromptTokens: 1}"), None, None),
    ("LC3065", apart("env: {UCX_TLS: tcp}"), None, None),
    ("LC3066", apart("replicas: 0"), None, None),
    ("LC3067", beside("kind: systemd, hosts: [h1]"), None, None),
    ("LC3070", manifests(CLEAN.replace("gpu: 2", "gpu: 16")), "16", None),
    ("LC3071", manifests(CLEAN.replace(":v0.32.0", ":latest")), "latest", None),
    ("LC3072", manifests(CLEAN.replace("v0.32.0", "custom")), None, None),
]

APPLY: list[Row] = [
    ("LC4001", locked, None, None),
    ("LC4002", shown(desired_is_damaged), None, None),
    ("LC4003", applying(engine_breaks), None, None),
    ("LC4004", applying(stranger_on_the_routers_port), None, None),
    ("LC4005", applying(engine_never_boots, timeout_seconds=5.0), "", None),
    ("LC4006", shown(controller_is_dead), None, None),
    ("LC4007", silent, "", None),
    ("LC4008", interrupted, None, None),
    ("LC4009", undeleted, "", None),
    ("LC4010", certificate_is_old, None, None),
    ("LC4011", program_is_missing, None, None),
    ("LC4012", is_elsewhere, "kubernetes", "local"),
]

COMMANDS: list[Row] = [
    ("LC6000", bug, None, None),
    ("LC6001", command("plan", "fleet.yaml", "--simulat"), None, None),
    ("LC6002", command("plan", "fleet.yaml", "--simulate=fast"), "fast", ""),
    ("LC6003", command("plan", "fleet.yaml", "--simulate", "-o", "/nosuch/plan.json"), None, None),
    ("LC6004", command("apply", "fleet.yaml", "--detailed-exitcode"), None, None),
    ("LC6005", stopped_watching, None, None),
    ("LC6006", command("status", "nosuchfleet"), "nosuchfleet", None),
    ("LC6007", traffic_breaks_off, None, None),
    ("LC6008", shell("llmd-ctl --version >/dev/full"), None, None),
    (
        "LC6010",
        shell("llmd-ctl load http://127.0.0.1:1 --model m --rate 50 --seconds 0.2"),
        None,
        None,
    ),
    (
        "LC6011",
        command("render", "fleet.yaml", "--simulate", "--output-dir", "taken"),
        "run.sh",
        None,
    ),
    ("LC6012", command("explain", "accelerator", "mi300"), "mi300", None),
    ("LC6009", failing(PermissionError(13, "Permission denied", "/x/y")), None, None),
]

ROWS = [*FLEETS, *PROFILES, *WORDS, *MODELS, *PLANS, *APPLY, *COMMANDS]
# What has no place: no file was read, or it is about a command or a process.
PLACELESS = re.compile(r"LC(1001|1005|3001|4|6)")
# What a hint must not be: it would leave its reader where the message left them.
EMPTY_WORDS = re.compile(
    r"(correct|check|fix|change|mend) (it|this|that|or remove it)\.|value of (that|this) type"
    r"|use (a|one of the) (legal|valid)? ?values?\.$",
    re.IGNORECASE,
)
SMALL_WORDS = frozenset(
    "a an and as at be by for in is it its no not of on or than that the to".split()
)
SAID_ALL = {"LC6005"}  # the user stopped it, and the message says that nothing was changed


def words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.casefold()) if word not in SMALL_WORDS}


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Bench:
    return Bench(tmp_path, monkeypatch, capsys)


def test_every_code_is_in_the_table() -> None:
    assert {code for code, *_ in ROWS} == set(codes())


@pytest.mark.parametrize(("code", "meet", "found", "allowed"), ROWS, ids=[row[0] for row in ROWS])
def test_a_problem_tells_where_what_and_what_to_do(
    bench: Bench, code: str, meet: Meet, found: str | None, allowed: str | None
) -> None:
    told = [problem for problem in meet(bench) if problem.code == code]
    assert told, f"{code} was not met"
    problem = told[0]
    assert problem.place is not None or PLACELESS.match(code)
    if found is None:
        assert problem.found not in {"", "None"}
    else:
        assert problem.found is not None
        assert found in problem.found
    if allowed is not None:
        assert any(allowed in word for word in problem.allowed)
    assert_hint(problem)


def assert_hint(problem: Problem) -> None:
    """A hint is a sentence that says more than the message and the lists beside it."""
    hint = problem.remedy
    if not hint and problem.code in SAID_ALL:
        return
    assert re.match(r"[A-Z\"'`-]", hint), hint
    assert not EMPTY_WORDS.search(hint), hint
    assert len(words(hint) - words(problem.message)) >= 2, hint


@pytest.mark.parametrize("code", codes())
def test_the_hint_of_a_code_says_something(code: str) -> None:
    doc = codes()[code]
    assert not EMPTY_WORDS.search(doc.hint)
    assert len(words(doc.hint) - words(doc.meaning)) >= 2
