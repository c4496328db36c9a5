"""Freed memory is kept for the next tensor instead of going back to the system.

By default glibc takes each large block from the system and gives it back when freed, so that every activation of every
step is paid for again in page faults: about a tenth of a step of mnistnet. This is for processes that train or attack
and nothing else; the library never calls it for its user.
"""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MIB = 1 << 20


def keep_freed_memory() -> bool:
    """Ask the C library to reuse freed blocks; True where it can."""
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
