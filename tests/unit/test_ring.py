"""The ring as one thread sees both its sides."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bourse.core.ring import RingMemory


def test_a_full_ring_refuses_and_an_empty_one_gives_nothing():
    ring = RingMemory(4, 8)

    assert ring.poll() is None
    assert [ring.offer(bytes([number] * 8)) for number in range(5)] == [True] * 4 + [False]
    assert ring.used == 4
    assert ring.poll() == b"\0" * 8
    assert ring.offer(b"\5" * 8)
    assert not ring.offer(b"\6" * 8)


@given(st.lists(st.booleans(), max_size=200), st.sampled_from([2, 4, 8]))
def test_a_ring_is_a_bounded_queue(offers, count):
    ring = RingMemory(count, 16)
    queue: deque[bytes] = deque()

    for number, is_offer in enumerate(offers):
        if is_offer:
            data = number.to_bytes(16, "little")
            assert ring.offer(data) == (len(queue) < count)
            if len(queue) < count:
                queue.append(data)
        else:
            assert ring.poll() == (queue.popleft() if queue else None)
        assert ring.used == len(queue)


@pytest.mark.parametrize(("count", "slot_bytes"), [(0, 8), (1, 8), (3, 8), (-4, 8), (4, 0), (4, 7)])
def test_a_shape_that_no_ring_can_have_is_refused(count, slot_bytes):
    with pytest.raises(ValueError, match="expected"):
        RingMemory(count, slot_bytes)


def test_a_slot_of_another_size_is_refused():
    with pytest.raises(ValueError, match="expected 8"):
        RingMemory(2, 8).offer(b"1234567")
