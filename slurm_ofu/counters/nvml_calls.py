"""How NVML is called: its errors become ``None``, and what a driver or its binding lacks is asked once.

The module ``pynvml`` is NVIDIA's own nvidia-ml-py. Other packages have used that name, and older versions
lack functions: names are looked up when they are needed, and numbers stand for constants.
"""

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

try:
    import pynvml
except SyntaxError as broken:  # versions for Python 2
    raise ImportError(f"the module pynvml is none for this Python: {broken}") from broken

from slurm_ofu.errors import SourceError

DEFAULT_LIBRARY = "libnvidia-ml.so.1"
#: NOT_SUPPORTED, FUNCTION_NOT_FOUND: answers that will not change while the driver is loaded.
NEVER = (3, 13)
#: Without these there is nothing to be had.
_NEEDED = (
    *("NVMLError", "nvmlInit", "nvmlShutdown", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"),
    *("nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetClockInfo", "nvmlGpmQueryDeviceSupport"),
    *("nvmlGpmSampleAlloc", "nvmlGpmSampleFree", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"),
    *("c_nvmlGpmMetricsGet_t", "NVML_GPM_METRICS_GET_VERSION"),
)


def open_library(library: str) -> None:
    """Initialise NVML. Raises SourceError when there is none to be had."""
    missing = [name for name in _NEEDED if not hasattr(pynvml, name)]
    if missing:
        raise SourceError(
            f"NVML cannot be used: the module pynvml at {getattr(pynvml, '__file__', '?')} has no"
            f" {missing[0]}: it is not nvidia-ml-py 12.535 or later; remove the package that brought it,"
            " and install nvidia-ml-py"
        )
    # A process-local view for MPS, in which GPM does not answer, must not be inherited.
    os.environ.pop("NVML_MPS_DEVICE_ENUMERATION", None)
    try:
        if library != DEFAULT_LIBRARY:
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)  # found by its soname from here on
        pynvml.nvmlInit()
    except (OSError, pynvml.NVMLError) as error:
        raise SourceError(f"NVML cannot be used: {error}") from error


def answer(name: str, *arguments: Any) -> Any:
    """What a function answers; ``None`` where it fails or is missing."""
    return Asked().ask(name, *arguments)


def text(value: Any) -> str | None:
    """Some versions of the binding answer bytes, others str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


@dataclass(slots=True)
class Asked:
    """What was asked about one GPU."""

    never: set[str] = field(default_factory=set)  # what this driver does not have
    answered: bool = False  # something was, since `begin`
    failed: bool = False  # something was not

    def begin(self) -> None:
        """A new reading."""
        self.answered = self.failed = False

    @property
    def is_silent(self) -> bool:
        """Whether everything that was asked in this reading failed. That there is no answer is one."""
        return self.failed and not self.answered

    def ask(self, name: str, *arguments: Any, key: str = "") -> Any:
        """What a function answers, ``None`` where it does not; ``key`` tells apart two ways to ask it."""
        key = key or name
        if key in self.never:
            return None
        call: Callable[..., Any] | None = getattr(pynvml, name, None)
        if call is None:
            self.never.add(key)
            return None
        try:
            found = call(*arguments)
        except pynvml.NVMLError as error:
            if error.value in NEVER:
                self.never.add(key)
            else:
                self.failed = True
            return None
        self.answered = True
        return found
