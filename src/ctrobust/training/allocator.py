"""Keep freed memory in the process for the next tensor.

By default glibc takes each large block from the operating system and returns it when it is freed, so that every
activation of every step causes page faults again: about a tenth of the time of a mnistnet step. Call this only in
processes that do nothing but train or attack; the library never calls it by itself.
"""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MIB = 1 << 20


def keep_freed_memory() -> bool:
    """Ask the C library to reuse freed blocks; return whether it supports that."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    try:
        mallopt = libc.mallopt
    except AttributeError:  # musl
        return False
    # Some versions refuse to take blocks above 32 MiB from the heap.
    reused = mallopt(_M_MMAP_THRESHOLD, 1024 * _MIB) or mallopt(_M_MMAP_THRESHOLD, 32 * _MIB)
    return bool(reused and mallopt(_M_TRIM_THRESHOLD, 2047 * _MIB))
