"""Whatever a user wrote arrives as it was written: through YAML, and through $(NAME)."""

from __future__ import annotations

import re

import pytest
import yaml

from llmd_ctl.errors import UsageError
from llmd_ctl.render.kubernetes.document import dumped
from llmd_ctl.render.kubernetes.kustomize import LOST
from tests.unit.render.kubernetes.clusters import cluster, container_of, engine, texts

HOSTILE = (
    '{"a": [1, "b c"]}', "", " ", "a  b", "'", '"', "$", "$$", "$(HOME)", "$$(HOME)", "${HOME}",
    "%h", "{{ .Values.x }}", "}}", "line\nbreak", "tab\t", "\\", "ünï", "\u2028", ";", "-", "--a",
    "- a", "a: b", "a #b", "# a", "&a", "*a", "!a", "@a", "`a", "| a", "> a", "~", "null", "y", "N",
    "on", "True", "1", "1e3", "0x1F", "0o7", "1_000", "12:30:45", "2024-01-01", ".inf", "=", "<<",
    "trailing \n", "\nleading", "\x7f", "a:", ":a", "---", "...", "?", "? a", "[a", "{a",
)  # fmt: skip
NAME = re.compile(r"\$\(([^)]*)\)")


def expanded(word: str, env: dict[str, str]) -> str:
    """As Kubernetes reads a word: $$ is $, $(NAME) is a variable, if there is one."""
    out, at = "", 0
    while at < len(word):
        found = NAME.match(word, at)
        if word.startswith("$$", at):
            out, at = out + "$", at + 2
        elif found is not None:
            out, at = out + env.get(found[1], found[0]), found.end()
        else:
            out, at = out + word[at], at + 1
    return out


def test_words_and_variables_arrive_byte_for_byte() -> None:
    words = tuple(word for word in HOSTILE if not LOST.search(word))
    env = {f"V{number}": value for number, value in enumerate(words)} | {"HOME": "/root"}
    container = container_of(cluster(engine(command=("vllm", *words), env=env)))
    found = {each["name"]: each["value"] for each in container["env"]}
    assert [expanded(word, found) for word in container["command"]] == ["vllm", *words]
    assert {name: expanded(value, {}) for name, value in found.items()} == env


@pytest.mark.parametrize("lost", ["\x7f", "\x85", "\x9f"])
def test_what_kustomize_would_change_is_refused_there_and_nowhere_else(lost: str) -> None:
    made = cluster(engine(env={"A": f"a{lost}b"}))
    with pytest.raises(UsageError, match=f"U\\+00{ord(lost):02X} of Deployment prod-chat-a"):
        texts(made)
    assert texts(made, "helm")


@pytest.mark.parametrize("value", HOSTILE)
def test_text_is_text_for_every_reader_of_yaml(value: str) -> None:
    """What stands without quotes is what YAML 1.1, too, takes for nothing but text."""
    text = dumped({"a": value})
    assert yaml.safe_load(text) == {"a": value}
    plain = text.removeprefix("a: ").removesuffix("\n")
    quoted = plain[0] in "\"'|"
    assert quoted or re.fullmatch(r"(--)?[A-Za-z/][^:#]*", plain)
    assert quoted or value.lower() not in ("y", "n", "on", "off", "yes", "no", "null", "true")


def test_helm_is_handed_no_action_of_the_users() -> None:
    (chart,) = [
        text
        for path, text in texts(
            cluster(engine(command=("{{ fail }}", "@0@", "@@0@@"))), "helm"
        ).items()
        if path.startswith("templates/engine-")
    ]
    assert '- "{{ "{{" }} fail }}"' in chart
    assert '- "@0@"' in chart
    assert '- "@@0@@"' in chart
    actions = re.findall(r"{{-? *(\w*)", chart)
    assert set(actions) <= {"", "with", "toYaml", "end", "int"}
