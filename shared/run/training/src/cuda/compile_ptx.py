#!/usr/bin/env python3
"""Compiles kernels.cu to kernels.ptx with NVRTC; no GPU and no CUDA toolkit needed.

NVRTC 12.1 writes PTX 8.1, which every driver from r530 on can load:
    pip download --no-deps nvidia-cuda-nvrtc-cu12==12.1.105 && unzip nvidia_cuda_nvrtc*.whl
    python3 compile_ptx.py nvidia/cuda_nvrtc/lib/libnvrtc.so.12
"""

import ctypes
import pathlib
import sys


def fnv1a(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def main() -> None:
    folder = pathlib.Path(__file__).parent
    source = (folder / "kernels.cu").read_bytes()
    nvrtc = ctypes.CDLL(sys.argv[1])
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None)
    options = [b"--gpu-architecture=compute_70", b"--std=c++14", b"--restrict"]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    # A test compares this line with kernels.cu.
    head = f"// kernels.cu fnv1a {fnv1a(source):016x}\n"
    (folder / "kernels.ptx").write_text(head + ptx.value.decode())


if __name__ == "__main__":
    main()
