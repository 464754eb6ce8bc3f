"""The simulated disk: what is synced stays, what is not may go, sector by sector."""

import random

from tests.simulation.disk import SECTOR_BYTES, File


def outcomes(file: File, runs: int = 300) -> set[bytes]:
    """What power losses make of a file."""
    found = set()
    for seed in range(runs):
        copy = File()
        copy.cache, copy.platter = bytearray(file.cache), bytearray(file.platter)
        copy.dirty = {sector: list(versions) for sector, versions in file.dirty.items()}
        copy.sizes = list(file.sizes)
        copy.lose_power(random.Random(seed))
        found.add(bytes(copy.cache))
    return found


def test_what_is_synced_stays():
    file = File()
    file.write(0, b"a" * 2000)
    file.sync()

    assert outcomes(file) == {b"a" * 2000}


def test_what_is_not_synced_goes_sector_by_sector_in_any_order():
    file = File()
    file.write(0, b"a" * 3 * SECTOR_BYTES)
    file.sync()
    file.write(0, b"b" * 3 * SECTOR_BYTES)

    found = outcomes(file)

    sectors = (b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES)
    assert found == {x + y + z for x in sectors for y in sectors for z in sectors}


def test_a_version_between_may_be_what_is_left():
    file = File()
    file.write(0, b"a" * 10)
    file.write(0, b"b" * 10)

    assert {b"", b"a" * 10, b"b" * 10} <= outcomes(file)


def test_a_file_that_grew_may_be_shorter_or_hold_zeros():
    file = File()
    file.write(0, b"a" * 2 * SECTOR_BYTES)

    assert {b"", bytes(2 * SECTOR_BYTES), bytes(SECTOR_BYTES) + b"a" * SECTOR_BYTES} <= outcomes(
        file
    )


def test_what_a_failed_sync_has_lost_is_shown_until_it_is_dropped_and_never_written():
    file = File()
    file.write(0, b"a" * 8 * SECTOR_BYTES)
    file.fail_sync(random.Random(1))
    lost = set(file.lost)
    assert lost and len(lost) < 8
    assert bytes(file.cache) == b"a" * 8 * SECTOR_BYTES

    file.sync()
    assert file.drop_cached(0) == sorted(lost)

    for sector in range(8):
        at = sector * SECTOR_BYTES
        shown = bytes(file.cache[at : at + SECTOR_BYTES])
        assert shown == (bytes(SECTOR_BYTES) if sector in lost else b"a" * SECTOR_BYTES)


def test_a_sector_that_is_written_again_is_lost_no_more():
    file = File()
    file.write(0, b"a" * 8 * SECTOR_BYTES)
    file.fail_sync(random.Random(1))

    file.write(0, b"b" * 8 * SECTOR_BYTES)
    file.sync()

    assert outcomes(file) == {b"b" * 8 * SECTOR_BYTES}
