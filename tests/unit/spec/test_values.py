"""One spoilt spot of a valid fleet gives one problem: its code, and the text under the caret."""

from __future__ import annotations

import pytest

from llmd_ctl.spec.shape import keys_at
from llmd_ctl.spec.unknown import SYNONYMS
from tests.unit.spec.told import Complain, Load, caret

URL = 'endpoint: {url: "http://10.0.0.7:8000", servedName: q}'
CPU = "variants: [{name: cpu, accelerator: cpu-x86, target: here}]"

# what stands in the valid fleet, what is put there, the code, what the caret underlines
CASES = [
    # keys
    ("replicas: 4", "replica: 4", "LC1020", "replica"),
    ("metadata: {name: prod}", "metadata: {name: prod, labels: {}}", "LC1020", "labels"),
    ("p50: 500ms, ", "p90: 500ms, ", "LC1020", "p90"),
    ("parallelism: {tensor: 2}", "parallelism: {sequence: 2}", "LC1020", "sequence"),
    ("maxModelLen: 16384", "max_model_len: 16384", "LC1020", "max_model_len"),
    ("accelerator: nvidia-h100\n      target", "target", "LC1021", "n"),
    ("kind: Fleet\n", "", "LC1021", "a"),
    ("metadata: {name: prod}", "metadata: {}", "LC1021", "metadata"),
    ('otlp: "http://127.0.0.1:4318", ', "", "LC1021", "traces"),
    ("uri: hf://Qwen/Qwen3-32B\n    ", "", "LC1021", "n"),
    # nothing
    ("replicas: 4", "replicas:", "LC1022", "replicas"),
    ("revision: main", "revision: ~", "LC1022", "revision"),
    ("uri: hf://Qwen/Qwen3-32B", "uri:", "LC1022", "uri"),
    ("blockSize: 16", "blockSize: null", "LC1022", "blockSize"),
    ("aliases: [assistant]", "aliases: [null]", "LC1022", "null"),
    ("{objective: latency, scheduler: expected-finish}", "", "LC1022", "routing"),
    # kinds
    ("replicas: 4", 'replicas: "4"', "LC1023", '"4"'),
    ("replicas: 4", "replicas: true", "LC1023", "true"),
    ("replicas: 4", "replicas: 4.0", "LC1023", "4.0"),
    ("replicas: 4", "replicas: [4]", "LC1023", "[4]"),
    ("nodes: 2", "nodes: false", "LC1023", "false"),
    ("unsafe: true", "unsafe: 1", "LC1023", "1"),
    ("unsafe: true", 'unsafe: "true"', "LC1023", '"true"'),
    ("version: 0.32.0", "version: 0.32", "LC1023", "0.32"),
    ("revision: main", "revision: 1234567", "LC1023", "1234567"),
    ("revision: main", "revision: 12e4567", "LC1023", "12e4567"),
    ("metadata: {name: prod}", "metadata: [prod]", "LC1023", "[prod]"),
    ("aliases: [assistant]", "aliases: assistant", "LC1023", "assistant"),
    ("engineArgs: {maxNumSeqs: 256}", "engineArgs: [1]", "LC1023", "[1]"),
    ("blockSize: 16", "blockSize: [16]", "LC1023", "[16]"),
    ('"7"]', "7]", "LC1023", "7"),
    ("pricePerDeviceHour: 2.95", 'pricePerDeviceHour: "2.95"', "LC1023", '"2.95"'),
    ("sampleRatio: 0.5", "sampleRatio: true", "LC1023", "true"),
    # revisions
    ("revision: main", "revision: a b", "LC1047", "a b"),
    ("revision: main", "revision: --x", "LC1047", "--x"),
    ("revision: main", "revision: a..b", "LC1047", "a..b"),
    ("revision: main", "revision: 'v1:latest'", "LC1047", "'v1:latest'"),
    ("revision: main", "revision: refs/", "LC1047", "refs/"),
    ("revision: main", "revision: x.lock", "LC1047", "x.lock"),
    # words
    ("apiVersion: fleet.llmd-ctl.dev/v1alpha1", "apiVersion: v1", "LC1024", "v1"),
    ("kind: Fleet", "kind: Fleets", "LC1024", "Fleets"),
    ("objective: latency", "objective: speed", "LC1024", "speed"),
    ("scheduler: expected-finish", "scheduler: 3", "LC1024", "3"),
    ("usage: exact", "usage: counted", "LC1024", "counted"),
    ("apis: [chat, ", "apis: [chats, ", "LC1024", "chats"),
    ("apis: [chat, completions]", "apis: []", "LC1026", "[]"),
    ("apis: [chat, completions]", "apis: chat", "LC1023", "chat"),
    ("engine: {name: sim}", "engine: {name: vlm}", "LC1024", "vlm"),
    ("protocol: http/protobuf", "protocol: http", "LC1024", "http"),
    ("{name: there, kind: local}", "{name: there, kind: docker}", "LC1024", "docker"),
    # ranges
    ("replicas: 4", "replicas: -1", "LC1025", "-1"),
    ("replicas: 4", "replicas: 10001", "LC1025", "10001"),
    ("tensor: 2", "tensor: 0", "LC1025", "0"),
    ("nodes: 2", "nodes: 0", "LC1025", "0"),
    ("devicesPerNode: 8", "devicesPerNode: 0", "LC1025", "0"),
    ("pricePerDeviceHour: 2.95", "pricePerDeviceHour: -0.01", "LC1025", "-0.01"),
    ("sampleRatio: 0.5", "sampleRatio: 1.01", "LC1025", "1.01"),
    ("maxModelLen: 32768", "maxModelLen: 0", "LC1025", "0"),
    ("aliases: [assistant]\n    maxModelLen: 32768", f"maxModelLen: {2**31}", "LC1025", str(2**31)),
    ("variants: [{name: cpu, accelerator: cpu-x86, target: here}]", "variants: []", "LC1026", "[]"),
    ("executable: vllm", 'executable: ""', "LC1027", '""'),
    ("executable: vllm", f"executable: {'x' * 4097}", "LC1027", "x" * 4097),
    # names
    ("name: prod", "name: Prod", "LC1040", "Prod"),
    ("name: prod", "name: -prod", "LC1040", "-prod"),
    ("name: prod", f"name: {'x' * 64}", "LC1040", "x" * 64),
    ("name: prod", 'name: ""', "LC1040", '""'),
    ("aliases: [assistant]", 'aliases: ["a b"]', "LC1040", '"a b"'),
    ("accelerator: google-tpu-v6e", "accelerator: TPU v6e", "LC1040", "TPU v6e"),
    ("servedName: q", 'servedName: "q\\n"', "LC1040", '"q\\n"'),
    ("blockSize: 16", "block-size: 16", "LC1041", "block-size"),
    ("blockSize: 16", "BlockSize: 16", "LC1041", "BlockSize"),
    ("blockSize: 16", '"": 16', "LC1041", '""'),
    ("[--seed, ", "[--seed 7, ", "LC1042", "--seed 7"),
    ("[--seed, ", '["", ', "LC1042", '""'),
    # numbers
    ("pricePerDeviceHour: 2.95", "pricePerDeviceHour: .nan", "LC1043", ".nan"),
    ("pricePerDeviceHour: 2.95", "pricePerDeviceHour: .inf", "LC1043", ".inf"),
    ("sampleRatio: 0.5", "sampleRatio: .NaN", "LC1043", ".NaN"),
    ("blockSize: 16", "blockSize: -.inf", "LC1043", "-.inf"),
    ("blockSize: 16", "blockSize: 1e999", "LC1043", "1e999"),
    ("blockSize: 16", f"blockSize: {2**63}", "LC1043", str(2**63)),
    ("replicas: 4", f"replicas: {'9' * 300}", "LC1025", "9" * 300),
    ("replicas: 4", f"replicas: {'9' * 5000}", "LC1023", "9" * 5000),
    # durations
    ("p50: 500ms", "p50: 500", "LC1044", "500"),
    ("p50: 500ms", "p50: 500 ms", "LC1044", "500 ms"),
    ("p50: 500ms", "p50: 5d", "LC1044", "5d"),
    ("p50: 500ms", "p50: 5min", "LC1044", "5min"),
    ("p50: 500ms", "p50: 30s1m", "LC1044", "30s1m"),
    ("p50: 500ms", "p50: 1m 30s", "LC1044", "1m 30s"),
    ("p50: 500ms", 'p50: ""', "LC1044", '""'),
    ("p50: 500ms", "p50: -5ms", "LC1044", "-5ms"),
    ("p50: 500ms", "p50: 0ms", "LC1044", "0ms"),
    ("p50: 500ms", "p50: 0.5us", "LC1044", "0.5us"),
    ("p50: 500ms", "p50: 86401s", "LC1044", "86401s"),
    ("p50: 500ms", "p50: 24h1us", "LC1044", "24h1us"),
    ("p50: 500ms", "p50: true", "LC1044", "true"),
    ("p50: 500ms", "p50: [1s]", "LC1044", "[1s]"),
    ("timeout: 999ms", "timeout: 0.5ms", "LC1044", "0.5ms"),
    ("timeout: 999ms", "timeout: 0s", "LC1044", "0s"),
    ("slowStart: 0s", "slowStart: 0", "LC1044", "0"),
    ("slowStart: 0s", "slowStart: 1500us", "LC1044", "1500us"),
    ("total: 1h", "total: 0h", "LC1044", "0h"),
    # sizes
    ("body: 64Mi", "body: 64", "LC1048", "64"),
    ("body: 64Mi", "body: 64MB", "LC1048", "64MB"),
    ("body: 64Mi", "body: 0Mi", "LC1048", "0Mi"),
    ("body: 64Mi", "body: 1.5Gi", "LC1048", "1.5Gi"),
    ("body: 64Mi", "body: 1025Gi", "LC1048", "1025Gi"),
    # paths of an engine's own server
    ("path: /health", "path: health", "LC1049", "health"),
    ("path: /health", "path: http://x/health", "LC1049", "http://x/health"),
    ("path: /health", "path: '/a b'", "LC1049", "'/a b'"),
    ("path: /health", "path: '/health#x'", "LC1049", "'/health#x'"),
    # numbers of the router
    ("failures: 5", "failures: -1", "LC1025", "-1"),
    ("failures: 5", "failures: 1.5", "LC1023", "1.5"),
    ("minRequests: 20", "minRequests: 0", "LC1025", "0"),
    ("failurePercent: 50", "failurePercent: 101", "LC1025", "101"),
    ("maxPercent: 40", "maxPercent: 40%", "LC1023", "40%"),
    ("successes: 1", "successes: 0", "LC1025", "0"),
    ("connections: 9000", "connections: 0", "LC1025", "0"),
    ("imageTokens: 256", "imageTokens: 65537", "LC1025", "65537"),
    ("imageTokens: 256", "pictureTokens: 256", "LC1020", "pictureTokens"),
    ("attempts: 3", "attempts: 0", "LC1025", "0"),
    ("budgetPercent: 20", "budgetPercent: 0.2", "LC1023", "0.2"),
    ("retry: {attempts", "retry: {tries: 1, attempts", "LC1020", "tries"),
    # addresses
    ("uri: hf://Qwen/Qwen3-32B", "uri: hf://Qwen3-32B", "LC1045", "hf://Qwen3-32B"),
    ("uri: hf://Qwen/Qwen3-32B", "uri: hf://Q/Q@main", "LC1045", "hf://Q/Q@main"),
    ("uri: hf://Qwen/Qwen3-32B", "uri: s3://bucket/q", "LC1045", "s3://bucket/q"),
    ("uri: ./tiny", "uri: Qwen/Qwen3-32B", "LC1045", "Qwen/Qwen3-32B"),
    ("uri: ./tiny", "uri: file://tiny", "LC1045", "file://tiny"),
    ("http://10.0.0.7:8000", "10.0.0.7:8000", "LC1046", '"10.0.0.7:8000"'),
    ("http://10.0.0.7:8000", "http://", "LC1046", '"http://"'),
    ("http://10.0.0.7:8000", "http://h:99999", "LC1046", '"http://h:99999"'),
    ("http://10.0.0.7:8000", "http://[::1", "LC1046", '"http://[::1"'),
    ("http://10.0.0.7:8000", "http://h:80/v1", "LC1046", '"http://h:80/v1"'),
    ("http://10.0.0.7:8000", "http://u:p@h:80", "LC1046", '"http://u:p@h:80"'),
    ("http://10.0.0.7:8000", "http://h:80?x=1", "LC1046", '"http://h:80?x=1"'),
    ("http://10.0.0.7:8000", "https://h:80/v1", "LC1046", '"https://h:80/v1"'),
    ("http://127.0.0.1:4318", "collector:4318", "LC1046", '"collector:4318"'),
    ("http://127.0.0.1:4318", "https://c:4318", "LC1051", '"https://c:4318"'),
    # hosts of routes
    *(
        (
            "routing: {",
            f"gateway: {{name: a, hostnames: [{host}]}}\n    routing: {{",
            "LC1040",
            host,
        )
        for host in ("'llm.example:443'", "10.0.0.7", "'*.*.example'", "LLM.example", "'*'")
    ),
    # YAML's old words
    ("unsafe: true", "unsafe: yes", "LC1018", "yes"),
    ("enforceEager: true", "enforceEager: On", "LC1018", "On"),
    ("blockSize: 16", "blockSize: 016", "LC1018", "016"),
    ("blockSize: 16", "blockSize: 1_000", "LC1018", "1_000"),
    ("blockSize: 16", "blockSize: 1:30", "LC1018", "1:30"),
]


@pytest.mark.parametrize(("before", "after", "code", "under"), CASES)
def test_one_spoilt_value_is_one_placed_problem(
    valid: str, complain: Complain, before: str, after: str, code: str, under: str
) -> None:
    assert before in valid
    problems = complain(valid.replace(before, after, 1))
    assert [(p.code, caret(p)) for p in problems] == [(code, under)]


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        ("replicas: 4", 'replicas: "4"', "Remove the quotes: 4."),
        ("version: 0.32.0", "version: 0.10", 'Put it in quotes: "0.10".'),
        ("unsafe: true", 'unsafe: "true"', "Remove the quotes: true."),
        ("blockSize: 16", "block-size: 16", "Write blockSize."),
        ("p50: 500ms", "p50: 500", "Write 500ms or 500s."),
        ("name: prod", "name: My Fleet", "Write my-fleet."),
        ("[--seed, ", "[--seed 7, ", 'Write extraArgs: [--seed, "7", "7"].'),
        ('[--seed, "7"]', "[--max_num_seqs 256]", 'Write extraArgs: [--max_num_seqs, "256"].'),
        ('[--seed, "7"]', "--max-num-seqs 256", 'Write extraArgs: [--max-num-seqs, "256"].'),
        ('[--seed, "7"]', "--a=1 --b yes", 'Write extraArgs: [--a=1, --b, "yes"].'),
        ('[--seed, "7"]', "['--x {\"a\": 1}']", """Write extraArgs: [--x, '{"a": 1}']."""),
        ("uri: ./tiny", "uri: a/b", "Write hf://a/b for Hugging Face, or ./a/b for a folder"),
        ("uri: ./tiny", "uri: s3://a/b", "Known are hf://ORG/NAME, file:///DIR,"),
        ("replicas: 4", "objective: cost", "objective belongs in spec.router.routing."),
        ("revision: main", "role: both", "role belongs in spec.models[].variants[]."),
        # a word, a list or nothing where a map is meant
        ("engine: {name: sim}", "engine: sim", "Write engine: {name: sim}."),
        ("engine: {name: sim}", "engine: [sim]", "Write engine: {name: …}."),
        ("metadata: {name: prod}", "metadata: prod", "Write metadata: {name: prod}."),
        (URL, "endpoint: http://h:80", "Write endpoint: {url: http://h:80}."),
        ("slo: {ttft: {p50: 500ms, p95: 800ms}", "slo: {ttft: 800ms", "Write ttft: {p95: 800ms}."),
        ("ttft: {p50: 500ms, p95: 800ms}", "ttft: 800", "Write ttft: {p95: 800ms}."),
        ("itl: {p95: 40ms}", "itl: 40 ms", "Write itl: {p95: 40ms}."),
        ("itl: {p95: 40ms}", "itl: fast", "Write itl: {p95: …}."),
        # served names
        ("aliases: [assistant]", "aliases: ['gpt 4o']", "A space is not allowed: write gpt-4o."),
        ("aliases: [assistant]", "aliases: [gpt*4]", '"*" is not allowed: write gpt-4.'),
        ("aliases: [assistant]", "aliases: ['ü']", '"ü" is not allowed.'),
        ("aliases: [assistant]", "aliases: [-x]", "Start it with a letter or a digit."),
        ("aliases: [assistant]", f"aliases: [{'x' * 130}]", "Write at most 127 characters; it"),
        # words from elsewhere
        ("replicas: 4", "gpus: 2", "Write tensor: 2 under parallelism."),
        ("parallelism: {tensor: 2}", "tensorParallelSize: 2", "Write parallelism: {tensor: 2}."),
        ("{tensor: 2}", "{tensor_parallel_size: 2}", "Write tensor: 2."),
        ("accelerator: nvidia-h100", "gpu: H100", "Write accelerator: and the name of a profile"),
        ("nodes: 2", "count: 8", "Write devicesPerNode for the devices of one machine, and nodes"),
        ("itl: {", "tpot: {", "Write itl."),
        ("p50: 500ms, p95", "p50: 500ms, p90", "Write p95: 800ms."),
        ("router:\n", "router:\n    port: 80\n", "`llmd-ctl status` says which."),
        # a space that is missing
        ("{name: prod}", "{name:prod}", "Put a space after the colon: name: prod"),
        ("metadata: {", "metadata:{", "Put a space after the colon: metadata: {name: prod}"),
        ("{maxNumSeqs: 256}", "[a]", "Write engineArgs: {maxNumSeqs: 128}. Raw flags go into"),
        ("{maxNumSeqs: 256}", "--x", "Write engineArgs: {maxNumSeqs: 128}. Raw flags go into"),
        ("- {name: here, kind: local}", "- here", "Write - {name: …, kind: …}."),
        # a word or a map where a list is meant
        ("aliases: [assistant]", "aliases: assistant", "Write aliases: [assistant]."),
        ("[./mine.yaml]", "./mine.yaml", "Write profiles: [./mine.yaml]."),
        (CPU, "variants: {name: cpu}", "Put a dash before each item under `variants:`"),
        (CPU, "variants: cpu", "Write variants: [{name: …, accelerator: …}]."),
        (CPU, "variants: []", "Add one: - {name: …, accelerator: …}."),
        # numbers, as people write them
        ("maxModelLen: 16384", "maxModelLen: 16k", "Write maxModelLen: 16384 or 16000."),
        ("maxModelLen: 16384", 'maxModelLen: "16,384"', "Write maxModelLen: 16384."),
        ("replicas: 4", "replicas: 4.0", "Write replicas: 4."),
        ("replicas: 4", "replicas: four", "Write digits alone after `replicas:`"),
        ("replicas: 4", "replicas: [4]", "Write one value after `replicas:`"),
        ("sampleRatio: 0.5", "sampleRatio: 50%", "Write sampleRatio: 0.5."),
        ("unsafe: true", "unsafe: 1", "Write unsafe: true or unsafe: false."),
        ("tensor: 2", "tensor: 0", "Write 1 to 1024, or leave tensor out for the default."),
        ("replicas: 4", "replicas: -1", "Write 0 to 10000, or leave replicas out for 1."),
        # durations and sizes, as people write them
        ("total: 1h", "total: 60 min", "Write 60m."),
        ("total: 1h", "total: 1 hour", "Write 1h."),
        ("total: 1h", "total: 30s1m", "Write 1m30s."),
        ("total: 1h", "total: 1.5", "Write 1.5ms or 1.5s."),
        ("total: 1h", 'total: "90"', "Write 90ms or 90s."),
        ("total: 1h", "total: 2d", "Write it with its unit: 800ms, 1.5s, 5m or 1h30m."),
        ("total: 1h", "total: 25h", "Write 24h at most."),
        ("total: 1h", "total: 0s", "Write 1us at least, and no part of one."),
        ("timeout: 999ms", "timeout: 1500us", "Write 1ms."),
        ("body: 64Mi", "body: 64MB", "Write 64Mi."),
        ("body: 64Mi", "body: 64MiB", "Write 64Mi."),
        ("body: 64Mi", "body: 1.5Gi", "Write 1536Mi."),
        ("body: 64Mi", "body: 64", "Write 64Ki or 64Mi or 64Gi."),
        ("body: 64Mi", "body: 67108864", "Write 64Mi."),
        ("body: 64Mi", "body: large", "Write it with its unit: 64Mi."),
        # paths and addresses
        ("path: /health", "path: health", "Write /health."),
        ('"http://10.0.0.7:8000"', "10.0.0.7:8000", "Write http://10.0.0.7:8000."),
        ("servedName: q", "tls: {serverName: 'a b'}, servedName: q", "Write a name such as"),
        ("[./mine.yaml]", "[./mine.yaml, ./mine.yaml]", "List each file once."),
    ],
)
def test_the_hint_says_what_to_write(
    valid: str, complain: Complain, before: str, after: str, hint: str
) -> None:
    assert before in valid
    assert hint in complain(valid.replace(before, after, 1))[0].remedy


@pytest.mark.parametrize(
    ("before", "after", "suggestion"),
    [
        ("replicas: 4", "replica: 4", "replicas"),
        ("replicas: 4", "Replicas: 4", "replicas"),
        ("maxModelLen: 16384", "max_model_len: 16384", "maxModelLen"),
        ("objective: latency", "objective: latncy", "latency"),
        ("scheduler: expected-finish", "scheduler: roundrobin", "round-robin"),
        ("apis: [chat, completions]", "apis: [completion]", "completions"),
        ("imageTokens: 256", "imageToken: 256", "imageTokens"),
        ("engine: {name: sim}", "engine: {name: llama.cpp}", "llamacpp"),
        ("target: there, engine", "target: ther, engine", "there"),
        ("metadata: {name: prod}", "metadata: {name: prod, zzz: 1}", None),
    ],
)
def test_a_near_miss_is_recognised(
    valid: str, complain: Complain, before: str, after: str, suggestion: str | None
) -> None:
    problems = complain(valid.replace(before, after, 1))
    assert problems[0].suggestion == suggestion


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        ("accelerator: nvidia-h100\n      target", "acelerator: x\n      target", "acelerator"),
        ("accelerator: nvidia-h100\n      target", "gpu: x\n      target", "gpu"),
        ("uri: ./tiny", "model: ./tiny", "model"),
        ("metadata: {name", "metdata: {name", "metdata"),
        ("{name: prod}", "{name:prod}", "name:prod"),
        ("profiles: [./mine.yaml]", "profiles:\n  -{accelerator: cpu-x86}", "-{accelerator"),
    ],
)
def test_a_key_that_is_written_wrongly_is_not_missing_as_well(
    valid: str, complain: Complain, before: str, after: str, key: str
) -> None:
    assert before in valid
    problems = complain(valid.replace(before, after, 1))
    unknown = [(p.code, p.found) for p in problems if p.code in {"LC1020", "LC1021", "LC1022"}]
    assert ("LC1020", key) in unknown
    assert not any(code != "LC1020" for code, _ in unknown)


def test_a_name_with_underscores_is_not_told_of_dashes(valid: str, complain: Complain) -> None:
    (problem,) = complain(valid.replace("gpuMemoryUtilization", "gpu_memory_utilization"))
    assert problem.message.endswith("an engine argument is named in camelCase")
    assert problem.remedy == "Write gpuMemoryUtilization."


def test_a_split_command_line_is_accepted(valid: str, load: Load) -> None:
    (loaded,) = load(valid.replace('[--seed, "7"]', '[--max-num-seqs, "256"]'))
    assert loaded.fleet.spec.models[0].variants[0].extra_args == ["--max-num-seqs", "256"]


def test_words_from_elsewhere_are_looked_for_where_a_map_is_and_as_they_are_folded() -> None:
    for home, words in SYNONYMS.items():
        assert keys_at(home)
        assert all(word.casefold().isalnum() for word in words)
        assert all(words[word].format(value=1).endswith(".") for word in words)


def test_values_are_read_in_their_units(valid: str, load: Load) -> None:
    (loaded,) = load(valid.replace("itl: {p95: 40ms}", "itl: {p50: 250us, p95: 1.5s}"))
    slo = loaded.fleet.spec.models[0].slo
    assert slo is not None
    assert slo.ttft is not None
    assert slo.itl is not None
    assert (slo.ttft.p50, slo.ttft.p95, slo.ttft.p99) == (500_000, 800_000, None)
    assert (slo.itl.p50, slo.itl.p95) == (250, 1_500_000)


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        ("1ms", 1), ("1.5s", 1_500), ("90s", 90_000), ("5m", 300_000), ("1m30s", 90_000),
        ("0.5h", 1_800_000), ("1h", 3_600_000), ("1h30m", 5_400_000), ("24h", 86_400_000),
        ("2m5ms", 120_005), ("1s1000us", 1_001),
    ],
)  # fmt: skip
def test_a_duration_is_written_as_elsewhere(
    valid: str, load: Load, written: str, milliseconds: int
) -> None:
    (loaded,) = load(valid.replace("total: 1h", f"total: {written}"))
    assert loaded.fleet.spec.router.resilience.limits.total == milliseconds


def test_engine_arguments_keep_their_kind(valid: str, load: Load) -> None:
    variant = load(valid)[0].fleet.spec.models[0].variants[0]
    assert variant.engine_args == {
        "blockSize": 16,
        "enforceEager": True,
        "gpuMemoryUtilization": 0.9,
    }
    assert isinstance(variant.engine_args["enforceEager"], bool)
    assert variant.extra_args == ["--seed", "7"]


@pytest.mark.parametrize(
    ("written", "value"),
    [("0x10", 16), ("+16", 16), ("-0", 0), ("1e3", 1000.0), (".5", 0.5), ("FALSE", False)],
)
def test_plain_words_are_read_as_yaml_1_2_has_them(
    valid: str, load: Load, written: str, value: object
) -> None:
    (loaded,) = load(valid.replace("blockSize: 16", f"blockSize: {written}"))
    read = loaded.fleet.spec.models[0].variants[0].engine_args["blockSize"]
    assert (read, type(read)) == (value, type(value))


def test_all_problems_are_told_at_once_in_the_order_of_the_file(
    valid: str, complain: Complain
) -> None:
    spoilt = valid
    spoils = [
        ("kind: Fleet", "kind: Fleets", "LC1024"),
        ("name: prod", "name: Prod", "LC1040"),
        ("target: here, accelerator", "target: hare, accelerator", "LC1061"),
        ("aliases: [assistant]", "aliases: [chat]", "LC1060"),
        ("replicas: 4", "replica: 4", "LC1020"),
        ("objective: latency", "objective: ~", "LC1022"),
    ]
    for before, after, _ in spoils:
        spoilt = spoilt.replace(before, after, 1)
    assert [p.code for p in complain(spoilt)] == [code for _, _, code in spoils]


@pytest.mark.parametrize(
    "revision", ["main", "v1.0.2", "refs/pr/7", "feature/x_y+z", '"8f5b1e4"', "a" * 40]
)
def test_a_revision_is_written_as_git_writes_it(valid: str, load: Load, revision: str) -> None:
    (loaded,) = load(valid.replace("revision: main", f"revision: {revision}"))
    assert loaded.fleet.spec.models[0].revision == revision.strip('"')


def test_a_limit_is_told_in_all_its_digits(valid: str, complain: Complain) -> None:
    (problem,) = complain(valid.replace("maxModelLen: 32768", "maxModelLen: 2147483648"))
    assert problem.message == "maxModelLen must be at most 2147483647"
    (problem,) = complain(valid.replace("pricePerDeviceHour: 2.95", "pricePerDeviceHour: -0.5"))
    assert problem.message == "pricePerDeviceHour must be at least 0"


@pytest.mark.parametrize(
    ("host", "taken"), [("h:1", False), ("a:b", False), ("10.0.0.7:8000", False), ("::1", True)]
)
def test_a_colon_in_a_host_is_one_of_an_address(
    valid: str, complain: Complain, load: Load, host: str, *, taken: bool
) -> None:
    text = valid.replace(
        "{name: here, kind: local}", f"{{name: here, kind: systemd, hosts: ['{host}']}}"
    )
    if taken:
        assert load(text)
    else:
        (problem,) = complain(text)
        assert problem.code == "LC1046"
