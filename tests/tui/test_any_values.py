"""Whatever a daemon sends within the protocol's types, every panel draws it: nothing raises."""

import types
import typing
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from bourse.admin.messages import STAGES, TOPIC_DATA, Frame
from bourse.tui.line import text_of
from bourse.tui.state import ConsoleState
from bourse.tui.widgets import bars
from tests.tui.test_panels import PANELS

INTEGERS = st.sampled_from([0, 1, 2, 999, 10**6, 2**31, 2**53, 2**63 - 1, 2**64 - 1, 10**22, -1])


def values_of(kind: object) -> st.SearchStrategy:
    """Return a strategy for a type of the admin protocol."""
    if kind is int:
        return INTEGERS
    if kind is float:
        return st.sampled_from([0.0, 0.1, 10.0, 1e300])
    if kind is bool:
        return st.booleans()
    if kind is str:
        return st.one_of(
            st.sampled_from([*STAGES, "fsync", "memory", "open", ""]), st.text(max_size=9)
        )
    origin = typing.get_origin(kind)
    if origin is list:
        return st.lists(values_of(typing.get_args(kind)[0]), max_size=7)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(
            st.none(), *(values_of(one) for one in typing.get_args(kind) if one is not type(None))
        )
    assert isinstance(kind, type)
    assert issubclass(kind, msgspec.Struct)
    hints = typing.get_type_hints(kind)
    return st.builds(
        kind, **{field.name: values_of(hints[field.name]) for field in msgspec.structs.fields(kind)}
    )


@pytest.mark.parametrize("topic", TOPIC_DATA)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_panels_draw_any_values(topic: str, data: st.DataObject) -> None:
    state = ConsoleState()
    for number in range(2):
        state.live.apply(Frame(topic, number, 0, data.draw(values_of(TOPIC_DATA[topic]))))
    state.stage = data.draw(st.sampled_from(STAGES))
    width, height = data.draw(st.sampled_from([(28, 4), (36, 12), (60, 20), (120, 40)]))

    for draw in PANELS.values():
        check(draw, state, width, height)
    status = text_of(bars.status_row(state, max(60, width)))
    assert cell_len(status) == max(60, width)


def check(draw: Callable, state: ConsoleState, width: int, height: int) -> None:
    rows = draw(state, width, height)
    assert len(rows) == height
    for row in rows:
        text = text_of(row)
        assert cell_len(text) == width
        assert text.isprintable()
