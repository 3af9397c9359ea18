"""Manifests for tests: judged as text, or as a folder of files."""

from pathlib import Path

from llmd_ctl.errors import Problem
from llmd_ctl.plan.manifests import Judgement, judge_manifests
from llmd_ctl.profiles import Catalog
from llmd_ctl.spec.source import SourceText, read_source

CATALOG = Catalog()
FIXTURES = Path(__file__).parents[3] / "fixtures" / "manifests"
CLEAN = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      containers:
      - name: engine
        image: vllm/vllm-openai:v0.32.0
        args: [--model=Qwen/Qwen3-32B, --tensor-parallel-size=2]
        env:
        - {name: HF_HOME, value: /cache}
        ports: [{name: http, containerPort: 8000}]
        resources: {limits: {nvidia.com/gpu: 2}}
        startupProbe:
          {httpGet: {path: /v1/models, port: http}, periodSeconds: 30, failureThreshold: 120}
        readinessProbe: {httpGet: {path: /v1/models, port: http}}
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes:
      - {name: shm, emptyDir: {medium: Memory, sizeLimit: 20Gi}}
"""


def judged(*texts: str) -> Judgement:
    """Judge texts, each a file of its own; no other file is there."""
    sources = [SourceText(f"{n}.yaml", text, Path()) for n, text in enumerate(texts)]
    return judge_manifests(sources, CATALOG, lambda _path: False)


def judged_folder(folder: Path) -> Judgement:
    """Judge the files of a folder."""
    sources = [read_source(path) for path in sorted(folder.rglob("*.yaml"))]
    return judge_manifests(sources, CATALOG, lambda path: Path(path).exists())


def rule_of(problem: Problem) -> str:
    """The id that a problem's message begins with; its code where there is none."""
    head = problem.message.partition(":")[0]
    return head if head[:1].isupper() and head[1:].isdigit() else problem.code


def rules(judgement: Judgement) -> list[str]:
    """The rules that are broken, in order."""
    return [rule_of(problem) for problem in judgement.problems]
