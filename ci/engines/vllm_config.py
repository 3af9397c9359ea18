"""Says what vLLM's configuration makes of lines on NVIDIA GPUs that are not here.

tests/e2e/parser gives it a JSON list of questions on standard input: `line` (behind `vllm serve`),
`name`, `capability`, `memoryBytes` and `devices`. It prints a JSON list: null where the
configuration is made, else what refused it. Run by the vLLM environment's own Python. It starts no
engine and touches no device: the platform is vLLM's own for CUDA, of which it answers what the
driver would be asked for.
"""

import json
import os
import sys
import types
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
for compiled in ("vllm._C", "vllm._moe_C", "vllm._C_stable_libtorch"):  # kernels: never called
    sys.modules.setdefault(compiled, types.ModuleType(compiled))

# The imports below come after what they must not find.
import torch  # noqa: E402 - see above
import vllm.platforms  # noqa: E402 - see above
from vllm.platforms.cpu import CpuPlatform  # noqa: E402 - see above
from vllm.platforms.cuda import CudaPlatformBase  # noqa: E402 - see above
from vllm.platforms.interface import DeviceCapability  # noqa: E402 - see above

HERE = vllm.platforms._current_platform = CpuPlatform()  # what every module takes for itself


class Cuda(CudaPlatformBase):
    """CUDA on devices of a capability."""

    capability = (9, 0)
    devices = 8
    name = ""
    memory_bytes = 0

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
        """What the driver would say."""
        return DeviceCapability(*cls.capability)

    @classmethod
    def has_device_capability(cls, capability: Any, device_id: int = 0) -> bool:
        """Whether it is as new."""
        wanted = capability if isinstance(capability, tuple) else divmod(capability, 10)
        return cls.capability >= tuple(wanted)

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """What the driver calls it: vLLM treats an A100 otherwise."""
        return cls.name

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """In bytes."""
        return cls.memory_bytes

    @classmethod
    def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:
        """As in an HGX machine."""
        return True

    def is_cumem_allocator_available(self) -> bool:
        """Whether sleeping engines can give memory back: it is one of the kernels."""
        return True

    @classmethod
    def device_count(cls) -> int:
        """How many there are."""
        return cls.devices


def pretend() -> None:
    """Have vLLM find such devices, and inspect models as the CPU that they are inspected on."""
    from vllm import _custom_ops, triton_utils
    from vllm.model_executor.models import registry

    def inspected(ask: Any) -> Any:
        HERE.__class__ = CpuPlatform
        try:
            return ask()
        finally:
            HERE.__class__ = Cuda

    registry._run_in_subprocess = inspected
    for model in ("qwen3", "qwen3_moe", "llama", "gpt_oss", "deepseek_v2"):
        __import__(f"vllm.model_executor.models.{model}")
    HERE.__class__ = Cuda
    torch.cuda.device_count = lambda: Cuda.devices
    torch.cuda.is_available = lambda: True
    triton_utils.HAS_TRITON = True
    for name, module in list(sys.modules.items()):
        if name.startswith("vllm") and vars(module).get("HAS_TRITON") is False:
            module.HAS_TRITON = True
    _custom_ops.cutlass_scaled_mm_supports_fp8 = lambda capability: capability >= 89
    _custom_ops.cutlass_scaled_mm_supports_fp4 = lambda capability: capability >= 100


def main() -> None:
    """Answers all questions at once: importing vLLM takes ten seconds."""
    pretend()
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.usage.usage_lib import UsageContext
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    def refused(question: dict[str, Any]) -> str | None:
        Cuda.capability, Cuda.devices = tuple(question["capability"]), question["devices"]
        Cuda.name, Cuda.memory_bytes = question["name"], question["memoryBytes"]
        try:
            given = make_arg_parser(FlexibleArgumentParser()).parse_args(question["line"])
            given.model = given.model_tag
            validate_parsed_serve_args(given)
            args = AsyncEngineArgs.from_cli_args(given)
            args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
        except SystemExit:
            return "the parser ended"
        except Exception as error:  # noqa: BLE001 - whatever it is, this line cannot be started
            return f"{type(error).__name__}: {error}"
        return None

    print(json.dumps([refused(question) for question in json.load(sys.stdin)]))


main()
