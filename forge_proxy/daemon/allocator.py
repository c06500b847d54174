"""Sets up the C library's allocator, so that the memory of large requests and responses returns to the system.

This belongs in `daemon` because it applies to the whole process.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_MMAP_THRESHOLD = -3
"""The parameter's number in glibc's `malloc.h`."""
_THRESHOLD = 1024 * 1024


def map_large_buffers() -> None:
    """Make glibc map each buffer of a megabyte or more separately. Other C libraries keep their defaults.

    By default, glibc raises this threshold to the size of the largest buffer that was freed, up to 32 MB. Further
    buffers of that size come from the heap: small objects between them prevent freed ones from returning to the system,
    and growing one copies it. A mapped buffer is freed at once and grows without a copy.
    """
    with suppress(AttributeError, OSError, TypeError):  # TypeError: Windows has no library of all symbols
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _THRESHOLD)
