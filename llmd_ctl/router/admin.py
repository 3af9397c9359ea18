"""A client of the router's admin and data ports, for the controller, apply and status.

It asks for status, sends probes and single completions. A router that is away, slow or answers
nonsense is one named error, RouterAway; it never retries and never changes the router's state.
Only `apply.network` loads it: a plan needs no HTTP client.
"""

from __future__ import annotations

import socket
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from llmd_ctl.router.answer import (
    Answer,
    EndpointHealth,
    EndpointStatus,
    PoolStatus,
    RetryBudget,
    RouterStatus,
)

Json = dict[str, Any]
STATUS_SECONDS = 2.0
HANDSHAKE_SECONDS = 5.0
END_OF_CERTIFICATE = "-----END CERTIFICATE-----"


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

    def probe(self, admin_url: str, key: str, model: str, endpoint: str, seconds: float) -> Answer:
        """POST /probe: one token from that endpoint, through the data path."""
        try:
            response = self._client.post(
                f"{admin_url}/probe",
                json={"model": model, "endpoint": endpoint},
                headers={"authorization": f"Bearer {key}"},
                timeout=seconds,
            )
        except httpx.TimeoutException:
            return Answer(ok=False, reason=f"no answer within {seconds:.0f} s")
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

    def complete(self, url: str, model: str, certificate: str | None, seconds: float) -> Answer:
        """POST /v1/completions on the data port: one token, as a user would ask for it.

        `certificate` is the file with what an https port must show.
        """
        if certificate is None:
            return self._complete(self._client, url, model, seconds)
        with httpx.Client(verify=_believing(certificate), trust_env=False) as client:
            return self._complete(client, url, model, seconds)

    def shake_hands(self, url: str, certificate: str) -> None:
        """See that the data port shows this certificate; raises RouterAway.

        All that can be seen of a port that lets in only clients with a certificate of theirs.
        """
        address = urlsplit(url)
        context = _believing(certificate)
        try:
            plain = socket.create_connection(
                (address.hostname or "", address.port or 0), timeout=HANDSHAKE_SECONDS
            )
            with plain, context.wrap_socket(plain):
                pass
        except OSError as error:
            raise RouterAway(f"{url}: {error}") from error

    @staticmethod
    def _complete(client: httpx.Client, url: str, model: str, seconds: float) -> Answer:
        started = time.monotonic()
        try:
            response = client.post(
                f"{url}/v1/completions",
                json={"model": model, "prompt": "Hello", "max_tokens": 1},
                timeout=seconds,
            )
        except httpx.TimeoutException:
            return Answer(ok=False, reason=f"no answer within {seconds:.0f} s")
        except httpx.HTTPError as error:
            raise RouterAway(f"{url}/v1/completions: {error}") from error
        return Answer(
            ok=response.is_success,
            reason=_error_text(response, _object(response)),
            latency_ms=(time.monotonic() - started) * 1000.0,
            simulated=response.headers.get("x-llmd-ctl-simulated") == "true",
        )


def _believing(certificate: str) -> ssl.SSLContext:
    """Believe the first certificate of a file and no other, under whatever name it is reached."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        first, end, _ = Path(certificate).read_text("ascii").partition(END_OF_CERTIFICATE)
        context.load_verify_locations(cadata=f"{first}{end}\n")
    except (OSError, ValueError) as error:
        raise RouterAway(f"the certificate {certificate} cannot be used: {error}") from error
    return context


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
                item.get("unreachable"),
                item.get("simulated") is True,
            )
            for item in model["endpoints"]
        }
        budget = _parse_budget(model.get("retryBudget"))
        pools[model["name"]] = PoolStatus(model["name"], model["scheduler"], endpoints, budget)
    config = document["config"]
    # One that drains goes already; to be told again would cut the requests that it has.
    needs_restart = config.get("needsRestart") is True and not document.get("draining")
    return RouterStatus(
        bool(document["ready"]),
        config.get("error"),
        pools,
        needs_restart,
        tuple(document.get("certificates", {}).get("problems", ())),
    )


def _parse_budget(document: Json | None) -> RetryBudget | None:
    if document is None:
        return None
    return RetryBudget(float(document["left"]), int(document["used"]), int(document["refused"]))


def _parse_health(document: Json | None) -> EndpointHealth | None:
    if document is None:
        return None
    return EndpointHealth(
        str(document["state"]),
        document["why"],
        _whole(document["outForMs"]),
        str(document["check"]),
        _whole(document.get("outAtLeastMs")),
    )


def _whole(number: Any) -> int | None:
    return None if number is None else int(number)


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
