"""Rules of vLLM on images and sounds: who takes them, how they reach the engine, their encoder."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule

IPC, ENCODER = "--mm-tensor-ipc", "--mm-encoder-attn-backend"
DTYPE = "--mm-encoder-attn-dtype"
SCALES, SAVED = "--mm-encoder-fp8-scale-path", "--mm-encoder-fp8-scale-save-path"
OBJECT, CACHE = "--mm-shm-cache-max-object-size-mb", "--mm-processor-cache-type"
SPAWN = "VLLM_WORKER_MULTIPROC_METHOD"
USUAL_MIB = 128
# What vLLM 0.32.0 reads only of a model that takes images or sounds (config/model.py:818).
OF_IMAGES = (
    "--limit-mm-per-prompt", "--media-io-kwargs", "--mm-processor-kwargs",
    "--mm-processor-cache-gb", CACHE, OBJECT, "--mm-encoder-tp-mode", ENCODER, DTYPE, SCALES, SAVED,
    IPC, "--skip-mm-profiling", "--interleave-mm-strings", "--enable-mm-embeds",
    "--video-pruning-rate", "--mm-processor-device",
)  # fmt: skip
BY_PLATFORM = {
    "cuda": ("FLASH_ATTN", "TRITON_ATTN", "TORCH_SDPA", "FLASHINFER"),
    "rocm": ("FLASH_ATTN", "ROCM_AITER_FA", "TRITON_ATTN", "TORCH_SDPA"),
    "xpu": ("FLASH_ATTN", "TRITON_ATTN", "TORCH_SDPA"),
    "cpu": ("TORCH_SDPA",),
}


def takes_images(line: Line) -> bool:
    """Whether the model has an encoder; of some families a profile has the text alone."""
    return bool(line.model.traits.multimodal) or line.model.family.startswith("llama4")


def _shares(line: Line) -> bool:
    return takes_images(line) and line[IPC] == "torch_shm"


def _encoders(line: Line) -> tuple[str, ...]:
    return BY_PLATFORM.get(line.platform or "", ())


def _device(line: Line) -> str:
    said = line.given.get("--mm-processor-kwargs")
    device = said.get("device") if isinstance(said, dict) else None
    return str(device or "").partition(":")[0]


RULES = (
    Rule(
        "V81",
        "What is said of images is read by a model that takes them",
        when=lambda line: line.says(*OF_IMAGES),
        require=takes_images,
        message="the model takes text alone: nothing reads {names}",
        remedy="Leave them out.",
        words=lambda line: {"names": ", ".join(flag for flag in OF_IMAGES if line.says(flag))},
        at=OF_IMAGES,
        severity="warning",
        source="vLLM 0.32.0 config/model.py:818",
    ),
    Rule(
        "V82",
        "Images are passed in shared memory between processes that were spawned",
        when=_shares,
        require=lambda line: line.env.get(SPAWN) == "spawn",
        message="--mm-tensor-ipc torch_shm needs VLLM_WORKER_MULTIPROC_METHOD=spawn",
        remedy="Set the variable, or take direct_rpc.",
        at=(SPAWN, IPC),
        source="vLLM 0.32.0 config/vllm.py:1668",
    ),
    Rule(
        "V83",
        "Images are passed in shared memory to one device",
        when=_shares,
        require=lambda line: line.tensor * line.pipeline * line.data == 1,
        message="--mm-tensor-ipc torch_shm reaches one device, and the model runs on several",
        remedy="Take direct_rpc, or one device.",
        at=(IPC,),
        source="vLLM 0.32.0 config/model.py:1601",
    ),
    Rule(
        "V84",
        "The size of shared objects is of a shared cache",
        when=lambda line: takes_images(line) and line[OBJECT] not in (None, USUAL_MIB),
        require=lambda line: line[CACHE] == "shm",
        message="--mm-shm-cache-max-object-size-mb is of the cache in shared memory, which is off",
        remedy="Add --mm-processor-cache-type shm, or leave it out.",
        at=(OBJECT,),
        source="vLLM 0.32.0 config/multimodal.py:516",
    ),
    Rule(
        "V85",
        "Scales of the encoder belong to an encoder in fp8",
        when=lambda line: takes_images(line) and line.says(SCALES, SAVED),
        require=lambda line: line[DTYPE] == "fp8",
        message="scales of the encoder are read and written only where it computes in fp8",
        remedy="Add --mm-encoder-attn-dtype fp8, or leave the files out.",
        at=(SCALES, SAVED),
        source="vLLM 0.32.0 config/multimodal.py:525",
    ),
    Rule(
        "V86",
        "Scales of the encoder are read or written",
        when=lambda line: takes_images(line) and line.says(SCALES),
        require=lambda line: not line.says(SAVED),
        message="scales that are read from a file cannot be measured and saved as well",
        remedy="Leave out one of the two files.",
        at=(SAVED,),
        source="vLLM 0.32.0 config/multimodal.py:534",
    ),
    Rule(
        "V87",
        "The encoder's attention is one that encoders have",
        when=lambda line: takes_images(line) and line.says(ENCODER) and not _text_only(line),
        require=lambda line: str(line[ENCODER]).upper() in _encoders(line),
        message="no encoder attends by {--mm-encoder-attn-backend} on {accelerator.name}",
        remedy="Name one of the encoder's own, or leave it to the engine.",
        allowed=_encoders,
        at=(ENCODER,),
        source="vLLM 0.32.0 platforms/cuda.py:519, rocm.py:858, xpu.py:251, interface.py:399",
        platforms=("cuda", "rocm", "xpu", "cpu"),
    ),
    Rule(
        "V88",
        "Graphs of the encoder are captured where it runs",
        when=lambda line: takes_images(line) and _text_only(line),
        require=lambda line: (
            line.inside("--compilation-config", "cudagraph_mm_encoder") is not True
        ),
        message="--language-model-only leaves the encoder out, whose graphs are to be captured",
        remedy="Leave out cudagraph_mm_encoder.",
        at=("--compilation-config", "--language-model-only"),
        source="vLLM 0.32.0 config/vllm.py:1457",
        since="0.24.0",
    ),
    Rule(
        "V89",
        "Images are prepared beside the model, not on its device",
        when=takes_images,
        require=lambda line: (
            _device(line) not in ("cuda" if line.platform != "xpu" else "xpu",)
            or _encodes_only(line)
        ),
        message="images would be prepared on the device that runs the model",
        remedy='Leave "device" out of --mm-processor-kwargs.',
        at=("--mm-processor-kwargs",),
        source="vLLM 0.32.0 config/multimodal.py:622",
        since="0.24.0",
        platforms=("cuda", "rocm", "xpu"),
    ),
)


def _text_only(line: Line) -> bool:
    return line.on_by("--language-model-only")


def _encodes_only(line: Line) -> bool:
    return bool(line.inside("--ec-transfer-config", "ec_role") == "ec_producer")
