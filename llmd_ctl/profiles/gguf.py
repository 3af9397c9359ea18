"""The header of a GGUF file as the content of a config.json.

Called by `model_files` with the first bytes of a file. It reads what names and sizes the model and
skips the rest (vocabulary, merges); tensor data is never looked at. GGUF is described in
ggml/docs/gguf.md of the ggml project; version 2 and 3 are read.
"""

from __future__ import annotations

import struct
from typing import Any

MAGIC = b"GGUF"
VERSIONS = (2, 3)
# Value types: struct format of scalars; 8 is text, 9 an array.
SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
TEXT, ARRAY = 8, 9
LONGEST_TEXT = 1 << 20
MOST_KEYS = 1 << 16

# general.architecture to `model_type`.
FAMILIES = {
    "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3moe": "qwen3_moe",
    "gpt-oss": "gpt_oss", "gemma2": "gemma2", "gemma3": "gemma3_text", "granite": "granite",
    "phi3": "phi3", "smollm3": "smollm3",
}  # fmt: skip
# Keys after "<architecture>." to the names of a config.json.
KEYS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "context_length": "max_position_embeddings",
    "vocab_size": "vocab_size",
    "expert_count": "num_local_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
FLOAT32_FILE = 0  # general.file_type; every other type is computed with 16-bit floats


class GgufError(ValueError):
    """The bytes are no GGUF header that can be read."""


def read_header(data: bytes) -> dict[str, Any]:
    """Return the header's keys and values; an array gives its length alone."""
    reader = _Reader(data)
    if reader.take(4) != MAGIC:
        raise GgufError("it does not start with GGUF")
    version, _, count = reader.numbers("<IQQ")
    if version not in VERSIONS:
        raise GgufError(f"GGUF version {version} is not known")
    if count > MOST_KEYS:
        raise GgufError(f"its header claims {count} keys")
    header: dict[str, Any] = {}
    for _ in range(count):
        key = reader.text()
        header[key] = reader.value(reader.numbers("<I")[0])
    return header


def config_of(header: dict[str, Any], file_bytes: int) -> dict[str, Any]:
    """Return a header in the words of a config.json, with the file's size as its weights."""
    architecture = str(header.get("general.architecture", ""))
    prefix = f"{architecture}."
    config: dict[str, Any] = {
        ours: header[prefix + theirs] for theirs, ours in KEYS.items() if prefix + theirs in header
    }
    config.setdefault("vocab_size", header.get("tokenizer.ggml.tokens"))
    config["model_type"] = FAMILIES.get(architecture, architecture)
    if architecture == "llama" and config.get("num_local_experts"):
        config["model_type"] = "mixtral"
    if "num_local_experts" in config:
        config["num_experts"] = config["num_local_experts"]
    plain = header.get("general.file_type") == FLOAT32_FILE
    config["dtype"] = "float32" if plain else "float16"
    config["weight_bytes"] = file_bytes
    return config


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise GgufError("its header ends too early")
        piece = self.data[self.at : self.at + size]
        self.at += size
        return piece

    def numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def text(self) -> str:
        (size,) = self.numbers("<Q")
        if size > LONGEST_TEXT:
            raise GgufError(f"its header holds a text of {size} bytes")
        return self.take(size).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            return self._array()
        if kind not in SCALARS:
            raise GgufError(f"its header holds a value of unknown type {kind}")
        return self.numbers("<" + SCALARS[kind])[0]

    def _array(self) -> int:
        """Skip an array and return its length. Arrays of arrays are not used by any model."""
        kind, count = self.numbers("<IQ")
        if kind == TEXT:
            for _ in range(count):
                (size,) = self.numbers("<Q")
                self.take(size)
        elif kind in SCALARS:
            self.take(struct.calcsize(SCALARS[kind]) * count)
        else:
            raise GgufError("its header holds an array of arrays")
        return int(count)
