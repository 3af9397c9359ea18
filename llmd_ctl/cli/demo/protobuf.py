"""The few fields of OTLP's `ExportTraceServiceRequest` that a tree of spans needs.

Called by `spans`. The field numbers are those of opentelemetry-proto, trace/v1. A dependency on
protobuf would tie its version to that of the engines people install beside llmd-ctl; a test
compares this reader with the real library. It reads and never writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from msgspec import Struct, field

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")


class BadProtobufError(ValueError):
    """The bytes are no message of this kind."""


class Span(Struct, frozen=True):
    """One span. Ids are lower-case hex; times are unix nanoseconds."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    kind: str
    start_ns: int
    end_ns: int
    failed: bool
    attributes: dict[str, str | int | float | bool] = field(default_factory=dict)


def read_spans(message: bytes) -> list[Span]:
    """Return every span of an export request. Raises `BadProtobufError`."""
    spans = []
    for resource_spans in _messages(message, 1):
        service = ""
        for resource in _messages(resource_spans, 1):
            service = str(_attributes(resource, 1).get("service.name", ""))
        for scope_spans in _messages(resource_spans, 2):
            spans += [_span(span, service) for span in _messages(scope_spans, 2)]
    return spans


def _span(message: bytes, service: str) -> Span:
    plain: dict[int, int | bytes] = {}
    for number, value in _fields(message):
        plain[number] = value
    status = dict(_fields(_bytes(plain.get(15, b""))))
    kind = int(plain.get(6, 0))
    return Span(
        trace_id=_bytes(plain.get(1, b"")).hex(),
        span_id=_bytes(plain.get(2, b"")).hex(),
        parent_id=_bytes(plain.get(4, b"")).hex(),
        name=_bytes(plain.get(5, b"")).decode("utf-8", "replace"),
        service=service,
        kind=KINDS[kind] if kind < len(KINDS) else KINDS[0],
        start_ns=int(plain.get(7, 0)),
        end_ns=int(plain.get(8, 0)),
        failed=status.get(3) == 2,
        attributes=_attributes(message, 9),
    )


def _attributes(message: bytes, number: int) -> dict[str, str | int | float | bool]:
    found: dict[str, str | int | float | bool] = {}
    for pair in _messages(message, number):
        fields = dict(_fields(pair))
        key = _bytes(fields.get(1, b"")).decode("utf-8", "replace")
        for kind, value in _fields(_bytes(fields.get(2, b""))):
            if kind == 1:
                found[key] = _bytes(value).decode("utf-8", "replace")
            elif kind == 2:
                found[key] = bool(value)
            elif kind == 3:
                whole = int(value)
                found[key] = whole - (1 << 64) if whole >= 1 << 63 else whole
            elif kind == 4:
                found[key] = struct.unpack("<d", int(value).to_bytes(8, "little"))[0]
    return found


def _messages(message: bytes, number: int) -> Iterator[bytes]:
    return (_bytes(value) for found, value in _fields(message) if found == number)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise BadProtobufError("a number where text or a message belongs")
    return value


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield each field's number and value: an int, or the bytes of text or a message."""
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        kind = tag & 7
        value: int | bytes
        if kind == VARINT:
            value, at = _varint(message, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            value, at = int.from_bytes(message[at : at + size], "little"), at + size
        elif kind == BYTES:
            size, at = _varint(message, at)
            value, at = message[at : at + size], at + size
        else:
            raise BadProtobufError(f"wire type {kind} is not used by OTLP")
        if at > end:
            raise BadProtobufError("the message is cut short")
        yield tag >> 3, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise BadProtobufError("a number is cut short")
