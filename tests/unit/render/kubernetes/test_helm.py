"""The chart: few values, each with its schema, and nothing in it that Helm would take wrongly."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from msgspec.structs import replace

from llmd_ctl.plan.place import Accelerators, Place
from tests.unit.render.kubernetes.clusters import FULL, PLAIN, cluster, engine, scaled, texts

VARIANTS = (engine("a", replicas=3), engine("b", FULL), engine("c", scaled(FULL)))
CHART = texts(cluster(*VARIANTS), "helm")


def test_a_chart_has_its_files_and_the_templates_of_every_manifest() -> None:
    manifests = texts(cluster(*VARIANTS))
    assert {path for path in CHART if not path.startswith("templates/")} == {
        "Chart.yaml", "values.yaml", "values.schema.json",
    }  # fmt: skip
    templates = {path.removeprefix("templates/") for path in CHART if path.startswith("templates/")}
    assert templates == set(manifests) - {"kustomization.yaml"}


def test_values_are_few_and_each_is_described_and_used() -> None:
    values = yaml.safe_load(CHART["values.yaml"])
    schema = json.loads(CHART["values.schema.json"])
    assert len(values) <= 10
    assert set(values) == set(schema["properties"]) == set(schema["required"])
    used = set(re.findall(r"\.Values\.(\w+)", "".join(CHART.values())))
    assert used == set(values)
    for name, value in schema["properties"].items():
        assert f"# {value['description']}\n{name}:" in CHART["values.yaml"]


def test_replicas_are_values_but_of_what_scales_by_rule() -> None:
    values = yaml.safe_load(CHART["values.yaml"])
    assert values["engineReplicas"] == {"prod-chat-a": 3, "prod-chat-b-hosts": 1}
    assert values["routerReplicas"] == 2


def test_every_file_says_what_it_was_made_from() -> None:
    for text in CHART.values():
        assert "from fleet prod, target gke" in text
        assert "spec h" in text


def test_a_chart_without_the_router_has_no_value_for_it() -> None:
    chart = texts(cluster(router=None), "helm")
    assert not [name for name in yaml.safe_load(chart["values.yaml"]) if "router" in name.lower()]


def test_engines_are_found_in_the_namespace_of_the_release() -> None:
    name = "name: prod-chat-a.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}."
    assert name in CHART["templates/router.yaml"]
    assert "llm.svc" not in CHART["templates/router.yaml"]


def test_the_page_for_users_has_every_value_with_its_default() -> None:
    page = Path(__file__).parents[4] / "docs" / "kubernetes.md"
    rows = [
        line.split("|")
        for line in page.read_text().partition("## The chart's values")[2].splitlines()
        if line.startswith("| `")
    ]
    told = {name: row[2].strip() for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    values = yaml.safe_load(CHART["values.yaml"])
    assert set(told) == set(values)
    for name, default in told.items():
        if default.startswith("`"):
            assert default.strip("`") == str(values[name]).replace("True", "true")


def test_a_chart_with_claims_wants_a_cluster_that_serves_them() -> None:
    def wanted(place: Place) -> str:
        about = yaml.safe_load(texts(cluster(engine(place=place)), "helm")["Chart.yaml"])
        return str(about["kubeVersion"])

    assert wanted(PLAIN) == ">=1.30.0-0"
    claimed = Accelerators(count=1, device_class="gpu.example")
    assert wanted(replace(PLAIN, accelerators=claimed)) == ">=1.34.0-0"
