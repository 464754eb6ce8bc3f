"""CRC-32C (Castagnoli), by the processor's instruction or by tables, without the GIL.

    polynomial 0x1EDC6F41, reflected (0x82F63B78), initial value and final XOR 0xFFFFFFFF
    crc32c(b"123456789") == 0xE3069283

A value is extended: ``crc32c(b, crc32c(a)) == crc32c(a + b)``, and the value of nothing is 0, so a
chain of records needs no extra state. Which of the two ways is taken is decided once, when the
module is loaded: SSE4.2 where the processor has it, else eight bytes a step through eight tables
(slicing-by-8). crcmod computes the same function and is what the tests compare with.

Sources: RFC 3720 appendix B.4 (test vectors); Kounavis and Berry, "A Systematic Approach to
Building High Performance, Software-based, CRC Generators" (slicing-by-8), 2005.
"""

import cython
from cython.cimports.bourse.journal.crc32c import (
    crc32c_has_instruction,
    crc32c_instruction,
    load_word,
)
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t

_POLYNOMIAL = cython.declare(uint32_t, 0x82F63B78)

# table[k * 256 + b]: the CRC of byte b followed by k zero bytes, without initial value and XOR.
_table = cython.declare(uint32_t[2048])

_has_instruction = cython.declare(cython.bint, crc32c_has_instruction())


@cython.cfunc
def _fill_table() -> cython.void:
    byte: uint32_t
    step: cython.int
    crc: uint32_t
    for byte in range(256):
        crc = byte
        for step in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        _table[byte] = crc
    for byte in range(256):
        crc = _table[byte]
        for step in range(1, 8):
            crc = (crc >> 8) ^ _table[crc & 255]
            _table[step * 256 + byte] = crc


_fill_table()


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crc32c_extend_software(
    crc: uint32_t, start: cython.pointer[cython.const[uint8_t]], length_bytes: uint64_t
) -> uint32_t:
    """Extend `crc` by tables: eight bytes a step, for processors without the instruction."""
    word: uint64_t
    c: uint32_t = ~crc
    while length_bytes >= 8:
        word = load_word(start) ^ c
        c = (
            _table[7 * 256 + (word & 255)]
            ^ _table[6 * 256 + ((word >> 8) & 255)]
            ^ _table[5 * 256 + ((word >> 16) & 255)]
            ^ _table[4 * 256 + ((word >> 24) & 255)]
            ^ _table[3 * 256 + ((word >> 32) & 255)]
            ^ _table[2 * 256 + ((word >> 40) & 255)]
            ^ _table[1 * 256 + ((word >> 48) & 255)]
            ^ _table[word >> 56]
        )
        start += 8
        length_bytes -= 8
    while length_bytes > 0:
        c = (c >> 8) ^ _table[(c ^ start[0]) & 255]
        start += 1
        length_bytes -= 1
    return ~c


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crc32c_extend(
    crc: uint32_t, start: cython.pointer[cython.const[uint8_t]], length_bytes: uint64_t
) -> uint32_t:
    """Extend `crc` over `length_bytes` bytes. Never raises: O(length), allocates nothing."""
    if _has_instruction:
        return crc32c_instruction(crc, start, length_bytes)
    return crc32c_extend_software(crc, start, length_bytes)


def crc32c(data: cython.const[cython.uchar][::1], crc: cython.uint = 0) -> cython.uint:
    """Return the CRC-32C of `data`, extending `crc`.

    Args:
        data: contiguous bytes (bytes, bytearray, memoryview, mmap).
        crc: value of what comes before `data`; 0 for nothing.
    """
    start: cython.pointer[cython.const[uint8_t]]
    length_bytes: uint64_t = data.shape[0]
    if length_bytes == 0:
        return crc
    start = cython.address(data[0])
    if length_bytes < 65536:
        return crc32c_extend(crc, start, length_bytes)
    # Long enough (8 us) that other threads should run meanwhile.
    with cython.nogil:
        crc = crc32c_extend(crc, start, length_bytes)
    return crc


def crc32c_software(data: cython.const[cython.uchar][::1], crc: cython.uint = 0) -> cython.uint:
    """Return the same by tables, whatever the processor has: for tests."""
    if data.shape[0] == 0:
        return crc
    return crc32c_extend_software(crc, cython.address(data[0]), data.shape[0])


def has_instruction() -> bool:
    """Say whether the processor's instruction is used."""
    return bool(_has_instruction)
