"""Writes a tiny Llama, twice with the same weights: a Hugging Face folder, and tiny.gguf in it.

`python tiny_model.py OUT`, run by ci/engines. Two layers, 0.8 million random parameters, a trained
byte-level BPE of 2048 tokens and a chat template: small enough to be made in seconds, real enough
that vLLM and llama.cpp load it and give the same greedy text. It says nothing sensible. Same bytes
on every run (fixed seeds).
"""

import json
import random
import sys
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

Matrix = NDArray[np.float32]

HIDDEN, LAYERS, HEADS, KV_HEADS, FEED_FORWARD, CONTEXT = 128, 2, 4, 2, 256, 8192
KV_WIDTH = HIDDEN // HEADS * KV_HEADS
RMS_EPSILON, ROPE_BASE = 1e-5, 10000.0
SPECIAL = ["<|pad|>", "<|bos|>", "<|im_start|>", "<|im_end|>"]  # ids 0 to 3
PAD, BOS, EOS = 0, 1, 3
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Hugging Face name in a layer -> (GGUF name, shape)
LAYER_TENSORS: dict[str, tuple[str, tuple[int, ...]]] = {
    "input_layernorm": ("attn_norm", (HIDDEN,)),
    "post_attention_layernorm": ("ffn_norm", (HIDDEN,)),
    "self_attn.q_proj": ("attn_q", (HIDDEN, HIDDEN)),
    "self_attn.k_proj": ("attn_k", (KV_WIDTH, HIDDEN)),
    "self_attn.v_proj": ("attn_v", (KV_WIDTH, HIDDEN)),
    "self_attn.o_proj": ("attn_output", (HIDDEN, HIDDEN)),
    "mlp.gate_proj": ("ffn_gate", (FEED_FORWARD, HIDDEN)),
    "mlp.up_proj": ("ffn_up", (FEED_FORWARD, HIDDEN)),
    "mlp.down_proj": ("ffn_down", (HIDDEN, FEED_FORWARD)),
}
TOP_TENSORS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}


def train_tokenizer() -> Tokenizer:
    """A BPE over made-up words."""
    rng = random.Random(7)
    syllables = [c + v for c in "bcdfghklmnprstvz" for v in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(3000)]
    ends = [".", "!", "?", ", 42;", "\n"]
    lines = (
        " ".join(rng.choices(words, k=12)).capitalize() + rng.choice(ends) for _ in range(4000)
    )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2048,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def make_weights(vocabulary: int) -> dict[str, Matrix]:
    """Random matrices and unit norms, under Hugging Face names without `.weight`."""
    rng = np.random.default_rng(7)

    def tensor(shape: tuple[int, ...]) -> Matrix:
        if len(shape) == 1:
            return np.ones(shape, np.float32)
        return (rng.standard_normal(shape) * 0.05).astype(np.float32)

    weights = {
        "model.embed_tokens": tensor((vocabulary, HIDDEN)),
        "model.norm": tensor((HIDDEN,)),
        "lm_head": tensor((vocabulary, HIDDEN)),
    }
    for layer in range(LAYERS):
        for name, (_, shape) in LAYER_TENSORS.items():
            weights[f"model.layers.{layer}.{name}"] = tensor(shape)
    return weights


def write_hugging_face(out: Path, vocabulary: int, weights: dict[str, Matrix]) -> None:
    """config.json, tokenizer_config.json, generation_config.json, model.safetensors."""
    ids = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
    config = ids | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HIDDEN // HEADS,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": RMS_EPSILON,
        "rope_theta": ROPE_BASE,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[BOS],
        "eos_token": SPECIAL[EOS],
        "pad_token": SPECIAL[PAD],
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    files = {
        "config.json": config,
        "tokenizer_config.json": tokenizer_config,
        "generation_config.json": ids,
    }
    for name, value in files.items():
        (out / name).write_text(json.dumps(value, indent=1) + "\n")
    tensors = {f"{name}.weight": array for name, array in weights.items()}
    save_file(tensors, str(out / "model.safetensors"), metadata={"format": "pt"})


def for_llama_cpp(name: str, array: Matrix) -> Matrix:
    """Reorders query and key rows: llama.cpp pairs rotary dimensions side by side."""
    heads = {"q_proj": HEADS, "k_proj": KV_HEADS}.get(name.rpartition(".")[2])
    if heads is None:
        return array
    rows, columns = array.shape
    halves = array.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(array.shape)


def gguf_name(name: str) -> str:
    """The GGUF name of a Hugging Face tensor."""
    if name in TOP_TENSORS:
        return TOP_TENSORS[name] + ".weight"
    layer, _, part = name.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{LAYER_TENSORS[part][0]}.weight"


def write_gguf(out: Path, tokenizer: Tokenizer, weights: dict[str, Matrix]) -> None:
    """tiny.gguf: sizes, tokenizer, chat template and weights in one file."""
    writer = gguf.GGUFWriter(str(out / "tiny.gguf"), "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(RMS_EPSILON)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_vocab_size(tokenizer.get_vocab_size())
    writer.add_file_type(0)  # all float32
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_list(tokens)
    writer.add_token_types([control if t in SPECIAL else normal for t in tokens])
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_pad_token_id(PAD)
    writer.add_add_bos_token(False)  # noqa: FBT003 - the library's signature
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, array in weights.items():
        writer.add_tensor(gguf_name(name), for_llama_cpp(name, array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Writes everything into the folder given on the command line."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer()
    tokenizer.save(str(out / "tokenizer.json"))
    weights = make_weights(tokenizer.get_vocab_size())
    write_hugging_face(out, tokenizer.get_vocab_size(), weights)
    write_gguf(out, tokenizer, weights)


if __name__ == "__main__":
    main()
