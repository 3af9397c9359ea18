"""What is known: accelerators, engines and models, as data with source and confidence.

    nvidia amd tpu gaudi intel cpu rebellions ascend aws   accelerators, one YAML file each, and
                 the families (NAME.family.yaml) that they share
    engines models   the other data
    number       a figure, its source, its confidence; units and possible ranges
    accelerator engine model   the types of the three kinds of profile
    kubernetes container topology transfer backend   parts of an accelerator's, for renderers
    catalog      all profiles by name: built_in and, faults placed, those of user_file (document:
                 a file against its type; figure: a figure against its dimension)
    shape        a config.json as parameters, bytes, and what is kept for each request, put
                 together from attention, latent, compressed, recurrent, feed_forward and tower
                 (layers: which layer is of which kind; cache, part: what they answer with;
                 quantization: packed weights)
    model_files  reads a local model for the caller of `plan` (gguf: a GGUF header)

Called by `plan` and `cli`. Another accelerator or model is another file, never another `if`.
"""

from llmd_ctl.profiles.accelerator import Accelerator, EngineOn
from llmd_ctl.profiles.catalog import Catalog, UnknownProfile
from llmd_ctl.profiles.engine import Engine, Flag
from llmd_ctl.profiles.model import ConfigError, LocalModel, ModelProfile
from llmd_ctl.profiles.model_files import read_local_model
from llmd_ctl.profiles.number import Number
from llmd_ctl.profiles.shape import ModelShape, read_shape

__all__ = [
    "Accelerator",
    "Catalog",
    "ConfigError",
    "Engine",
    "EngineOn",
    "Flag",
    "LocalModel",
    "ModelProfile",
    "ModelShape",
    "Number",
    "UnknownProfile",
    "read_local_model",
    "read_shape",
]
