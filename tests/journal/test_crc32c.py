"""CRC-32C: both ways against crcmod and the published vectors."""

import random

import crcmod.predefined
import pytest

from bourse.journal import crc32c as module

REFERENCE = crcmod.predefined.mkPredefinedCrcFun("crc-32c")
WAYS = [module.crc32c, module.crc32c_software]


@pytest.mark.parametrize("crc32c", WAYS)
def test_published_vectors(crc32c):
    # RFC 3720, appendix B.4, and the catalogue's check value.
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"") == 0
    assert crc32c(b"", 17) == 17


@pytest.mark.parametrize("crc32c", WAYS)
def test_every_length_and_alignment_equals_crcmod(crc32c):
    data = random.Random(1).randbytes(300)
    view = memoryview(data)

    for start in range(9):
        for end in range(start, start + 70):
            assert crc32c(view[start:end]) == REFERENCE(data[start:end])
    assert crc32c(data) == REFERENCE(data)


@pytest.mark.parametrize("crc32c", WAYS)
def test_extending_equals_the_whole(crc32c):
    generator = random.Random(2)

    for _ in range(200):
        data = generator.randbytes(generator.randrange(200))
        cut = generator.randrange(len(data) + 1)
        assert crc32c(data[cut:], crc32c(data[:cut])) == REFERENCE(data)
