"""Format `helm`: the same objects as a chart, whose few values change what people change late.

Called by `render.targets`. Templates are final manifests: a value stands where a mark was put
before the object became text, and whatever the user wrote passes through Helm as it is. values.yaml
and its schema are made from one list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from llmd_ctl.plan import Plan
from llmd_ctl.plan.place import PlannedTarget
from llmd_ctl.render.file import RenderedFile, header, version
from llmd_ctl.render.kubernetes.autoscale import PROMETHEUS
from llmd_ctl.render.kubernetes.custom import PodMonitor, PrometheusRule
from llmd_ctl.render.kubernetes.document import dumped, texts, to_document
from llmd_ctl.render.kubernetes.llm_d import GATEWAY
from llmd_ctl.render.kubernetes.manifests import Manifest, manifests
from llmd_ctl.render.kubernetes.names import CLUSTER_DOMAIN, DOMAIN, LLM_D, ROUTER, Names, after
from llmd_ctl.render.kubernetes.objects import ResourceClaimTemplate

Json = dict[str, Any]
WORKLOADS = ("Deployment", "LeaderWorkerSet")
OLDEST = "1.30"  # where pods may sleep before they end
CLAIMING = "1.34"  # where resource.k8s.io/v1 is served
MIRROR = "{{ with .Values.imageRegistry }}{{ . }}/{{ end }}"
OURS = f"^({DOMAIN}|{LLM_D}|app\\.kubernetes\\.io)/"
# Of what watches, the definitions may be missing: a chart is installed whole or not at all.
WATCHED = f'.Capabilities.APIVersions.Has "{PodMonitor.API}"'
CONDITIONS = {
    "NetworkPolicy": ".Values.networkPolicy",
    **dict.fromkeys((PodMonitor.KIND, PrometheusRule.KIND), WATCHED),
}
WORD = {"type": "string", "minLength": 1}
MORE = {
    "gateway": "The Gateway, in the release's namespace, that has the routes.",
    "prometheusAddress": "The Prometheus that KEDA asks how many requests there are.",
}
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}


class Value(Struct, frozen=True):
    """One value of the chart: what it does, its default, and what it may be."""

    name: str
    about: str
    default: Any
    schema: Json


class Marks:
    """Marks in documents, and what Helm shall put there once they are text."""

    def __init__(self, texts: str) -> None:
        """`texts`: all that users may have written; no mark stands in it."""
        border = "@"
        while border in texts:
            border += "@"
        self.border = border
        self.words: dict[str, str] = {}
        self.blocks: dict[str, str] = {}
        self._known: dict[str, str] = {}
        # A whole value may be a number: it stands without the quotes of the mark.
        self._mark_or_quoted = re.compile(f'"{border}[0-9]+{border}"|{border}[0-9]+{border}')

    def word(self, action: str) -> str:
        """A mark for what an action gives: a whole value, or the beginning of one."""
        return self._mark(self.words, action)

    def block(self, value: str, key: str | None = None) -> str:
        """A mark, as a key, for the entries of a value; with `key`, for a map of them."""
        return self._mark(self.blocks, f"{key or ''}:{value}")

    def _mark(self, marks: dict[str, str], meaning: str) -> str:
        mark = self._known.setdefault(meaning, f"{self.border}{len(self._known)}{self.border}")
        marks[mark] = meaning
        return mark

    def filled(self, text: str) -> str:
        """A document's text as a template."""
        text = self._mark_or_quoted.sub(self._said, text.replace("{{", '{{ "{{" }}'))
        lines = text.removesuffix("\n").split("\n")
        return "\n".join(each for line in lines for each in self._entries(line)) + "\n"

    def _said(self, mark: re.Match[str]) -> str:
        return self.words.get(mark[0].strip('"'), mark[0])

    def _entries(self, line: str) -> Iterable[str]:
        """A line, or what stands for it where it is the mark of a block."""
        found = self._mark_or_quoted.search(line) if self.border in line else None
        meaning = None if found is None else self.blocks.get(found[0].strip('"'))
        return (line,) if meaning is None else _entries(line, meaning)


def _entries(line: str, meaning: str) -> Iterator[str]:
    key, _, value = meaning.partition(":")
    space = line[: len(line) - len(line.lstrip())]
    yield f"{space}{{{{- with .Values.{value} }}}}"
    if key:
        yield f"{space}{key}:"
    yield f"{space}{{{{- toYaml . | nindent {len(space) + 2 * bool(key)} }}}}"
    yield f"{space}{{{{- end }}}}"


class Chart(Struct):
    """Templates of one fleet, and the numbers of replicas that became values."""

    names: Names
    marks: Marks
    any_gateway: bool  # the fleet names none
    engines: dict[str, int] = field(default_factory=dict)
    routers: int | None = None
    more: dict[str, str] = field(default_factory=dict)

    def template(self, manifest: Manifest) -> str:
        """A file of objects as a file of templates."""
        return "---\n".join(self._document(to_document(one)) for one in manifest.objects)

    def _document(self, document: Json) -> str:
        metadata = document["metadata"]
        metadata["labels"][self.marks.block("extraLabels")] = ""
        if "annotations" in metadata:
            metadata["annotations"][self.marks.block("extraAnnotations")] = ""
        else:
            metadata[self.marks.block("extraAnnotations", "annotations")] = ""
        spec = document.get("spec", {})
        if document["kind"] in WORKLOADS and "replicas" in spec and not self._is_picker(metadata):
            spec["replicas"] = self._replicas(metadata["name"], spec["replicas"])
        if document["kind"] == "ScaledObject":
            for trigger in spec["triggers"]:
                trigger["metadata"]["serverAddress"] = self._said("prometheusAddress", PROMETHEUS)
        if document["kind"] == "HTTPRoute" and self.any_gateway:
            spec["parentRefs"] = [{"name": self._said("gateway", GATEWAY.name)}]
        if document["kind"] == "Service" and metadata["name"] == self.names.router:
            spec["type"] = self.marks.word("{{ .Values.routerServiceType }}")
        for container in _containers(spec):
            container["imagePullPolicy"] = self.marks.word("{{ .Values.imagePullPolicy }}")
            container["image"] = self.marks.word(MIRROR) + container["image"]
        text = self.marks.filled(dumped(document))
        condition = CONDITIONS.get(document["kind"])
        if condition is not None:
            return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"
        return text

    def _is_picker(self, metadata: Json) -> bool:
        """Whether it is of llm-d's router: how many there are decides how each is started."""
        of_router = metadata["labels"][f"{DOMAIN}/component"] == ROUTER
        return bool(of_router and metadata["name"] != self.names.router)

    def _said(self, value: str, default: str) -> str:
        """A mark for a value that only some charts have."""
        self.more[value] = default
        return self.marks.word(f"{{{{ .Values.{value} }}}}")

    def _replicas(self, name: str, count: int) -> str:
        if name == self.names.router:
            self.routers = count
            return self.marks.word("{{ int .Values.routerReplicas }}")
        self.engines[name] = count
        return self.marks.word(f'{{{{ int (index .Values.engineReplicas "{name}") }}}}')

    def values(self) -> tuple[Value, ...]:
        """What the chart lets users say."""
        count = {"type": "integer", "minimum": 0}
        engines = {
            "type": "object",
            "properties": dict.fromkeys(self.engines, count),
            "required": list(self.engines),
            "additionalProperties": False,
        }
        policies = {"enum": ["Always", "IfNotPresent", "Never"]}
        services = {"enum": ["ClusterIP", "LoadBalancer", "NodePort"]}
        texts = {**TEXTS, "propertyNames": {"not": {"pattern": OURS}}}
        router = (
            Value(
                "routerReplicas", "Routers that run side by side.", self.routers,
                {"type": "integer", "minimum": 1},
            ),
            Value(
                "clusterDomain", "The domain of the cluster's DNS.", CLUSTER_DOMAIN,
                {"type": "string", "pattern": "^[a-z0-9.-]*[a-z0-9]$"},
            ),
            Value(
                "routerServiceType", "How the router's Service is reached; its admin port is not.",
                "ClusterIP", services,
            ),
        )  # fmt: skip
        return (
            Value(
                "imageRegistry",
                "A registry that mirrors all others, put before every image. Empty: none.",
                "", {"type": "string", "pattern": "^[^/ ]*(/[^/ ]+)*$"},
            ),
            Value("imagePullPolicy", "When images are pulled.", "IfNotPresent", policies),
            Value(
                "engineReplicas", "Replicas of each variant; of those that scale by rule, none.",
                self.engines, engines,
            ),
            *(() if self.routers is None else router),
            Value(
                "networkPolicy", "Whether only the router, Prometheus and engines reach engines.",
                default=True, schema={"type": "boolean"},
            ),
            *(Value(name, MORE[name], said, WORD) for name, said in sorted(self.more.items())),
            Value("extraLabels", "Labels for every object, beside those of the fleet.", {}, texts),
            Value("extraAnnotations", "Annotations for every object.", {}, texts),
        )  # fmt: skip


def render(plan: Plan, target: PlannedTarget) -> tuple[RenderedFile, ...]:
    """The files of a chart."""
    head, names = header(plan, target.name), Names.of(plan)
    objects = [one for file in manifests(plan, target) for one in file.objects]
    marks = Marks("\n".join(said for one in objects for said in texts(to_document(one))))
    places = ("{{ .Release.Namespace }}", "{{ .Values.clusterDomain }}")
    files = manifests(plan, target, after(*(marks.word(place) for place in places)))
    chart = Chart(names, marks, plan.router is None or plan.router.gateway is None)
    templates = [
        RenderedFile(f"templates/{file.name}.yaml", head + chart.template(file)) for file in files
    ]
    about: Json = {
        "apiVersion": "v2",
        "name": plan.fleet,
        "description": f"The fleet {plan.fleet}, rendered by llmd-ctl for {target.name}",
        "type": "application",
        "version": f"{version()}+{plan.spec_hash[:12]}",
        "kubeVersion": f">={_oldest(files)}.0-0",
    }
    values = chart.values()
    rest = [
        RenderedFile("Chart.yaml", head + dumped(about)),
        RenderedFile("values.yaml", head + _values(values)),
        RenderedFile("values.schema.json", _schema(values, head)),
    ]
    return tuple(sorted((*templates, *rest), key=lambda file: file.path))


def _oldest(files: Iterable[Manifest]) -> str:
    """The oldest Kubernetes that has all that the objects ask for."""
    kinds = {one.KIND for file in files for one in file.objects}
    return CLAIMING if ResourceClaimTemplate.KIND in kinds else OLDEST


def _containers(document: Any) -> Iterator[Json]:
    if isinstance(document, dict):
        yield from document.get("containers", [])
        yield from document.get("initContainers", [])
        for value in document.values():
            yield from _containers(value)


def _values(values: tuple[Value, ...]) -> str:
    return "\n".join(f"# {one.about}\n{dumped({one.name: one.default})}" for one in values)


def _schema(values: tuple[Value, ...], head: str) -> str:
    schema = {
        "$schema": "https://json-schema.org/draft-07/schema#",
        "$comment": head.replace("# ", "").strip(),
        "type": "object",
        "properties": {one.name: {**one.schema, "description": one.about} for one in values},
        "required": [one.name for one in values],
        "additionalProperties": False,
    }
    return json.dumps(schema, indent=2) + "\n"
