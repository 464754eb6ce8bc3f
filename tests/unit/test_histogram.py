"""The recorder against hdrhistogram, its slow twin."""

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from bourse.core.histogram import COUNTS, VALUE_NS_MAX, Histogram

DURATIONS_NS = st.one_of(
    st.integers(0, 4096),
    st.integers(0, VALUE_NS_MAX),
    st.sampled_from([2047, 2048, 2049, 2**31 - 1, 2**31, 2**32, VALUE_NS_MAX - 1, VALUE_NS_MAX]),
)


def twin(values):
    histogram = HdrHistogram(1, VALUE_NS_MAX, 3)
    for value in values:
        histogram.record_value(value)
    return histogram


def test_the_layout_is_that_of_hdrhistogram():
    assert HdrHistogram(1, VALUE_NS_MAX, 3).counts_len == COUNTS


@settings(deadline=None)
@given(st.lists(DURATIONS_NS, min_size=1, max_size=300))
def test_percentiles_and_slots_are_those_of_hdrhistogram(values):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    slow = twin(values)

    count, p50, p90, p99, p99_9, most = histogram.percentiles()

    assert (count, most) == (len(values), max(values))
    for found, percentile in ((p50, 50), (p90, 90), (p99, 99), (p99_9, 99.9)):
        assert found == min(slow.get_value_at_percentile(percentile), max(values))
    assert histogram.counts() == [
        (item.value_iterated_to, item.count_at_value_iterated_to)
        for item in slow.get_recorded_iterator()
    ]


def test_an_empty_histogram_says_zero():
    assert Histogram().percentiles() == (0, 0, 0, 0, 0, 0)
    assert Histogram().octaves() == [0] * 36


def test_values_out_of_range_count_at_its_ends():
    histogram = Histogram()
    histogram.add(-5)
    histogram.add(2**62)

    assert histogram.percentiles() == (2, 0, VALUE_NS_MAX, VALUE_NS_MAX, VALUE_NS_MAX, VALUE_NS_MAX)


def test_the_window_forgets_after_two_rotations_and_the_total_never():
    histogram = Histogram()
    histogram.add(1000)

    histogram.rotate()
    assert histogram.percentiles(window=True)[0] == 1
    histogram.add(3000, 2)
    histogram.rotate()
    assert histogram.percentiles(window=True) == (2, 3000, 3000, 3000, 3000, 3000)
    histogram.rotate()

    assert histogram.percentiles(window=True)[0] == 0
    assert histogram.percentiles()[0] == 3


@pytest.mark.parametrize(
    ("value_ns", "octave"),
    [(0, 0), (1, 0), (2, 1), (1023, 9), (1024, 10), (VALUE_NS_MAX, 35)],
)
def test_octaves_count_by_powers_of_two(value_ns, octave):
    histogram = Histogram()
    histogram.add(value_ns)

    assert [number for number, count in enumerate(histogram.octaves()) if count] == [octave]
