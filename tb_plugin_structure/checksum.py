"""CRC-32C at the speed of numpy, or of google-crc32c where it is installed.

Every record of an event file carries this checksum; TensorBoard computes it byte by byte in Python.

The numpy way: the data is cut into lanes of equal length, all lanes advance two bytes a step through one table of
65,536 entries, and the lanes' registers are joined pairwise. The register is linear over GF(2), so
``register(a + b) = shift(register(a), len(b)) ^ register_from_zero(b)``, where `shift` (feeding zero bytes) is a
32 x 32 bit matrix. Polynomial and check value: RFC 3720, appendix B.4.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected
_CHECK = (b"123456789", 0xE3069283)
_SMALL = 2_048

Register = npt.NDArray[np.uint32]


def _byte_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_BYTES = _byte_table()


@functools.cache
def _word_table() -> Register:
    """Register after two bytes, by the 16 low bits of register ^ bytes."""
    words = np.arange(65_536, dtype=np.uint32)
    single = np.array(_BYTES, np.uint32)
    once = single[words & 255] ^ (words >> 8)
    twice: Register = single[once & 255] ^ (once >> 8)
    return twice


def _one_by_one(data: bytes | memoryview, register: int) -> int:
    table = _BYTES
    for byte in data:
        register = table[(register ^ byte) & 255] ^ (register >> 8)
    return register


@functools.lru_cache(maxsize=256)
def _shift_tables(zeros: int) -> Register:
    """Four tables of 256 entries: feeding `zeros` zero bytes to a register, looked up byte by byte."""
    basis = np.uint32(1) << np.arange(32, dtype=np.uint32)
    single = np.array(_BYTES, np.uint32)
    power: Register = single[basis & 255] ^ (basis >> 8)  # images of the 32 bits under one zero byte
    result: Register = basis.copy()
    while zeros:
        if zeros & 1:
            result = _apply_matrix(power, result)
        power = _apply_matrix(power, power)
        zeros >>= 1
    values = np.arange(256, dtype=np.uint32)
    return np.stack([_apply_matrix(result, values << np.uint32(8 * k)) for k in range(4)])


def _apply_matrix(images: Register, registers: Register) -> Register:
    out = np.zeros_like(registers)
    for bit in range(32):
        out ^= np.where((registers >> np.uint32(bit)) & np.uint32(1), images[bit], np.uint32(0))
    return out


def _shift(registers: Register, zeros: int) -> Register:
    tables = _shift_tables(zeros)
    shifted: Register = (
        tables[0][registers & 255]
        ^ tables[1][(registers >> 8) & 255]
        ^ tables[2][(registers >> 16) & 255]
        ^ tables[3][registers >> 24]
    )
    return shifted


def _register(data: memoryview, register: int) -> int:
    if len(data) < _SMALL:
        return _one_by_one(data, register)
    # More lanes mean fewer steps but a longer join; a lane of a few hundred bytes balances them.
    lanes = 1 << max(3, min(14, (len(data) // 256).bit_length() - 1))
    length = len(data) // lanes // 2 * 2
    used = lanes * length
    words = np.ascontiguousarray(np.frombuffer(data[:used], "<u2").reshape(lanes, length // 2).T)
    table = _word_table()
    state = np.zeros(lanes, np.uint32)
    state[0] = register
    for row in words:
        state = table[(state ^ row) & 65_535] ^ (state >> 16)
    while len(state) > 1:
        state = _shift(state[0::2], length) ^ state[1::2]
        length *= 2
    return _register(data[used:], int(state[0]))


def crc32c_numpy(data: bytes) -> int:
    """CRC-32C of `data`."""
    return _register(memoryview(data), 0xFFFFFFFF) ^ 0xFFFFFFFF


def _fastest() -> Callable[[bytes], int]:
    try:
        import google_crc32c

        value: Any = google_crc32c.value
        # The package falls back to pure Python where its compiled part is missing; then numpy is faster.
        if getattr(google_crc32c, "implementation", "c") == "c" and value(_CHECK[0]) == _CHECK[1]:
            return lambda data: int(value(data))
    except Exception:
        pass
    return crc32c_numpy


crc32c: Callable[[bytes], int] = _fastest()
"""CRC-32C by the fastest means at hand."""


def masked_crc32c(data: bytes) -> int:
    """The checksum as event files store it (rotated and offset, so that a checksum of checksums stays useful)."""
    value = crc32c(data)
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def speed_up_reading() -> None:
    """Give TensorBoard's Python reader, in this process and for all plugins, the fast checksum.

    Raises:
        ValueError: When the two checksums differ on a sample; nothing is changed then.
    """
    from tensorboard.compat.tensorflow_stub import pywrap_tensorflow

    for length in (0, 1, 8, 12, 4_097, 10_000):
        sample = bytes(range(251)) * (length // 251 + 1)
        if masked_crc32c(sample[:length]) != pywrap_tensorflow.masked_crc32c(sample[:length]):
            raise ValueError(f"the fast checksum of {length} bytes differs from TensorBoard's own")
    pywrap_tensorflow.masked_crc32c = masked_crc32c
