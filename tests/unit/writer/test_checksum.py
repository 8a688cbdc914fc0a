from __future__ import annotations

import os

import pytest
from tensorboard.compat.tensorflow_stub import pywrap_tensorflow

from tb_plugin_structure import checksum


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # RFC 3720, appendix B.4.
        (b"\x00" * 32, 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
def test_published_vectors(data: bytes, expected: int) -> None:
    assert checksum.crc32c_numpy(data) == expected
    assert checksum.crc32c(data) == expected


@pytest.mark.parametrize("size", [1, 2047, 2048, 2049, 4097, 65_537, 300_001])
def test_lanes_agree_with_tensorboards_own_checksum(size: int) -> None:
    data = os.urandom(size)
    expected = pywrap_tensorflow.masked_crc32c(data)
    assert checksum.masked_crc32c(data) == expected
    register = checksum.crc32c_numpy(data)
    assert (((register >> 15) | (register << 17)) + 0xA282EAD8) & 0xFFFFFFFF == expected
