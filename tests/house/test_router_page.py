"""docs/router.md says what the router's code says: metrics, settings, errors, paths, exit codes."""

import ast
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority

CODE = "crates/llmd-router/src"
STRUCT = re.compile(r"^pub struct (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
DEFAULT = re.compile(
    r"^impl Default for (\w+) \{.*?Self \{(.*?)\}\s*\}\s*\}", re.MULTILINE | re.DOTALL
)
Rows = list[list[str]]


@pytest.fixture(scope="module")
def page(repo_root: Path) -> str:
    return (repo_root / "docs" / "router.md").read_text()


@pytest.fixture(scope="module")
def code(repo_root: Path) -> dict[str, str]:
    """Each source file's text, by its path below the crate's src."""
    top = repo_root / CODE
    return {path.relative_to(top).as_posix(): path.read_text() for path in top.rglob("*.rs")}


def table(page: str, first: str) -> Rows:
    """The cells of the table whose first column has this heading."""
    found = re.search(rf"^\| {re.escape(first)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert found, f"no table of {first}"
    lines = found[1].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def example(page: str) -> str:
    """The router.yaml that shows all keys."""
    found = re.search(r"^    version: .*\n(?:    .*\n)+", page, re.MULTILINE)
    assert found, "no example"
    return textwrap.dedent(found[0])


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def literal(text: str) -> Any:
    """A Rust number, product or truth value; None for what is none."""
    text = text.strip().replace("_", "")
    if product := re.fullmatch(r"(\d+) << (\d+)", text):
        return int(product[1]) << int(product[2])
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (ValueError, SyntaxError):
        return None


def settings(code: dict[str, str]) -> dict[str, Any]:
    """Every number of router.yaml that has a default, by its path."""
    files = [text for name, text in code.items() if re.match(r"config(/(?!tests|check)|\.)", name)]
    text = "".join(files)
    fields = {
        name: re.findall(r"^    pub (\w+): ([\w<>]+),", body, re.MULTILINE)
        for name, body in STRUCT.findall(text)
    }
    defaults = {
        name: dict(re.findall(r"(\w+): ([^,]+)", body)) for name, body in DEFAULT.findall(text)
    }

    def below(struct: str, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for field, kind in fields[struct]:
            here = f"{path}.{camel(field)}".lstrip(".")
            value = literal(defaults.get(struct, {}).get(field, ""))
            if kind in fields:
                found |= below(kind, here)
            elif value is not None or re.match(r"Option<u\d+>", kind):
                found[here] = value
        return found

    return below("Config", "")


def test_all_metrics_are_told(page: str, code: dict[str, str]) -> None:
    names = re.findall(r'\bregister\(\s*"(\w+)"', "".join(code.values()))
    told = [quoted(row[0])[0] for row in table(page, "metric")]
    plain = [name.removeprefix("llmd_router_").removesuffix("_total") for name in told]
    assert sorted(plain) == sorted(names)


def test_all_numbers_of_the_process_are_told(page: str, code: dict[str, str]) -> None:
    names = set(re.findall(r'"(process_\w+)"', code["process.rs"].split("#[cfg(test)]")[0]))
    assert names == {name for name in quoted(page) if name.startswith("process_")}


def test_all_settings_have_the_defaults_of_the_code(page: str, code: dict[str, str]) -> None:
    told = {quoted(key)[0]: literal(value) for key, value, _ in table(page, "key")}
    assert told == settings(code)


def test_every_key_of_status_is_told(page: str, repo_root: Path) -> None:
    """The file that pins all that a run shows has every key."""
    file = repo_root / "crates/llmd-router/tests/fixtures/shown/status.json"
    status = json.loads(file.read_text())
    model = status["models"][0]
    endpoint = model["endpoints"][0]
    found = {"`/status`": status, "of a model": model, "of an endpoint": endpoint}
    for heading, shown in {**found, "of its health": endpoint["health"]}.items():
        inside = {key: value for key, value in shown.items() if isinstance(value, dict)}
        inside.pop("health", None)
        keys = shown.keys() - inside.keys()
        keys |= {f"{key}.{name}" for key, value in inside.items() for name in value}
        told = [name for row in table(page, heading) for name in quoted(row[0])]
        assert sorted(told) == sorted(keys), heading


def test_the_example_has_every_key_of_a_router_and_of_its_models(
    page: str, code: dict[str, str]
) -> None:
    bodies = dict(STRUCT.findall(code["config.rs"]))
    structs = ["Config", "Listen", "Traces", "Model", "Variant", "StaticEndpoint", "DnsName"]
    fields = {
        camel(name)
        for struct in structs
        for name in re.findall(r"^    pub (\w+):", bodies[struct], re.MULTILINE)
    }
    told = set(re.findall(r"(\w+):(?= |$)", example(page), re.MULTILINE))
    assert fields - told == {"facts", "adminTls"}


def test_the_router_takes_the_example(page: str, tmp_path: Path) -> None:
    file = tmp_path / "router.yaml"
    file.write_text(example(page))
    authority = Authority(tmp_path, "rented")
    authority.sign("tls")
    (tmp_path / "admin.key").write_text("a-key-for-tests\n")
    (tmp_path / "endpoints.yaml").write_text("endpoints: []\n")
    argv = [sys.executable, "-m", "llmd_ctl.router", "--config", str(file), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_simulated_engine_is_tried_as_told(
    page: str, tmp_path: Path, free_ports: Callable[[int], list[int]]
) -> None:
    text = page.split("\n## A try without an engine\n")[1].split("\n## ")[0]
    for port, free in zip((8000, 8001, 9090), free_ports(3), strict=True):
        text = re.sub(rf"\b{port}\b", str(free), text)
    blocks = re.findall(r"^    \S.*\n(?:    .*\n)+", text, re.MULTILINE)
    engine, router, commands = map(textwrap.dedent, blocks)
    (tmp_path / "engine.json").write_text(engine)
    (tmp_path / "router.yaml").write_text(router)
    end = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"
    script = f"set -euo pipefail\n{end}\n{commands}wait\n"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": path}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "x-llmd-ctl-simulated: true" in done.stdout
    status = json.loads(done.stdout[done.stdout.rindex('{"certificates"') :])
    assert status["models"][0]["endpoints"][0]["simulated"] is True


def test_all_errors_are_told(page: str, code: dict[str, str]) -> None:
    text = code["error.rs"]
    plain = re.findall(r'=> row\((\d+), [^,]+, "(\w+)"\)', text)
    mended = re.findall(r'=> mendable\((\d+), "(\w+)", RetryCause::(\w+)\)', text)
    price = {"Unreachable": "free", "Lost": "free", "Unserved": "paid"}
    wanted = [(status, error, "no") for status, error in plain]
    wanted += [(status, error, price[cause]) for status, error, cause in mended]
    told = [(status, quoted(error)[0], again) for status, error, again in table(page, "status")]
    assert sorted(told) == sorted(wanted)


@pytest.mark.parametrize(
    ("heading", "files"), [("data path", ["routes.rs", "api.rs"]), ("admin path", ["admin.rs"])]
)
def test_all_paths_are_told(
    page: str, code: dict[str, str], heading: str, files: list[str]
) -> None:
    text = "".join(code[file] for file in files)
    known = {path.rstrip("/") for path in re.findall(r'"(/[\w/]+)"', text)}
    told = {name for row in table(page, heading) for name in quoted(row[0])}
    assert {name.partition("/{")[0] for name in told} == known


def test_all_apis_are_told_with_their_paths(page: str, code: dict[str, str]) -> None:
    rows = re.findall(r'name: "([\w-]+)",\s*paths: &\[([^\]]*)\]', code["api.rs"])
    known = {name: re.findall(r'"([^"]+)"', paths) for name, paths in rows}
    told = {quoted(row[1])[0]: quoted(row[0]) for row in table(page, "data path")[1:]}
    assert told == known


def test_all_exit_codes_are_told(page: str, code: dict[str, str]) -> None:
    known = re.findall(r"^const \w+: i32 = (\d+);", code["command.rs"], re.MULTILINE)
    assert [row[0] for row in table(page, "exit code")] == known


def test_the_phases_are_those_of_the_spans(page: str, repo_root: Path) -> None:
    text = (repo_root / "crates/llmd-types/src/request.rs").read_text()
    body = text.split("impl Phase")[1].split("impl ")[0]
    assert " → ".join(re.findall(r'=> "(\w+)"', body)) in page


def test_the_ports_are_the_defaults(page: str, code: dict[str, str]) -> None:
    ports = re.findall(r"\bon\((\d+)\)", code["config.rs"])
    assert [row[1].rpartition(":")[2] for row in table(page, "port")] == ports
