"""Compilation of the model's kernels with numba: records at bare pointers, and a safe disk cache.

Kernels access the memory of a run (see :mod:`tsnrepro.model.layout`) by a pointer to its first
word: one machine word as an argument, no reference count, no negative indices. ``memory[address]``
means the same as on the numpy array that it points to, and so does a record at an address
(:func:`record_at`), which is a pointer too. Addresses are not checked; with :data:`CHECKED` the
kernels are compiled for the array instead, with bounds checks.

Records may be arguments of kernels, but not results or items of tuples, where numba copies them.

numba's disk cache only considers the file of the cached function, so a cached kernel would survive
a change of a kernel of another file that it calls. Therefore only entry points are cached, and each
is a closure over a digest of all source files of the model, which numba makes part of the key.
"""

import hashlib
import operator
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import from_dtype, njit
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, overload

F = TypeVar("F", bound=Callable[..., Any])

CHECKED: Final = os.environ.get("TSNREPRO_MODEL_CHECKED", "") not in ("", "0")
"""Whether kernels are compiled with bounds checks, for tests: many times slower."""

_WORDS: Final = types.CPointer(types.int64)
_ARRAY: Final = types.Array(types.int64, 1, "C")
_OPTIONS: Final[dict[str, Any]] = {"error_model": "numpy", "nogil": True, "_nrt": False}


def _digest() -> int:
    digest = hashlib.sha256(bytes([CHECKED]))
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")


SOURCE_DIGEST = _digest()
"""56 bits of the SHA-256 of the model's source files."""


def _address_of(context, builder, signature, arguments):
    index = context.cast(builder, arguments[1], signature.args[1], types.int64)
    word = context.get_value_type(types.int64)
    return builder.gep(arguments[0], [index], source_etype=word), word


def _type_load(typing_context, pointer, index):
    def generate(context, builder, signature, arguments):
        address, word = _address_of(context, builder, signature, arguments)
        return builder.load(address, typ=word)

    return types.int64(pointer, index), generate


def _type_store(typing_context, pointer, index, value):
    def generate(context, builder, signature, arguments):
        address, _ = _address_of(context, builder, signature, arguments)
        value = context.cast(builder, arguments[2], signature.args[2], types.int64)
        builder.store(value, address)
        return context.get_dummy_value()

    return types.void(pointer, index, value), generate


def _type_pointer(typing_context, address):
    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(_WORDS))

    return _WORDS(types.intp), generate


_load: Any = intrinsic(_type_load)
_store: Any = intrinsic(_type_store)
_pointer_to: Any = intrinsic(_type_pointer)


@overload(operator.getitem)
def _get_word(pointer, index):
    def get_word(pointer, index):
        return _load(pointer, index)

    return get_word if pointer == _WORDS and isinstance(index, types.Integer) else None


@overload(operator.setitem)
def _set_word(pointer, index, value):
    def set_word(pointer, index, value):
        _store(pointer, index, value)

    return set_word if pointer == _WORDS and isinstance(index, types.Integer) else None


def kernel(function: F) -> F:
    """Compile a function that other kernels call; it is cached as part of them."""
    return cast(F, njit(boundscheck=CHECKED, **_OPTIONS)(function))


def inlined(function: F) -> F:
    """Compile a function like :func:`kernel`, into each of its callers."""
    return cast(F, njit(boundscheck=CHECKED, forceinline=True, **_OPTIONS)(function))


def entry_point(function: F) -> F:
    """Compile a closure over :data:`SOURCE_DIGEST` that Python calls, and cache it on disk.

    Its argument is a :func:`handle` of the memory; it must only pass :func:`memory_of` that to a
    kernel, because numba removes stores to a pointer that is created and not used again. Raises
    ValueError for a function that does not close over the digest, whose cache could be stale.
    """
    if SOURCE_DIGEST not in [cell.cell_contents for cell in function.__closure__ or ()]:
        raise ValueError(f"{function.__name__} must close over SOURCE_DIGEST")
    return cast(F, njit(cache=not CHECKED, boundscheck=CHECKED, **_OPTIONS)(function))


def handle(memory: npt.NDArray[np.int64]) -> Any:
    """Return the argument of an entry point for a memory; the array must outlive the call."""
    return memory if CHECKED else memory.ctypes.data


def memory_of(handle: Any) -> Any:
    """Return the memory that kernels index, from an entry point's argument (compiled code only)."""
    raise NotImplementedError("memory_of() is for entry points")


@overload(memory_of, inline="always")
def _memory_of(handle):
    def from_address(handle):
        return _pointer_to(handle)

    def from_array(handle):
        return handle

    return from_address if isinstance(handle, types.Integer) else from_array


def fields(*names: str, **others: Any) -> np.dtype:
    """Return the type of a record of words: those of ``others``, then an integer for each name.

    ``names`` are separated by spaces; ``others`` gives types of 8 bytes or multiples by name.
    Raises ValueError for a name that is an attribute of numpy records, such as ``size``.
    """
    integers = [(name, np.int64) for name in " ".join(names).split()]
    if taken := sorted(set(dict(integers) | others) & set(dir(np.record))):
        raise ValueError(f"a record cannot have fields named {', '.join(taken)}")
    return np.dtype((np.record, [*others.items(), *integers]), align=True)


def record(*names: str, **others: Any) -> tuple[np.dtype, int, Callable[[Any, int], Any]]:
    """Return the type of a record (:func:`fields`), its words, and its :func:`record_at`."""
    dtype = fields(*names, **others)
    return dtype, words_of(dtype), record_at(dtype)


def words_of(dtype: np.dtype) -> int:
    """Return the size of a record in words."""
    return dtype.itemsize // 8


def offset_of(dtype: np.dtype, name: str) -> int:
    """Return the offset of a field in words from the record's address."""
    assert dtype.fields is not None
    return dtype.fields[name][1] // 8  # pyright: ignore[reportArgumentType]


def read(dtype: np.dtype, memory: npt.NDArray[np.int64], address: int) -> Any:
    """Return the current values of a record as Python numbers by name (in Python only)."""
    record = memory[address : address + words_of(dtype)].view(_plain(dtype))[0]
    return SimpleNamespace(**dict(zip(dtype.names or (), record.item(), strict=True)))


@cache
def _plain(dtype: np.dtype) -> np.dtype:
    # The attributes of a numpy record are slow.
    return np.dtype((np.void, dtype))


def record_at(dtype: np.dtype) -> Callable[[Any, int], Any]:
    """Return the function that returns the record of this type at an address of a memory.

    It can be called in Python, where the memory is an array, and in compiled code.
    """
    words, record = words_of(dtype), from_dtype(dtype)

    def at(memory, address):
        return memory[address : address + words].view(dtype)[0]

    class At(AbstractTemplate):
        key = at

        def generic(self, args, kws):
            if len(args) != 2 or kws or not isinstance(args[1], types.Integer):
                return None
            return signature(record, *args) if args[0] in (_WORDS, _ARRAY) else None

    def lower(context, builder, signature, arguments):
        memory = arguments[0]
        index = context.cast(builder, arguments[1], signature.args[1], types.int64)
        if signature.args[0] == _ARRAY:
            array = context.make_array(_ARRAY)(context, builder, memory)
            memory = array.data
            past = builder.sub(builder.extract_value(array.shape, 0), index.type(words))
            wrong = builder.or_(
                builder.icmp_signed("<", index, index.type(0)),
                builder.icmp_signed(">", index, past),
            )
            with builder.if_then(wrong, likely=False):
                context.call_conv.return_user_exc(builder, IndexError, ("record out of memory",))
        address = builder.gep(memory, [index], source_etype=context.get_value_type(types.int64))
        return builder.bitcast(address, context.get_value_type(record))

    infer_global(at, types.Function(At))
    for memory in (_WORDS, _ARRAY):
        lower_builtin(at, memory, types.Integer)(lower)
    return at
