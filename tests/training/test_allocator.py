"""Freed memory stays in the process."""

import platform
import subprocess
import sys

import pytest

from ctrobust.training import keep_freed_memory

COUNT = """
import ctypes, importlib.util, resource, sys
spec = importlib.util.spec_from_file_location("allocator", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
if sys.argv[2] == "kept":
    assert module.keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
size, faults = 20 << 20, []
for _ in range(10):  # training steps of a network with four activations
    blocks = [libc.malloc(size) for _ in range(4)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks:
        libc.free(block)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[0])  # the first step's pages are new either way; huge ones are few
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is a function of glibc")
def test_reused_blocks_cause_few_page_faults() -> None:
    file = sys.modules[keep_freed_memory.__module__].__file__
    faults = {}
    for mode in ("plain", "kept"):
        command = [sys.executable, "-S", "-c", COUNT, str(file), mode]
        faults[mode] = int(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert faults["kept"] < faults["plain"] / 4


def test_other_systems_do_not_support_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_freed_memory() is False
