"""Rules of vLLM on TPUs (tpu-inference): what is reset there, what is not built, its variables.

How a model is split over chips stands in `tpu_sharding`.
"""

from __future__ import annotations

from llmd_ctl.profiles.rules.attention import unserved
from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.tpu_sharding import EXTRA, NEW_DESIGN, latent, strategy

TPU: tuple[Platform, ...] = ("tpu",)
PLATFORM = "tpu-inference 0.32.0 platforms/tpu_platform.py"
DRAFT = ("--speculative-config", "--spec-method")
CONNECTORS = (
    "TPUConnector", "TPUConnectorHMA", "TPUOffloadConnector", "RaidenOffloadConnector",
)  # fmt: skip
METHODS = ("ngram", "eagle", "eagle3", "mtp", "dflash", "dspark")
UNTRIED = ("nvfp4", "mxfp4")
BLOCKS, KERNEL = "REQUANTIZE_BLOCK_SIZE", "ENABLE_QUANTIZED_MATMUL_KERNEL"
EXECUTOR = "--distributed-executor-backend"
# Variables that are read as one of some words, and those that are read as a switch.
WORDS = {
    "TPU_MULTIHOST_BACKEND": ("ray",),
    "MODEL_IMPL_TYPE": ("auto", "vllm", "flax_nnx"),  # jetpack passes, and no loader has it
    "DRAFT_MODEL_IMPL_TYPE": ("auto", "vllm", "flax_nnx"),
    "JAX_PLATFORMS": ("tpu", "cpu", "proxy"),
}
SWITCHES = (
    "NEW_MODEL_DESIGN", "TPU_MULTIPROCESS_DP", "SKIP_JAX_PRECOMPILE", "USE_2D_TP",
    "VLLM_XLA_CHECK_RECOMPILATION", "USE_MOE_EP_KERNEL", "USE_BATCHED_RPA_KERNEL",
    "ATTN_BUCKETIZED_NUM_REQS", "ENABLE_QUANTIZED_MATMUL_KERNEL", "DISABLE_WEIGHT_REQUANTIZATION",
)  # fmt: skip
YES_OR_NO = ("0", "1", "false", "true")


def _own_backend(line: Line) -> str:
    return "FLASH_ATTN_MLA" if latent(line) else "FLASH_ATTN"


def _executor(line: Line) -> str:
    """The executor that is taken, whatever is said."""
    if line.env.get("TPU_MULTIHOST_BACKEND"):
        return "ray"
    return "uni" if line.pipeline == 1 else "mp"


def _misread(line: Line) -> dict[str, tuple[str, ...]]:
    """The variables whose value is not read, with what would be."""
    wrong = {
        name: words
        for name, words in WORDS.items()
        if any(each.lower() not in words for each in line.env.get(name, "").split(",") if each)
    }
    known = ("", *YES_OR_NO)
    switches = (name for name in SWITCHES if line.env.get(name, "").lower() not in known)
    return wrong | dict.fromkeys(switches, YES_OR_NO)


def _recurrent(line: Line) -> bool:
    return line.model.traits.kind == "hybrid" and line["--enable-prefix-caching"] is not False


RULES = (
    Rule(
        "T13",
        "The attention backend of a TPU is its own",
        when=lambda line: line.backend is not None,
        require=lambda line: line.backend == _own_backend(line),
        message="{backend} is set back to the TPU's own, with no more than a line in the log",
        remedy="Leave it out.",
        allowed=lambda line: (_own_backend(line),),
        at=("--attention-backend", "--attention-config"),
        severity="warning",
        source=f"{PLATFORM}: get_attn_backend_cls",
        platforms=TPU,
    ),
    Rule(
        "T44",
        "The attention backend of a TPU has a name that the engine knows",
        when=lambda line: line.backend is not None,
        require=lambda line: line.backend in line.engine.spec.attention,
        message="{engine.name} {version} has no attention backend {backend}",
        remedy="Leave it out.",
        allowed=lambda line: (_own_backend(line),),
        at=("--attention-backend", "--attention-config"),
        source="vLLM 0.32.0 config/attention.py: validate_backend_before",
        since="0.32.0",
        platforms=TPU,
    ),
    Rule(
        "T15",
        "KV that lies in main memory is the TPU's own connector's",
        when=lambda line: line.says("--kv-offloading-size"),
        require=lambda _line: False,
        message="--kv-offloading-size means a connector that TPUs do not take",
        remedy="Leave it out.",
        at=("--kv-offloading-size",),
        source=f"{PLATFORM}: check_and_update_config",
        platforms=TPU,
    ),
    Rule(
        "T05",
        "Latent attention on TPUs is of the new model design, in parallel copies",
        when=lambda line: (
            latent(line) and not unserved(line) and not line.switched("VLLM_MLA_DISABLE")
        ),
        require=lambda line: (
            line.switched(NEW_DESIGN) and strategy(line, "enable_dp_attention") is True
        ),
        message="latent attention is refused on TPUs without NEW_MODEL_DESIGN=1 and"
        " data-parallel attention",
        remedy="Add --additional-config with"
        ' {{"sharding": {{"sharding_strategy": {{"enable_dp_attention": true}}}}}}, and set'
        " NEW_MODEL_DESIGN in engines.vllm.env of a profile that extends {accelerator.name}.",
        at=(EXTRA, NEW_DESIGN),
        source=f"{PLATFORM}: check_and_update_config",
        platforms=TPU,
    ),
    Rule(
        "T06",
        "Images on TPUs are not cut into chunks",
        when=lambda line: line.model.traits.multimodal and not line.on_by("--language-model-only"),
        require=lambda line: line.on_by("--disable-chunked-mm-input"),
        message="a multimodal model fails on TPUs when an image is cut over two steps",
        remedy="Add --disable-chunked-mm-input, or serve text alone with --language-model-only.",
        at=("--disable-chunked-mm-input",),
        severity="warning",
        source=f"{PLATFORM}: check_and_update_config",
        platforms=TPU,
    ),
    Rule(
        "T14",
        "KV is handed over by the TPU's own connectors",
        when=lambda line: line.says("--kv-transfer-config"),
        require=lambda line: line.connector in CONNECTORS,
        message="TPUs do not take the connector {connector}",
        remedy="Name one of tpu-inference's own; the other side must be TPUs too.",
        allowed=lambda _line: CONNECTORS,
        at=("--kv-transfer-config",),
        source=f"{PLATFORM}: check_and_update_config",
        platforms=TPU,
    ),
    Rule(
        "T16",
        "A way of drafting is one that TPUs have",
        when=lambda line: line.draft_method is not None,
        require=lambda line: line.draft_method in METHODS,
        message="tokens are not drafted by {draft_method} on TPUs",
        remedy="Take another method, or leave drafting out.",
        allowed=lambda _line: METHODS,
        at=DRAFT,
        source="tpu-inference 0.32.0 runner/tpu_runner.py:1062",
        platforms=TPU,
    ),
    Rule(
        "T17",
        "A recurrent model on TPUs keeps prefixes or drafts",
        when=lambda line: _recurrent(line) and bool(line.draft),
        require=lambda _line: False,
        message="prefix caching is turned off: with states it does not go with drafted tokens",
        remedy="Say --no-enable-prefix-caching, or draft nothing.",
        at=("--enable-prefix-caching", *DRAFT),
        severity="warning",
        source=f"{PLATFORM}: check_and_update_config",
        platforms=TPU,
    ),
    Rule(
        "T18",
        "Cached states on TPUs are matched block by block",
        when=lambda line: _recurrent(line) and not line.draft and bool(line["--prefix-match-unit"]),
        require=lambda line: line["--prefix-match-unit"] >= line.told("--block-size"),
        message="prefixes are matched by {--prefix-match-unit} tokens, fewer than a block has,"
        " and TPUs copy no part of a state",
        remedy="Leave --prefix-match-unit out.",
        at=("--prefix-match-unit",),
        source=f"{PLATFORM}: check_and_update_config",
        platforms=TPU,
    ),
    Rule(
        "T19",
        "Decoding goes on by itself only without pipeline stages",
        when=lambda line: line.inside(EXTRA, "enable_continue_decode") is True,
        require=lambda line: line.pipeline == 1,
        message="enable_continue_decode does not go with pipeline parallelism",
        remedy="Set --pipeline-parallel-size to 1, or leave enable_continue_decode out.",
        at=(EXTRA, "--pipeline-parallel-size"),
        source=f"{PLATFORM}: check_and_update_config",
        platforms=TPU,
    ),
    Rule(
        "T20",
        "The executor on TPUs is the one that is taken",
        when=lambda line: line.says(EXECUTOR),
        require=lambda line: line[EXECUTOR] == _executor(line),
        message="--distributed-executor-backend is overruled on TPUs",
        remedy="Leave it out; several machines are TPU_MULTIHOST_BACKEND=ray.",
        at=(EXECUTOR,),
        severity="warning",
        source=f"{PLATFORM}: check_and_update_config",
        platforms=TPU,
    ),
    Rule(
        "T21",
        "A variable of tpu-inference has a value that it reads",
        require=lambda line: not _misread(line),
        message="tpu-inference stops at the value of such a variable",
        remedy="Write one of the values that it reads.",
        allowed=lambda line: next(iter(_misread(line).values()), ()),
        at=(*WORDS, *SWITCHES),
        source="tpu-inference 0.32.0 envs.py:129",
        platforms=TPU,
    ),
    Rule(
        "T09",
        "Weights are of a type that this generation of TPU is tried with",
        when=lambda line: bool(line.on.weight_dtypes),
        require=lambda line: (
            line.model.weight_dtype not in UNTRIED
            or line.model.weight_dtype in line.on.weight_dtypes
        ),
        message="{accelerator.name} is not among the TPUs that weights in {model.weight_dtype} are"
        " tried on",
        remedy="Take TPU v7x, or a checkpoint in bf16.",
        severity="warning",
        source="tpu-inference 0.32.0: tables of models; weightDtypes of the profile",
        platforms=TPU,
    ),
    Rule(
        "T22",
        "Weights of ModelOpt on TPUs are in fp4",
        when=lambda line: line.model.traits.quantization == "modelopt",
        require=lambda line: line.model.weight_dtype == "nvfp4",
        message="TPUs serve ModelOpt's nvfp4, and not its {model.weight_dtype}",
        remedy="Take a checkpoint in fp8 of another kind, or in nvfp4.",
        at=("--quantization",),
        source=f"{PLATFORM}: supported_quantization",
        platforms=TPU,
    ),
    Rule(
        "T23",
        "Experts are not quantised while they are loaded on TPUs",
        when=lambda line: line["--quantization"] == "fp8" and bool(line.model.experts),
        require=lambda line: bool(line.model.traits.quantization),
        message="--quantization fp8 of plain weights stops at the first layer of experts on TPUs",
        remedy="Take a checkpoint that is in fp8 already.",
        at=("--quantization",),
        source="tpu-inference 0.32.0 layers/vllm/quantization/fp8.py:134",
        platforms=TPU,
    ),
    Rule(
        "T36",
        "Blocks of requantised weights on TPUs come with their kernel",
        when=lambda line: line.model.traits.quantization == "fp8",
        require=lambda line: bool(line.env.get(BLOCKS)) == line.switched(KERNEL),
        message="fp8 weights on TPUs are refused with one of REQUANTIZE_BLOCK_SIZE and"
        " ENABLE_QUANTIZED_MATMUL_KERNEL alone",
        remedy="Set both variables, or neither.",
        at=(BLOCKS, KERNEL),
        source="tpu-inference 0.32.0 layers/vllm/quantization/fp8.py:171",
        platforms=TPU,
    ),
)
