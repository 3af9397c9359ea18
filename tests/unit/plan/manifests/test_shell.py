"""Scripts in containers: the words that a shell would make of them, and what it alone can know."""

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmd_ctl.plan.manifests.shell import commands_of
from tests.unit.plan.manifests.folders import CLEAN, judged


def words(script: str, **env: str) -> list[list[str]]:
    return [
        [word.text + "".join(word.unknown) for word in command.words]
        for command in commands_of(script, env)
    ]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("vllm serve a --b 'c d' --e=\"f g\"", ["vllm", "serve", "a", "--b", "c d", "--e=f g"]),
        ("vllm \\\n  serve \\\n  a # b", ["vllm", "serve", "a"]),
        ('vllm serve ${MODEL:-a} $NONE""', ["vllm", "serve", "a", "$NONE"]),
        ("vllm serve a > /dev/null 2>&1", ["vllm", "serve", "a"]),
        ("A=1 B=2 vllm serve a", ["vllm", "serve", "a"]),
        ('vllm serve --x \'{"a": "$B"}\'', ["vllm", "serve", "--x", '{"a": "$B"}']),
        ('vllm serve "{\\"a\\": 1}"', ["vllm", "serve", '{"a": 1}']),
        ("vllm serve $(hostname -i) `id`", ["vllm", "serve", "$(hostname -i)", "`id`"]),
        ("if true; then\n vllm serve a\nfi", ["vllm", "serve", "a"]),
    ],
)
def test_a_command_is_read_as_a_shell_reads_it(script: str, expected: list[str]) -> None:
    assert expected in words(script)


def test_what_is_set_before_is_known_after() -> None:
    assert words("export A=4\nB=$A\nvllm serve $B") == [["vllm", "serve", "4"]]
    assert words("vllm serve $A", A="x") == [["vllm", "serve", "x"]]
    assert words("A=$(id)\nvllm serve $A") == [["vllm", "serve", "$A"]]


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("'if'", "if"),
        ('"if"', "if"),
        ("i'f'", "if"),
        ("\\if", "if"),
        ("$A", "if"),
        ("'A=1'", "A=1"),
        ("A'='1", "A=1"),
        ("'A'=1", "A=1"),
    ],
)
def test_what_is_quoted_is_no_word_of_the_shell(written: str, word: str) -> None:
    assert words(f"{written} b", A="if") == [[word, "b"]]


@example(said=["if"])
@example(said=["A=1"])
@given(st.lists(st.text(min_size=1), min_size=1))
def test_quoted_words_come_back(said: list[str]) -> None:
    script = " ".join(f"'{word}'" for word in (each.replace("'", "") for each in said) if word)
    expected = [word for word in (each.replace("'", "") for each in said) if word]
    found = words(script)
    assert (found[0] if found else []) == expected


@given(st.text(alphabet="ab '\"\\$`(){};&|<>=\n#-", max_size=60))
def test_no_script_is_too_odd(script: str) -> None:
    for command in commands_of(script, {"a": "b"}):
        for word in command.words:
            assert 0 <= word.at <= len(script)


@given(st.lists(st.from_regex(r"[a-z=/.-]{1,8}", fullmatch=True), min_size=1))
def test_plain_words_are_those_of_shlex(said: list[str]) -> None:
    script = "x " + " ".join(said)
    assert words(script)[0] == shlex.split(script)


def test_a_word_in_a_script_has_its_own_place() -> None:
    script = """command: [sh, -c]
        args:
        - |
          set -e
          exec vllm serve Qwen/Qwen3-32B \\
            --tensor-parallel-size 2 --block-size 24 --attention-backend FLASH_ATTN
"""
    text = CLEAN.replace("args: [--model=Qwen/Qwen3-32B, --tensor-parallel-size=2]\n", script)
    (problem,) = judged(text).problems
    place = problem.place
    assert problem.message.startswith("V07: ")
    assert place is not None
    assert place.text[place.column - 1 :].startswith("--block-size 24")


def test_what_a_shell_alone_knows_is_told_and_not_judged() -> None:
    script = 'command: [bash, -c, "vllm serve Qwen/Qwen3-32B --block-size $B --port $(id) --x"]\n'
    text = CLEAN.replace("args: [--model=Qwen/Qwen3-32B, --tensor-parallel-size=2]\n", script)
    told = [problem.message for problem in judged(text).problems]
    assert [message for message in told if "only where it runs" in message] == [
        "$B is known only where it runs", "$(id) is known only where it runs",
    ]  # fmt: skip
    assert any("has no flag --x" in message for message in told)
    assert not any("block" in message for message in told)
