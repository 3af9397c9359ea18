"""A client of the router's admin and data ports, for the controller, apply and status.

It asks for status, sends probes and single completions. A router that is away, slow or answers
nonsense is one named error, RouterAway; it never retries and never changes the router's state.
Only `apply.network` loads it: a plan needs no HTTP client.
"""

from __future__ import annotations

import time
from typing import Any

import httpx

from llmd_ctl.router.answer import Answer, EndpointHealth, EndpointStatus, PoolStatus, RouterStatus

Json = dict[str, Any]
STATUS_SECONDS = 2.0
ANSWER_SECONDS = 120.0  # one token of a large model on a slow engine, after a cold start


class RouterAway(Exception):
    """The router did not answer, or not with what its contract says."""


class RouterAdmin:
    """One router, by the URLs it listens on."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def status(self, admin_url: str) -> RouterStatus:
        """GET /status; raises RouterAway."""
        try:
            response = self._client.get(f"{admin_url}/status", timeout=STATUS_SECONDS)
            response.raise_for_status()
            return _parse_status(response.json())
        except httpx.HTTPError as error:
            raise RouterAway(f"{admin_url}/status: {error}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RouterAway(f"{admin_url}/status: unexpected answer ({error!r})") from error

    def probe(self, admin_url: str, key: str, model: str, endpoint: str) -> Answer:
        """POST /probe: one token from that endpoint, through the data path."""
        try:
            response = self._client.post(
                f"{admin_url}/probe",
                json={"model": model, "endpoint": endpoint},
                headers={"authorization": f"Bearer {key}"},
                timeout=ANSWER_SECONDS,
            )
        except httpx.HTTPError as error:
            raise RouterAway(f"{admin_url}/probe: {error}") from error
        document = _object(response)
        reason = document.get("reason") or _error_text(response, document)
        return Answer(
            ok=response.status_code == httpx.codes.OK and document.get("ok") is True,
            reason=str(reason),
            latency_ms=float(document.get("latencyMs", 0.0)),
            simulated=document.get("simulated") is True,
        )

    def complete(self, url: str, model: str) -> Answer:
        """POST /v1/completions on the data port: one token, as a user would ask for it."""
        started = time.monotonic()
        try:
            response = self._client.post(
                f"{url}/v1/completions",
                json={"model": model, "prompt": "Hello", "max_tokens": 1},
                timeout=ANSWER_SECONDS,
            )
        except httpx.HTTPError as error:
            raise RouterAway(f"{url}/v1/completions: {error}") from error
        return Answer(
            ok=response.is_success,
            reason=_error_text(response, _object(response)),
            latency_ms=(time.monotonic() - started) * 1000.0,
            simulated=response.headers.get("x-llmd-ctl-simulated") == "true",
        )


def _parse_status(document: Json) -> RouterStatus:
    pools = {}
    for model in document["models"]:
        endpoints = {
            item["name"]: EndpointStatus(
                item["name"],
                item["state"],
                int(item["inflightRequests"]),
                tuple(item.get("degraded", ())),
                _parse_health(item.get("health")),
            )
            for item in model["endpoints"]
        }
        pools[model["name"]] = PoolStatus(model["name"], model["scheduler"], endpoints)
    return RouterStatus(bool(document["ready"]), document["config"].get("error"), pools)


def _parse_health(document: Json | None) -> EndpointHealth | None:
    if document is None:
        return None
    out_for = document["outForMs"]
    return EndpointHealth(
        str(document["state"]),
        document["why"],
        None if out_for is None else int(out_for),
        str(document["check"]),
    )


def _object(response: httpx.Response) -> Json:
    try:
        document = response.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _error_text(response: httpx.Response, document: Json) -> str:
    if response.is_success:
        return ""
    error = document.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return f"HTTP {response.status_code}: {message or response.text[:200]}"
