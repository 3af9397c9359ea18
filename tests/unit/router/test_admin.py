"""The admin client and the engine check: every odd answer is a reason, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from llmd_ctl.apply.network import RealNetwork
from llmd_ctl.router.admin import RouterAdmin, RouterAway
from llmd_ctl.router.answer import EndpointHealth, RetryBudget

STATUS = {
    "version": "1",
    "ready": True,
    "draining": False,
    "config": {"loadedAt": 1, "error": "listen", "needsRestart": True},
    "certificates": {"problems": ["listen.tls: the key does not fit"]},
    "models": [
        {
            "name": "chat",
            "scheduler": "expected-finish",
            "bytesPerToken": 4.0,
            "retryBudget": {"left": 9.5, "used": 3, "refused": 1},
            "endpoints": [
                {
                    "name": "chat-a-0-1",
                    "state": "ready",
                    "inflightRequests": 2,
                    "more": 1,
                    "unreachable": "connection refused",
                    "simulated": True,
                    "degraded": ["load last reported 11.5s ago"],
                    "health": {
                        "state": "out",
                        "why": "checks",
                        "outForMs": 4000,
                        "outAtLeastMs": 1500,
                        "breaker": "closed",
                        "check": "failed",
                    },
                }
            ],
        }
    ],
}


def client(answer: Callable[[httpx.Request], httpx.Response]) -> httpx.Client:
    return httpx.Client(transport=httpx.MockTransport(answer))


def admin(status: int, body: Any, headers: dict[str, str] | None = None) -> RouterAdmin:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return RouterAdmin(
        client(lambda _request: httpx.Response(status, content=content, headers=headers))
    )


def test_status_is_read_as_far_as_it_is_needed() -> None:
    status = admin(200, STATUS).status("http://r")
    endpoint = status.endpoint("chat", "chat-a-0-1")
    assert endpoint is not None
    assert (endpoint.state, endpoint.inflight) == ("ready", 2)
    assert endpoint.degraded == ("load last reported 11.5s ago",)
    assert endpoint.health == EndpointHealth("out", "checks", 4000, "failed", 1500)
    assert endpoint.unreachable == "connection refused"
    assert endpoint.simulated
    assert status.pools["chat"].retry_budget == RetryBudget(9.5, 3, 1)
    assert (status.config_error, status.needs_restart) == ("listen", True)
    assert status.certificates == ("listen.tls: the key does not fit",)
    assert status.endpoint("chat", "x") is None
    assert status.endpoint("x", "x") is None


def test_a_router_that_drains_already_needs_no_restart() -> None:
    assert not admin(200, {**STATUS, "draining": True}).status("http://r").needs_restart


@pytest.mark.parametrize(
    ("code", "body"),
    [(500, STATUS), (200, b"<html>"), (200, b"[]"), (200, {"ready": True}), (404, b"")],
)
def test_an_odd_status_is_a_router_that_is_away(code: int, body: Any) -> None:
    with pytest.raises(RouterAway):
        admin(code, body).status("http://r")


def test_a_probe_carries_the_key_and_tells_latency_and_simulation() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"ok": True, "latencyMs": 12.5, "simulated": True})

    reply = RouterAdmin(client(answer)).probe("http://r", "secret", "chat", "e", 5.0)
    assert (reply.ok, reply.latency_ms, reply.simulated) == (True, 12.5, True)
    assert seen[0].headers["authorization"] == "Bearer secret"
    assert json.loads(seen[0].content) == {"model": "chat", "endpoint": "e"}


@pytest.mark.parametrize(
    ("code", "body", "reason"),
    [
        (502, {"ok": False, "reason": "refused"}, "refused"),
        (401, {"error": {"message": "no key"}}, "HTTP 401: no key"),
        (200, {"ok": False, "reason": "slow"}, "slow"),
        (200, b"null", ""),
        (500, b"oops", "HTTP 500: oops"),
    ],
)
def test_a_failed_probe_says_why(code: int, body: Any, reason: str) -> None:
    reply = admin(code, body).probe("http://r", "k", "chat", "e", 5.0)
    assert not reply.ok
    assert reply.reason == reason


def test_a_completion_tells_whether_the_answer_was_simulated() -> None:
    real = admin(200, {"choices": []}).complete("http://r", "chat", None, 5.0)
    assert (real.ok, real.simulated) == (True, False)
    made = admin(200, {}, {"x-llmd-ctl-simulated": "true"}).complete("http://r", "chat", None, 5.0)
    assert made.simulated
    refused = admin(503, {"error": {"message": "no endpoint"}}).complete(
        "http://r", "chat", None, 5.0
    )
    assert (refused.ok, refused.reason) == (False, "HTTP 503: no endpoint")


def network(routes: dict[str, httpx.Response]) -> RealNetwork:
    made = RealNetwork()
    made.close()
    made._client = client(lambda request: routes[request.url.path])
    return made


HEALTHY = httpx.Response(200)


@pytest.mark.parametrize(
    ("health", "models", "reason"),
    [
        (HEALTHY, {"data": [{"id": "chat"}, {"id": "x"}]}, None),
        (HEALTHY, {"data": [{"id": "x", "aliases": ["chat"]}]}, None),
        (httpx.Response(503), {"data": [{"id": "chat"}]}, "/health answers 503"),
        (HEALTHY, {"data": [{"id": "other"}]}, "serves other, not chat"),
        (HEALTHY, {"data": []}, "serves no model, not chat"),
        (HEALTHY, {"data": [1]}, "/v1/models does not answer with a list of models"),
        (HEALTHY, [], "/v1/models does not answer with a list of models"),
    ],
)
def test_an_engine_is_ready_only_when_it_serves_the_right_model(
    health: httpx.Response, models: Any, reason: str | None
) -> None:
    routes = {"/health": health, "/v1/models": httpx.Response(200, json=models)}
    answer = network(routes).engine(1, "chat")
    assert answer.ok == (reason is None)
    assert answer.reason == (reason or "")


def test_an_engine_that_does_not_listen_yet_is_not_ready() -> None:
    made = RealNetwork()
    answer = made.engine(1, "chat")
    made.close()
    assert not answer.ok
    assert answer.reason.startswith("does not answer yet")


def test_a_question_that_takes_too_long_says_how_long() -> None:
    def hang(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("timed out", request=request)

    asked = RouterAdmin(client(hang))
    assert asked.probe("http://r", "k", "chat", "e", 30.0).reason == "no answer within 30 s"
    assert asked.complete("http://r", "chat", None, 30.0).reason == "no answer within 30 s"
