"""ci/engines makes what it says: one model in two forms, the same on every run."""

import json
import subprocess
from pathlib import Path

import pytest

COMPARE = """
import json, sys, gguf, numpy as np
from safetensors.numpy import load_file
folder = sys.argv[1]
theirs = {t.name: t.data for t in gguf.GGUFReader(folder + "/tiny.gguf").tensors}
ours = load_file(folder + "/model.safetensors")
same = {"token_embd": "model.embed_tokens", "output": "lm_head",
        "blk.1.ffn_down": "model.layers.1.mlp.down_proj"}
equal = [np.array_equal(theirs[a + ".weight"], ours[b + ".weight"]) for a, b in same.items()]
query, name = ours["model.layers.0.self_attn.q_proj.weight"], "blk.0.attn_q.weight"
rows_kept = sorted(map(bytes, query)) == sorted(map(bytes, theirs[name]))
print(json.dumps([len(theirs) == len(ours), *equal, rows_kept]))
"""


@pytest.fixture
def model_python(repo_root: Path, tiny_model: Path) -> Path:
    assert tiny_model.is_dir()
    return repo_root / ".cache" / "engines" / "model-venv" / "bin" / "python"


@pytest.mark.slow
def test_both_forms_of_the_tiny_model_have_the_same_weights(
    tiny_model: Path, model_python: Path
) -> None:
    argv = [str(model_python), "-c", COMPARE, str(tiny_model)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [True] * 5


@pytest.mark.slow
def test_the_tiny_model_is_the_same_on_every_run(
    tmp_path: Path, repo_root: Path, tiny_model: Path, model_python: Path
) -> None:
    program = repo_root / "ci" / "engines" / "tiny_model.py"
    subprocess.run([str(model_python), str(program), str(tmp_path)], check=True)
    for path in tiny_model.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_asking_again_makes_nothing(repo_root: Path, tiny_model: Path) -> None:
    argv = ["python3", str(repo_root / "ci" / "engines"), "model"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    assert repo_root / done.stdout.split()[-1] == tiny_model


def test_an_unknown_part_is_refused_with_the_known_ones(repo_root: Path) -> None:
    argv = ["python3", str(repo_root / "ci" / "engines"), "tgi"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "vllm" in done.stderr
    assert "model" in done.stderr
