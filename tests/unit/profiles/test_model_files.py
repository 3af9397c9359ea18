"""Local models: folders and GGUF files, whole and broken."""

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmd_ctl.profiles import Catalog, read_local_model, read_shape
from llmd_ctl.profiles.gguf import GgufError, config_of, read_header

TEXT, ARRAY, U32 = 8, 9, 4


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(**numbers: int) -> bytes:
    """A header with an architecture, a vocabulary of two, and whole numbers."""
    pairs = [
        text("general.architecture") + struct.pack("<I", TEXT) + text("llama"),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", ARRAY, TEXT, 2) + text("a") + text("b"),
    ]
    pairs += [text(key) + struct.pack("<II", U32, value) for key, value in numbers.items()]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs)


SMALL = gguf(
    **{
        "llama.block_count": 2, "llama.embedding_length": 64, "llama.feed_forward_length": 256,
        "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
        "llama.context_length": 4096, "general.file_type": 0,
    }
)  # fmt: skip


def test_a_gguf_header_gives_a_shape_with_the_files_bytes() -> None:
    config = config_of(read_header(SMALL), file_bytes=5000)
    model = read_shape(config, Catalog.load().families, weight_bytes=float(config["weight_bytes"]))
    assert (model.layers, model.kv_heads, model.vocabulary, model.dtype) == (2, (2,), 2, "fp32")
    assert model.weight_bytes == pytest.approx(5000)


@pytest.mark.parametrize("size", [0, 3, 4, 12, 24, 40, 100, len(SMALL) - 1])
def test_a_cut_header_is_refused(size: int) -> None:
    with pytest.raises(GgufError):
        read_header(SMALL[:size])


@pytest.mark.parametrize(
    "data",
    [
        b"GGML" + SMALL[4:],
        b"GGUF" + struct.pack("<IQQ", 9, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 77),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", ARRAY, ARRAY, 1),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", ARRAY, U32, 2**60),
    ],
)
def test_a_header_that_lies_is_refused(data: bytes) -> None:
    with pytest.raises(GgufError):
        read_header(data)


@given(st.binary(max_size=200), st.integers(0, len(SMALL)))
def test_no_bytes_break_the_reader(noise: bytes, keep: int) -> None:
    for data in (SMALL[:keep] + noise, b"GGUF" + noise):
        try:
            read_header(data)
        except GgufError:
            continue


def test_a_folder_may_hold_both_forms(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "a.gguf").write_bytes(SMALL)
    model = read_local_model(tmp_path)
    assert (model.path, model.config) == (str(tmp_path), "{}")
    assert model.gguf_path == str(tmp_path / "a.gguf")
    assert json.loads(model.gguf_config or "")["weight_bytes"] == len(SMALL)
    assert model.problem is None


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "neither a config.json nor a GGUF file"),
        ({"a.gguf": SMALL, "b.gguf": SMALL}, "2 GGUF files"),
        ({"a.gguf": b"junk"}, "no GGUF file"),
    ],
)
def test_a_folder_that_cannot_be_read_says_why(
    tmp_path: Path, files: dict[str, bytes], words: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert words in (read_local_model(tmp_path).problem or "")


def test_a_path_that_is_not_there_says_so(tmp_path: Path) -> None:
    assert "does not exist" in (read_local_model(tmp_path / "none").problem or "")
