from typing import TypedDict

__all__ = [
    "capacity",
    "check_facts",
    "engine_main",
    "itl_us",
    "prefill_tokens_per_second",
    "prefill_us",
    "request_us",
    "router_main",
]

class _Capacity(TypedDict):
    batch: int
    itl_us: float
    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    requests_per_second: float
    tokens_per_second: float

def check_facts(facts_json: str) -> None: ...
def capacity(
    facts_json: str, prompt_tokens: int, output_tokens: int, itl_us_max: float | None = None
) -> _Capacity: ...
def itl_us(facts_json: str, batch: int, context_tokens: int) -> float: ...
def prefill_us(
    facts_json: str, tokens: int, past: int, batch: int, context_tokens: int
) -> float: ...
def prefill_tokens_per_second(facts_json: str, batch: int, context_tokens: int) -> float: ...
def request_us(facts_json: str) -> float: ...
def engine_main(argv: list[str]) -> int: ...
def router_main(argv: list[str]) -> int: ...
