"""The kinds of value that say where a process runs: variables, labels, images, cores, folders.

`placement` and `fleet` build their sections from these, as from `fields`. Names and labels are
bounded as Kubernetes bounds them, so that what is accepted here is accepted there.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from llmd_ctl.spec.fields import label_hint, refuse

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
# As Kubernetes takes them: names of objects, keys of labels (and of secrets), values of labels.
KUBE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")
LONGEST_KUBE_NAME = 253
IP_ADDRESS = re.compile(r"[0-9]+(\.[0-9]+){3}")
LABEL_PART = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_KEY = re.compile(rf"([a-z0-9][-a-z0-9.]{{0,251}}[a-z0-9]/)?{LABEL_PART}")
LABEL_VALUE = re.compile(rf"({LABEL_PART})?")
LONGEST_VALUE = 32_768
IMAGE_PATH = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
IMAGE = re.compile(
    rf"{IMAGE_PATH}(?=[:@])(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(@sha256:[0-9a-f]{{64}})?"
)
TOPOLOGY = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")
MOST_CORES = 4096


def _image(value: str) -> str:
    if not IMAGE.fullmatch(value):
        message = "an image is named with its tag or digest, such as vllm/vllm-openai:v0.32.0"
        bare = f"{value}:TAG"
        raise refuse("LC1040", message, f"Write {bare}." if IMAGE.fullmatch(bare) else None)
    return value


def _topology(value: str) -> str:
    if not TOPOLOGY.fullmatch(value):
        message = "a topology is two or three numbers with x between them, such as 2x4"
        raise refuse("LC1040", message)
    return value


def _env_name(value: str) -> str:
    if not ENV_NAME.fullmatch(value):
        plain = re.sub(r"[^A-Za-z0-9_]", "_", value)
        hint = f"Write {plain}." if ENV_NAME.fullmatch(plain) else None
        raise refuse("LC1040", "a variable's name has letters, digits and _, no digit first", hint)
    return value


def _env_value(value: str) -> str:
    if "\0" in value or len(value) > LONGEST_VALUE:
        message = f"a variable's value has at most {LONGEST_VALUE} characters, and no NUL"
        raise refuse("LC1027", message)
    return value


def _kube_name(value: str) -> str:
    if len(value) > LONGEST_KUBE_NAME or not KUBE_NAME.fullmatch(value):
        message = "a name in a cluster has a-z, 0-9, - and ., with a letter or digit at each end"
        raise refuse("LC1040", message, label_hint(value))
    return value


def _route_host(value: str) -> str:
    if len(value) > LONGEST_KUBE_NAME or not KUBE_NAME.fullmatch(value.removeprefix("*.")):
        message = "a host of a route is a name such as llm.example or *.llm.example, and no port"
        raise refuse("LC1040", message)
    if IP_ADDRESS.fullmatch(value):
        raise refuse("LC1040", "a host of a route is a name, and no address")
    return value


def _label_key(value: str) -> str:
    if not LABEL_KEY.fullmatch(value):
        message = "a key is NAME or DOMAIN/NAME, NAME of at most 63 letters, digits, -, _ and ."
        raise refuse("LC1040", message, "Write it as kubectl shows it: cloud.example/accelerator.")
    return value


def _label_value(value: str) -> str:
    if not LABEL_VALUE.fullmatch(value):
        raise refuse("LC1040", "a label's value has at most 63 letters, digits, -, _ and .")
    return value


def _cores(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        hint = "Write a number of cores, such as 16 or 0.5, without quotes or unit."
        raise refuse("LC1023", "cores are a number", hint)
    if not 0.001 <= value <= MOST_CORES or round(value * 1000, 6) % 1:
        message = f"cores are 0.001 to {MOST_CORES}, in whole thousandths"
        raise refuse("LC1025", message, "Write a number such as 16 or 0.5.")
    return value


def _host_path(value: str) -> str:
    if not value.startswith("/") or "\0" in value or ".." in value.split("/"):
        raise refuse("LC1049", "a folder of the machine starts with / and has no ..")
    return value


ImageRef = Annotated[str, AfterValidator(_image)]
Topology = Annotated[str, AfterValidator(_topology)]
EnvName = Annotated[str, AfterValidator(_env_name)]
EnvValue = Annotated[str, AfterValidator(_env_value)]
KubeName = Annotated[str, AfterValidator(_kube_name)]
RouteHost = Annotated[str, AfterValidator(_route_host)]
LabelKey = Annotated[str, AfterValidator(_label_key)]
LabelValue = Annotated[str, AfterValidator(_label_value)]
Cores = Annotated[float, BeforeValidator(_cores)]
HostPath = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_host_path)]
