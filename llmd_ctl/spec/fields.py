"""The kinds of value a fleet holds: names, durations, prices, addresses.

`fleet` builds its sections from these. Each check raises `PydanticCustomError` whose type is the
problem's code and whose context may carry `hint` and `allowed`; `translate` turns it into a
`Problem`. Nothing here knows where a value stands in a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator
from pydantic_core import PydanticCustomError

from llmd_ctl.spec import meant

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SERVED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,126}")
NOT_SERVED = re.compile(r"[^A-Za-z0-9._:/@+-]")
LONGEST_SERVED = 127
WHITE = {" ": "a space", "\t": "a tab", "\n": "a line break"}
ARG_NAME = re.compile(r"[a-z][A-Za-z0-9]*")
# As Go and Prometheus write them: 250us, 1.5s, 5m, 1h30m; the larger unit first.
UNITS = ("h", "m", "s", "ms", "us")
DURATION = re.compile("".join(rf"(?:([0-9]{{1,12}}(?:\.[0-9]{{1,9}})?){unit})?" for unit in UNITS))
HUGGING_FACE = re.compile(r"hf://[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+@=-]{0,254}")
NOT_IN_A_REVISION = re.compile(r"\.\.|//|@\{|/\.|\.lock(/|$)|[./]$")  # git check-ref-format
FLAG_AND_VALUE = re.compile(r"--?[A-Za-z][A-Za-z0-9_-]*\s")

LOCAL_PATHS = ("/", "./", "../")
# Of UNITS.
MICROSECONDS = (3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)
LONGEST_US = 86_400 * 1_000_000
LONGEST_HOST = 253  # of a name in the DNS
HOST = re.compile(r"[A-Za-z0-9:](?:[A-Za-z0-9.:-]*[A-Za-z0-9])?")
ADDRESS = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?/?")
SIZE = re.compile(r"([0-9]{1,12})(Ki|Mi|Gi)")
BYTES = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
LARGEST_SIZE = 1 << 40
CHECK_PATH = re.compile(r"/[A-Za-z0-9/._~!$&'()*+,;=:@%?-]{0,254}")
LARGEST_INT = 2**63 - 1
LARGEST_LENGTH = 2**31 - 1

Scalar = str | int | float | bool


def refuse(code: str, message: str, hint: str | None = None) -> PydanticCustomError:
    """Make the error that `translate` reads. Braces in a message are data, never a template."""
    return PydanticCustomError(code, "{message}", {"message": message, "hint": hint})


def _dns_label(value: str) -> str:
    if not DNS_LABEL.fullmatch(value):
        message = (
            "a name has 1 to 63 characters: a-z, 0-9 and -, with a letter or digit at each end"
        )
        raise refuse("LC1040", message, label_hint(value))
    return value


def label_hint(value: str) -> str | None:
    """Return the hint that writes a name as it may stand; None when nothing is left of it."""
    plain = re.sub(r"[^a-z0-9]+", "-", value.lower())[:63].strip("-")
    return f"Write {plain}." if plain else None


def _served_name(value: str) -> str:
    if not SERVED_NAME.fullmatch(value):
        message = "a served name has 1 to 127 letters, digits and . _ : / @ + -"
        raise refuse("LC1040", message, _served_hint(value))
    return value


def _served_hint(value: str) -> str:
    odd = NOT_SERVED.search(value)
    if odd is not None:
        name = WHITE.get(odd[0], f'"{odd[0]}"')
        plain = NOT_SERVED.sub("-", value).strip("._:/@+-")
        write = f": write {plain}" if SERVED_NAME.fullmatch(plain) else ""
        return f"{name[0].upper()}{name[1:]} is not allowed{write}."
    if len(value) > LONGEST_SERVED:
        return f"Write at most {LONGEST_SERVED} characters; it has {len(value)}."
    return "Start it with a letter or a digit."


def _profile_id(value: str) -> str:
    if not DNS_LABEL.fullmatch(value):
        message = "an accelerator is named by its profile, in lower case, such as nvidia-h100"
        hint = "Write the whole name: amd-mi300x for an MI300X, google-tpu-v6e for a TPU v6e."
        raise refuse("LC1040", message, hint)
    return value


def _arg_name(value: str) -> str:
    if not ARG_NAME.fullmatch(value):
        first, *more = re.findall(r"[A-Za-z0-9]+", value) or [""]
        camel = first[:1].lower() + first[1:] + "".join(word.capitalize() for word in more)
        hint = f"Write {camel}." if ARG_NAME.fullmatch(camel) else None
        raise refuse("LC1041", "an engine argument is named in camelCase", hint)
    return value


def _arg_value(value: object) -> Scalar:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if abs(value) > LARGEST_INT:
            raise refuse("LC1043", "the number is too large", "Use a number below 2^63.")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise refuse("LC1043", "the number is not finite")
        return value
    message = "an engine argument is text, a number, true or false"
    hint = "Write a list or a map as JSON text, as the engine's flag takes it."
    raise refuse("LC1023", message, hint)


def _raw_arg(value: str) -> str:
    if not value:
        raise refuse("LC1042", "an extra argument is empty", "Remove it.")
    if FLAG_AND_VALUE.match(value):
        message = "a flag and its value are one item, but the engine needs two"
        raise refuse("LC1042", message)
    return value


def _duration(value: object) -> int:
    """Return microseconds. A number has no unit, so it is refused."""
    found = _exact_microseconds(value) if isinstance(value, str) else None
    if found is None:
        known = [one for one in meant.duration(str(value)) if _is_duration(one)]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        message = "a duration needs a unit" if is_number else "this is not a duration"
        raise refuse("LC1044", message, _write(known))
    if not _is_duration(str(value)):
        over = found > LONGEST_US
        nearest = "Write 24h at most." if over else "Write 1us at least, and no part of one."
        message = "a duration is from 1us to 24h, in whole microseconds"
        raise refuse("LC1044", message, nearest)
    return int(found)


@lru_cache(maxsize=256)  # many models have the same few promises
def _exact_microseconds(written: str) -> Decimal | None:
    match = DURATION.fullmatch(written) if written else None
    if match is None:
        return None
    parts = zip(match.groups("0"), MICROSECONDS, strict=True)
    return sum((Decimal(number) * unit for number, unit in parts), Decimal(0))


def _is_duration(written: str) -> bool:
    found = _exact_microseconds(written)
    return found is not None and found == int(found) and 0 < found <= LONGEST_US


def _write(words: Sequence[str]) -> str | None:
    """The hint that names what is most likely meant; None where that cannot be told."""
    return f"Write {' or '.join(words)}." if words else None


def microseconds(written: str, *, or_none: bool = False) -> int | None:
    """Return a duration as it stands in a file, 0 only where that is allowed; None for no such."""
    if or_none and _is_none(written):
        return 0
    try:
        return _duration(written)
    except PydanticCustomError:
        return None


def _milliseconds(value: object) -> int:
    """Return milliseconds: what the router's clock counts in."""
    return _whole_milliseconds(_duration(value))


def _milliseconds_or_none(value: object) -> int:
    """Return milliseconds; 0 of any unit is none."""
    return 0 if _is_none(value) else _whole_milliseconds(_duration(value))


def _is_none(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"0(us|ms|s|m|h)", value) is not None


def _whole_milliseconds(microseconds: int) -> int:
    if microseconds % 1_000:
        rounded = f"{max(1, microseconds // 1_000)}ms"
        raise refuse("LC1044", "this duration is in whole milliseconds", f"Write {rounded}.")
    return microseconds // 1_000


def _size(value: object) -> int:
    """Return bytes. A number has no unit, so it is refused."""
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    number = int(match[1]) * BYTES[match[2]] if match else 0
    if not 0 < number <= LARGEST_SIZE:
        message = "a size is from 1Ki to 1024Gi, in whole Ki, Mi or Gi"
        raise refuse("LC1048", message, _write(meant.size(str(value))))
    return number


def _check_path(value: str) -> str:
    if not CHECK_PATH.fullmatch(value):
        message = "a path starts with / and holds no space and no #"
        rooted = f"/{value}"
        hint = f"Write {rooted}." if CHECK_PATH.fullmatch(rooted) and "://" not in value else None
        raise refuse("LC1049", message, hint)
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise refuse("LC1043", "the number is not finite")
    return value


def _model_uri(value: str) -> str:
    if value.startswith("hf://"):
        if not HUGGING_FACE.fullmatch(value):
            hint = "A commit or tag goes into `revision`." if "@" in value else None
            raise refuse("LC1045", "a Hugging Face model is written hf://ORG/NAME", hint)
    elif value.startswith("file://"):
        if not value.startswith("file:///") or len(value) == len("file:///"):
            raise refuse("LC1045", "a file URI has an absolute path: file:///models/qwen3")
    elif "://" in value:
        hint = "Known are hf://ORG/NAME, file:///DIR, and a path that starts with ./, ../ or /."
        raise refuse("LC1045", "this kind of model URI is not known", hint)
    elif not value.startswith(LOCAL_PATHS):
        hint = f"Write hf://{value} for Hugging Face, or ./{value} for a folder beside this file."
        message = "it is not said whether this is a Hugging Face model or a path"
        raise refuse("LC1045", message, hint)
    return value


def _revision(value: str) -> str:
    if not REVISION.fullmatch(value) or NOT_IN_A_REVISION.search(value):
        message = "this is no commit, branch or tag"
        raise refuse("LC1047", message, "Write it as git does: main, v1.0, refs/pr/7, or a commit.")
    return value


def _http_path(value: str) -> str:
    """Return the path of a URL of HTTP that names a host and hides no credentials."""
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host or port == 0 or re.search(r"\s", value):
        hint = f"Write http://{value}." if ADDRESS.fullmatch(value) else None
        raise refuse("LC1046", "this is not a URL", hint)
    if parts.username is not None or parts.password is not None:
        raise refuse("LC1046", "a URL here carries no user and no password")
    if parts.query or parts.fragment:
        raise refuse("LC1046", "a URL here has no ? and no #")
    return parts.path


def _endpoint_url(value: str) -> str:
    if _http_path(value) not in {"", "/"}:
        hint = "Give only http://HOST:PORT or https://HOST:PORT; the router adds /v1/… itself."
        raise refuse("LC1046", "an endpoint's URL has no path", hint)
    return value


def _collector_url(value: str) -> str:
    _http_path(value)
    if value.startswith("https:"):
        raise refuse("LC1051", "https is not built yet here", "Use http inside your network.")
    return value


def _is_host(value: str) -> bool:
    """Whether colons are those of an address, and not that before a port."""
    if ":" not in value:
        return True
    from ipaddress import ip_address

    try:
        ip_address(value)
    except ValueError:
        return False
    return True


def _server_name(value: str) -> str:
    if len(value) > LONGEST_HOST or not HOST.fullmatch(value) or not _is_host(value):
        hint = "Write a name such as engine.example or an address such as 10.0.0.7, and no port."
        raise refuse("LC1046", "this is no host name and no IP address", hint)
    return value


Name = Annotated[str, AfterValidator(_dns_label)]
ServedName = Annotated[str, AfterValidator(_served_name)]
ProfileId = Annotated[str, AfterValidator(_profile_id)]
ArgName = Annotated[str, AfterValidator(_arg_name)]
ArgValue = Annotated[Scalar, PlainValidator(_arg_value)]
RawArg = Annotated[str, AfterValidator(_raw_arg)]
Microseconds = Annotated[int, BeforeValidator(_duration)]
Milliseconds = Annotated[int, BeforeValidator(_milliseconds)]
MillisecondsOrNone = Annotated[int, BeforeValidator(_milliseconds_or_none)]
Bytes = Annotated[int, BeforeValidator(_size)]
Price = Annotated[float, AfterValidator(_finite), Field(ge=0, le=1_000_000)]
Ratio = Annotated[float, AfterValidator(_finite), Field(ge=0, le=1)]
Length = Annotated[int, Field(ge=1, le=LARGEST_LENGTH)]
ModelUri = Annotated[str, AfterValidator(_model_uri)]
Revision = Annotated[str, AfterValidator(_revision)]
EndpointUrl = Annotated[str, AfterValidator(_endpoint_url)]
CollectorUrl = Annotated[str, AfterValidator(_collector_url)]
ServerName = Annotated[str, AfterValidator(_server_name)]
CheckPath = Annotated[str, AfterValidator(_check_path)]
Text = Annotated[str, Field(min_length=1, max_length=4096)]
