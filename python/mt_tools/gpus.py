"""GPUs of this machine, from NVIDIA's library NVML: memory now, and what each process has of it."""

from __future__ import annotations

import ctypes
import os
import subprocess
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

#: NVML's value of a process whose memory it does not know, as in some containers.
UNKNOWN = 0xFFFFFFFFFFFFFFFF
SUCCESS, INSUFFICIENT_SIZE = 0, 7
#: Seconds that an MPS daemon has to answer. A stuck one is as good as none.
ANSWER_S = 5.0


class _Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
                ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint),
                ("compute_instance", ctypes.c_uint)]


@dataclass
class Gpu:
    """A GPU."""

    uuid: str
    library: Any
    handle: Any

    def free_and_total(self) -> Optional[tuple[int, int]]:
        """Bytes; `None` if the GPU is lost."""
        memory = _Memory(version=ctypes.sizeof(_Memory) | 2 << 24)
        if self.library.nvmlDeviceGetMemoryInfo_v2(self.handle, ctypes.byref(memory)) != SUCCESS:
            return None
        return memory.free, memory.total

    def used(self) -> Dict[int, int]:
        """Bytes by process; those of which NVML knows none are left out."""
        found: Dict[int, int] = {}
        for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3"):
            function = getattr(self.library, name, None)
            room = ctypes.c_uint(64)
            while function is not None:
                all_of_it = (_Process * room.value)()
                size = room.value
                code = function(self.handle, ctypes.byref(room), all_of_it)
                if code == SUCCESS:
                    rows = all_of_it[:room.value]
                    found |= {row.pid: row.memory for row in rows if row.memory != UNKNOWN}
                if code != INSUFFICIENT_SIZE:
                    break
                # Others may start meanwhile.
                room.value = max(2 * size, room.value)
        return found


def visible() -> List[Gpu]:
    """The GPUs that this process may use: those of `CUDA_VISIBLE_DEVICES`, numbered as NVML does, or all. None where NVML
    cannot be loaded."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    count = ctypes.c_uint()
    if library.nvmlInit_v2() != SUCCESS or library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != SUCCESS:
        return []
    gpus = []
    for number in range(count.value):
        handle, uuid = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        if (library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle)) == SUCCESS
                and library.nvmlDeviceGetUUID(handle, uuid, len(uuid)) == SUCCESS):
            gpus.append(Gpu(uuid.value.decode(), library, handle))
    return chosen(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))


def chosen(gpus: List[Gpu], words: Optional[str]) -> List[Gpu]:
    """Those that a list of numbers and beginnings of UUIDs names. As for CUDA, it ends at the first that names none."""
    if words is None:
        return gpus
    found: List[Gpu] = []
    for word in words.split(","):
        word = word.strip()
        named = [gpu for number, gpu in enumerate(gpus) if word == str(number) or (len(word) > 4 and gpu.uuid.startswith(word))]
        if len(named) != 1:
            break
        found += [gpu for gpu in named if gpu not in found]
    return found


def mps_answers() -> bool:
    """Whether an MPS daemon answers, at `CUDA_MPS_PIPE_DIRECTORY` or where daemons are otherwise."""
    try:
        asked = subprocess.run(["nvidia-cuda-mps-control"], input="get_server_list\n", capture_output=True, text=True,
                               timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0
