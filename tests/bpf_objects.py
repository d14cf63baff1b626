"""The eBPF programs and maps that the kernel has now, asked through libbpf.

bpftool would do it too, but its package differs by distribution and must fit the running kernel.
"""

import ctypes
import os
from collections.abc import Iterator

# struct bpf_prog_info and struct bpf_map_info (include/uapi/linux/bpf.h): where the name begins.
_NAME_AT = {"prog": 64, "map": 24}
_NAME_BYTES = 16


def bpf_objects(kind: str) -> Iterator[tuple[str, int]]:
    """Yield the name and an open descriptor of each object; ``kind`` is ``prog`` or ``map``.

    The kernel cuts names to 15 characters. The descriptor is closed when the next one is asked for.
    """
    libbpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
    number = ctypes.c_uint32(0)
    while getattr(libbpf, f"bpf_{kind}_get_next_id")(number, ctypes.byref(number)) == 0:
        handle = getattr(libbpf, f"bpf_{kind}_get_fd_by_id")(number)
        if handle < 0:
            continue  # it went away while we looked
        info = ctypes.create_string_buffer(_NAME_AT[kind] + _NAME_BYTES)
        size = ctypes.c_uint32(len(info))
        try:
            if libbpf.bpf_obj_get_info_by_fd(handle, info, ctypes.byref(size)):
                raise OSError(ctypes.get_errno(), f"the kernel tells nothing of a {kind}")
            name = info.raw[_NAME_AT[kind] :].split(b"\0")[0].decode()
            yield name, handle
        finally:
            os.close(handle)
