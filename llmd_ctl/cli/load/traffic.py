"""The requests of a run and the moments they start, all from one seed. No I/O, no clock.

Called by `run`, `verb` and `cli.demo`. The same seed, mix, rate and length give the same bytes, so
two routers can be given the same traffic. For that reason a session's earlier answers are made
here too: its next turn carries a stand-in, not what the engine said.

Kinds: `shared` asks a short question under one of a few long system prompts; `session` is a
conversation of several turns, each carrying the ones before; `short` is a line; `long` is a
document that nobody sent before.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

KINDS = ("shared", "session", "short", "long")
DEFAULT_MIX = {"shared": 0.4, "session": 0.3, "short": 0.2, "long": 0.1}
STREAMED = 0.8
PREFIXES = 6
BYTES_PER_TOKEN = 4  # of plain English; engines count for themselves

PREFIX_BYTES = 6_000
QUESTION_BYTES = (80, 400)
TURN_BYTES = (150, 600)
SHORT_BYTES = (40, 300)
LONG_BYTES = (8_000, 20_000)
TURNS = (2, 5)
THINK_SECONDS = (1.0, 4.0)
ANSWER_TOKENS = {"shared": (40, 160), "session": (40, 160), "short": (16, 64), "long": (64, 200)}

WORD_LIST = """
time year people way day man thing woman life child world school state family student group
country problem hand part place case week company system program question work government
number night point home water room mother area money story fact month lot right study book
eye job word business issue side kind head house service friend father power hour game line
end member law car city community name president team minute idea kid body information back
parent face others level office door health person art war history party result change
morning reason research girl guy moment air teacher force education
"""
WORDS = tuple(WORD_LIST.split())


class Planned(Struct, frozen=True):
    """One request: when it starts, in seconds from the run's start, and what it asks."""

    at: float
    request_id: str
    kind: str
    session: str | None
    stream: bool
    max_tokens: int
    messages: tuple[tuple[str, str], ...]

    def body(self, model: str) -> bytes:
        """Write the chat completion that is sent."""
        document: dict[str, object] = {
            "model": model,
            "messages": [{"role": role, "content": text} for role, text in self.messages],
            "max_tokens": self.max_tokens,
            "stream": self.stream,
        }
        if self.stream:
            document["stream_options"] = {"include_usage": True}
        return json.dumps(document).encode()

    @property
    def prompt_bytes(self) -> int:
        """Bytes of text in the prompt."""
        return sum(len(text) for _, text in self.messages)


def plan_traffic(
    *, seed: int, rate: float, seconds: float, mix: dict[str, float] | None = None
) -> list[Planned]:
    """Return the requests of a run in order of their start. `rate` is requests a second.

    Arrivals are Poisson. A session counts as its turns: the first arrives, the others follow
    after a pause, and the rate holds for all of them together.
    """
    rng = random.Random(seed)
    shares = DEFAULT_MIX if mix is None else mix
    turns = sum(TURNS) / 2
    weights = [shares.get(kind, 0.0) / (turns if kind == "session" else 1) for kind in KINDS]
    starts_per_second = rate * sum(weights) / sum(shares.values())
    prefixes = [_text(rng, PREFIX_BYTES) for _ in range(PREFIXES)]
    requests: list[Planned] = []
    at = rng.expovariate(starts_per_second)
    while at < seconds:
        kind = rng.choices(KINDS, weights)[0]
        if kind == "session":
            made = _session(rng, at, len(requests))
        else:
            made = [_single(rng, at, kind, prefixes)]
        requests += [r for r in made if r.at < seconds]
        at += rng.expovariate(starts_per_second)
    requests.sort(key=lambda r: r.at)
    return [replace(r, request_id=f"load-{seed}-{i:06d}") for i, r in enumerate(requests)]


def _single(rng: random.Random, at: float, kind: str, prefixes: list[str]) -> Planned:
    size = {"shared": QUESTION_BYTES, "short": SHORT_BYTES, "long": LONG_BYTES}[kind]
    messages = [("user", _text(rng, rng.randint(*size)))]
    if kind == "shared":
        messages.insert(0, ("system", rng.choice(prefixes)))
    return _planned(rng, at, kind, None, messages)


def _session(rng: random.Random, at: float, number: int) -> list[Planned]:
    """Return the turns of one conversation, each with all that was said before it."""
    said: list[tuple[str, str]] = [("system", _text(rng, rng.randint(*TURN_BYTES)))]
    turns = []
    for _ in range(rng.randint(*TURNS)):
        said.append(("user", _text(rng, rng.randint(*TURN_BYTES))))
        turns.append(_planned(rng, at, "session", f"session-{number}", said))
        said.append(("assistant", _text(rng, turns[-1].max_tokens * BYTES_PER_TOKEN)))
        at += rng.uniform(*THINK_SECONDS)
    return turns


def _planned(
    rng: random.Random, at: float, kind: str, session: str | None, said: list[tuple[str, str]]
) -> Planned:
    tokens = rng.randint(*ANSWER_TOKENS[kind])
    return Planned(at, "", kind, session, rng.random() < STREAMED, tokens, tuple(said))


def _text(rng: random.Random, size: int) -> str:
    """Return about `size` bytes of plain words."""
    return " ".join(_words(rng, size))


def _words(rng: random.Random, size: int) -> Iterator[str]:
    while size > 0:
        word = rng.choice(WORDS)
        size -= len(word) + 1
        yield word
