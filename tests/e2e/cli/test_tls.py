"""TLS of the router, from fleet.yaml to a client: restarts, renewals, and who is let in."""

import re
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.certificates import Authority
from tests.e2e.cli.command import document, run

pytestmark = pytest.mark.slow

FLEET = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: secure}
spec:
  targets: [{name: here, kind: local}]
  router:
    resilience: {}
  models:
  - name: chat
    uri: hf://meta-llama/Llama-3.1-8B-Instruct
    maxModelLen: 8192
    variants: [{name: h100, accelerator: nvidia-h100}]
"""
RESILIENCE = "resilience: {}"
TLS = "tls: {certFile: ./router.crt, keyFile: ./router.key}\n    resilience: {}"
CLIENTS = TLS.replace("}\n", ", clientCaFile: ./clients.crt}\n", 1)
ASK = {"model": "chat", "prompt": "Hi", "max_tokens": 2}


@pytest.fixture
def fleet(tmp_path: Path, state_home: Path) -> Iterator[Path]:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    yield path
    run("delete", path, "--yes")


def until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def believing(authority: Authority, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.file)
    if own is not None:
        context.load_cert_chain(*own)
    return context


def ask(url: str, tls: ssl.SSLContext) -> httpx.Response:
    with httpx.Client(verify=tls, trust_env=False, timeout=30.0) as client:
        return client.post(f"{url}/v1/completions", json=ASK)


def shown(url: str, authority: Authority) -> bytes | None:
    """The certificate that the port shows."""
    with httpx.Client(verify=believing(authority), trust_env=False) as client:
        stream = client.get(f"{url}/v1/models").extensions["network_stream"]
        found: bytes | None = stream.get_extra_info("ssl_object").getpeercert(True)  # noqa: FBT003 - it takes no name
        return found


def seen(fleet: Path, code: int = 0) -> tuple[dict[str, Any], str]:
    """The status, and when the router's process started."""
    status = document("status", fleet, code=code)
    page = httpx.get(f"{status['router']['adminUrl']}/metrics", trust_env=False).text
    found = re.search(r"^process_start_time_seconds (\S+)", page, re.MULTILINE)
    assert found
    return status, found[1]


def replicas(status: dict[str, Any]) -> list[int]:
    return [r["pid"] for m in status["models"] for v in m["variants"] for r in v["replicas"]]


def test_tls_is_switched_on_and_renewed_and_the_engines_stay(fleet: Path) -> None:
    authority = Authority(fleet.parent)
    authority.sign("router")
    plain = document("apply", fleet, "--simulate")["router"]["url"]
    before, started = seen(fleet)
    assert plain.startswith("http://")

    fleet.write_text(FLEET.replace(RESILIENCE, TLS))
    (change,) = document("diff", fleet, "--simulate", code=1)["changes"]
    assert (change["router"], change["restarts"]) == ("restarts", 0)
    assert "(restarts the router): spec.router.tls.certFile: nothing" in run(
        "diff", fleet, "--simulate", code=1
    ).stdout.replace("\n", " ")
    done = run("apply", fleet, "--simulate", "--yes")
    url = plain.replace("http://", "https://")
    assert f"serves chat at {url}/v1" in done.stdout
    answer = ask(url, believing(authority))
    assert answer.json()["choices"]
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(url, ssl.create_default_context())
    after, again = seen(fleet)
    assert after["router"]["url"] == url
    assert (replicas(after), after["converged"]) == (replicas(before), True)
    assert again != started

    old = shown(url, authority)
    authority.sign("router")
    until(lambda: shown(url, authority) != old)
    assert seen(fleet)[1] == again
    assert not document("diff", fleet, "--simulate")["changes"]


def test_a_certificate_that_does_not_fit_is_told_and_the_old_one_stays(fleet: Path) -> None:
    authority = Authority(fleet.parent)
    _, key = authority.sign("router")
    fleet.write_text(FLEET.replace(RESILIENCE, TLS))
    url = document("apply", fleet, "--simulate")["router"]["url"]
    before, started = seen(fleet)
    assert before["router"]["certificates"] == {"problems": []}

    key.write_bytes(authority.sign("other")[1].read_bytes())
    until(lambda: document("status", fleet)["router"]["certificates"]["problems"])
    told = " ".join(run("status", fleet).stderr.split())  # it is wrapped
    assert "the old certificates stay" in told
    assert ask(url, believing(authority)).is_success

    # What would not start again is not restarted for.
    fleet.write_text(fleet.read_text().replace("router.crt", "other.crt"))
    authority.sign("another")
    key.write_bytes((fleet.parent / "another.key").read_bytes())
    run("apply", fleet, "--simulate", "--yes", "--no-wait")
    until(lambda: document("status", fleet, code=1)["problems"])
    assert seen(fleet, code=1)[1] == started
    assert ask(url, believing(authority)).is_success


def test_clients_need_a_certificate_where_the_fleet_says_so(fleet: Path) -> None:
    authority, clients = Authority(fleet.parent), Authority(fleet.parent, "clients")
    authority.sign("router")
    own = clients.sign("me")
    fleet.write_text(FLEET.replace(RESILIENCE, CLIENTS))
    url = document("apply", fleet, "--simulate")["router"]["url"]
    assert ask(url, believing(authority, own)).is_success
    with pytest.raises(httpx.HTTPError):
        ask(url, believing(authority))

    load = ("load", f"{url}/v1", "--model", "chat", "--rate", 4, "--seconds", 1)
    trust = ("--ca-file", authority.file)
    mine = ("--client-cert", own[0], "--client-key", own[1])
    sent = document(*load, *trust, *mine)
    assert sent["ended"]["done"] == sent["requests"] > 0
    assert "LC6010" in run(*load, *trust, code=1).stderr
    assert "CERTIFICATE_VERIFY_FAILED" in run(*load, *mine, code=1).stderr


def test_a_change_of_what_the_router_does_is_taken_over_as_it_runs(fleet: Path) -> None:
    document("apply", fleet, "--simulate")
    before, started = seen(fleet)
    changed = FLEET.replace(RESILIENCE, "resilience: {limits: {keepAlive: 2m, connections: 100}}")
    changed = changed.replace("maxModelLen", "usage: exact\n    maxModelLen")
    fleet.write_text(changed.replace("-h100}", "-h100, apis: [chat, tokenize]}"))
    changes = document("diff", fleet, "--simulate", code=1)["changes"]
    assert [(c["model"], c["variant"], c["router"], c["restarts"]) for c in changes] == [
        (None, None, "reloads", 0),
        ("chat", None, "reloads", 0),
        ("chat", "h100", "reloads", 0),
    ]
    url = document("apply", fleet, "--simulate", "--yes")["router"]["url"]
    after, still = seen(fleet)
    assert (replicas(after), still) == (replicas(before), started)
    refused = httpx.post(f"{url}/v1/completions", json=ASK, trust_env=False)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "api_not_served")
