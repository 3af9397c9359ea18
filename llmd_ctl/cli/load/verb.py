"""`llmd-ctl load URL --model NAME`: send seeded traffic, log every request, say what came of it.

Reads as: check the options, plan the traffic, run it, summarize the log. Exits 1 when a request
was refused, broke off in silence or got no answer.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from llmd_ctl.cli.options import Output
from llmd_ctl.cli.output import Format

if TYPE_CHECKING:
    import ssl

    from llmd_ctl.cli.load.run import Progress as RunProgress

DEFAULT_MIX = "shared=0.4,session=0.3,short=0.2,long=0.1"
MOST_RATE = 10_000.0
MOST_SECONDS = 86_400.0


def load(  # noqa: PLR0913 - each option is an argument
    url: Annotated[str, typer.Argument(metavar="URL", help="A server, such as http://HOST:8000.")],
    *,
    model: Annotated[str, typer.Option("--model", help="The model's name.")],
    rate: Annotated[float, typer.Option("--rate", help="Requests a second, Poisson.")] = 4.0,
    seconds: Annotated[float, typer.Option("--seconds", help="How long requests start.")] = 20.0,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same requests.")] = 7,
    mix: Annotated[
        str, typer.Option("--mix", help="Kinds of request and their weights.")
    ] = DEFAULT_MIX,
    ca_file: Annotated[
        Path | None, typer.Option("--ca-file", help="Who signs an https server's certificate.")
    ] = None,
    client_cert: Annotated[
        Path | None, typer.Option("--client-cert", help="The certificate to show to the server.")
    ] = None,
    client_key: Annotated[
        Path | None, typer.Option("--client-key", help="The key of --client-cert.")
    ] = None,
    log: Annotated[Path | None, typer.Option("--log", help="Keep the raw log here.")] = None,
    output: Output = Format.text,
) -> int:
    """Send seeded traffic to an OpenAI server and measure it.

    Open loop: a request starts at its moment, however slow those before it are.
    """
    import asyncio
    import json
    import tempfile

    from llmd_ctl.cli.load.run import Target, run
    from llmd_ctl.cli.load.summary import summarize
    from llmd_ctl.cli.load.traffic import plan_traffic
    from llmd_ctl.cli.progress import Progress
    from llmd_ctl.errors import Interrupted

    url = url.rstrip("/").removesuffix("/v1")  # `apply` and `status` show it with /v1
    tls = trust(url, ca_file, client_cert, client_key)
    _check_range("--rate", rate, MOST_RATE)
    _check_range("--seconds", seconds, MOST_SECONDS)
    weights = parse_mix(mix)
    requests = plan_traffic(seed=seed, rate=rate, seconds=seconds, mix=weights)
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory()) if log is None else None
        path = log or Path(str(place)) / "load.jsonl"
        progress = stack.enter_context(Progress())
        target = Target(url, model, tls=tls)

        def show(state: RunProgress) -> None:
            progress.update(_line(state), passing=True)

        try:
            with _open_log(path) as file:
                asyncio.run(run(target, requests, file, show))
        except KeyboardInterrupt as error:
            raise Interrupted.of(
                "LC6005", "the load was stopped", hint="The log holds what had ended by then."
            ) from error
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    summary = summarize(lines)
    _print(summary, url, model, output)
    return 1 if _tell_failures(lines, url) else 0


def parse_mix(text: str) -> dict[str, float]:
    """Read `kind=weight,…`. Raises `UsageError`."""
    from llmd_ctl.cli.load.traffic import KINDS
    from llmd_ctl.errors import UsageError

    weights: dict[str, float] = {}
    for item in text.split(","):
        kind, _, weight = item.strip().partition("=")
        if kind not in KINDS:
            raise UsageError.of(
                "LC6002", "--mix has a kind that is not known", found=kind, allowed=KINDS
            )
        try:
            weights[kind] = float(weight)
        except ValueError:
            weights[kind] = -1.0
        if not 0 <= weights[kind] <= 1e6:
            hint = f"Write {kind}=0.5, for instance."
            raise UsageError.of("LC6002", "--mix has no weight here", found=item, hint=hint)
    if sum(weights.values()) <= 0:
        raise UsageError.of("LC6002", "all weights of --mix are 0", found=text)
    return weights


def trust(
    url: str, ca_file: Path | None, client_cert: Path | None, client_key: Path | None
) -> ssl.SSLContext | None:
    """Whom an https URL believes and what it is shown; None for http. Raises `UsageError`.

    Without --ca-file those are believed whom the system trusts. Nobody is believed unchecked.
    """
    import ssl

    from llmd_ctl.errors import UsageError

    given = {"--ca-file": ca_file, "--client-cert": client_cert, "--client-key": client_key}
    said = [option for option, file in given.items() if file is not None]
    if _scheme(url) == "http":
        if said:
            message = f"{said[0]} does nothing with an http address"
            raise UsageError.of("LC6004", message, found=url, hint="Write https://HOST:PORT.")
        return None
    if (client_cert is None) != (client_key is None):
        raise UsageError.of("LC6004", "--client-cert and --client-key need each other")
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if client_cert is not None:
            context.load_cert_chain(client_cert, client_key, password=_no_password)
    except (OSError, ValueError) as error:
        message = f"{' and '.join(said)} cannot be used: {error}"
        raise UsageError.of("LC6002", message, hint="Give PEM files.") from error
    return context


def _no_password() -> str:
    """A key with a password is refused, and nobody is asked for it."""
    raise ValueError("the key has a password")


def _scheme(url: str) -> str:
    """The scheme of an address that can be used. Raises `UsageError`."""
    from urllib.parse import urlsplit

    from llmd_ctl.errors import UsageError

    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        good = good and not parts.query and not parts.fragment
    except ValueError:
        good = False
    if not good:
        hint = "Write http://HOST:PORT or https://HOST:PORT."
        raise UsageError.of("LC6002", "this is no http address", found=url, hint=hint)
    return urlsplit(url).scheme


def _check_range(option: str, value: float, most: float) -> None:
    from llmd_ctl.errors import UsageError

    if not 0 < value <= most:
        allowed = (f"above 0, up to {most:g}",)
        message = f"{option} is out of range"
        raise UsageError.of("LC6002", message, found=f"{value:g}", allowed=allowed)


def _open_log(path: Path) -> TextIO:
    from llmd_ctl.errors import UsageError

    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        message = f"cannot write the log {path}: {error.strerror}"
        raise UsageError.of("LC6003", message) from error


def _tell_failures(lines: list[dict[str, Any]], url: str) -> bool:
    """Say what the first request of each kind of failure met; whether there was any."""
    from llmd_ctl.cli import output
    from llmd_ctl.cli.problems import tell
    from llmd_ctl.errors import Problem

    if lines and not any(line["status"] for line in lines):
        tell([Problem("LC6010", f"{url} answers no request", found=lines[0]["detail"])])
        return True
    told = set()
    for line in lines:
        kind = line["ended"]
        if kind in ("silent", "refused", "client-error") and kind not in told:
            told.add(kind)
            status = f" with {line['status']}" if line["status"] else ""
            reason = f": {line['detail']}" if line["detail"] else ""
            output.note(f"The first {kind} was {line['requestId']}{status}{reason}")
    return bool(told)


def _line(progress: RunProgress) -> str:
    trouble = {kind: n for kind, n in sorted(progress.ended.items()) if kind != "done"}
    text = f"{progress.started} of {progress.planned} requests started, {progress.finished} ended"
    return text + "".join(f", {n} {kind}" for kind, n in trouble.items())


def _print(summary: dict[str, Any], url: str, model: str, form: Format) -> None:
    from llmd_ctl.cli import output
    from llmd_ctl.cli.document import schema_name
    from llmd_ctl.cli.load.view import lines

    if form is Format.text:
        for line in lines(summary):
            output.data(line)
    else:
        head = {"schema": schema_name("load"), "url": url, "model": model}
        output.document({**head, **summary}, form)
