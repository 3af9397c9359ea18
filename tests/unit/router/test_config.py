"""router.yaml's typed objects say what the router reads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from llmd_ctl.router.config import DnsSource, ModelConfig, RouterConfig, VariantConfig


def test_of_a_name_only_what_is_said_is_written() -> None:
    short = DnsSource("chat-h100.llm.svc", 8000, "h100")
    assert short.to_document() == {
        "kind": "dns", "name": "chat-h100.llm.svc", "port": 8000, "variant": "h100",
    }  # fmt: skip


@pytest.mark.parametrize(("port", "code"), [(8000, 0), (0, 65)])
def test_the_router_reads_a_source_of_a_name(tmp_path: Path, port: int, code: int) -> None:
    source = DnsSource("chat.invalid.", port, "h100", interval_ms=60_000, resolver="127.0.0.1:9")
    variant = VariantConfig(
        "h100", "nvidia-h100", "vllm", simulated=False, served_name=None, apis=None, facts=None
    )
    model = ModelConfig(
        "chat", (), "latency", "expected-finish", "as-told", None, None, None,
        (variant,), (source,),
    )  # fmt: skip
    config = RouterConfig("f", "127.0.0.1:8000", "127.0.0.1:9090", "admin.key", (model,))
    (tmp_path / "admin.key").write_text("a-key-for-tests\n")
    file = tmp_path / "router.yaml"
    file.write_text(json.dumps(config.to_document()))
    argv = [sys.executable, "-m", "llmd_ctl.router", "--config", str(file), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert ("models[0].sources[0].port" in done.stderr) == (code != 0)
