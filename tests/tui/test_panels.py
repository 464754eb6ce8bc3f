"""The panels as text: pure functions, at many widths, with awkward values."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from bourse.admin import actions
from bourse.admin.client import Connection, ConnectionState
from bourse.admin.messages import Frame, Level, Percentiles, SessionInfo, Sessions
from bourse.tui.line import exactly, join_while_fits, panel, text_of, width_of
from bourse.tui.replay import Digests, ReplayOutcome, ReplayReport, Verdict
from bourse.tui.screens.help import help_lines
from bourse.tui.state import ConsoleState
from bourse.tui.theme import LOOKS, Palette
from bourse.tui.widgets import (
    bars,
    files,
    gate,
    histogram,
    ladder,
    level,
    loglines,
    minutes,
    people,
    proof,
    sessions,
    spark,
    stages,
    tape,
    timeline,
    wal,
)
from tests.admin import samples
from tests.tui import scenes

PANELS = {
    "ladder": ladder.ladder_panel,
    "tape": tape.tape_panel,
    "stages": stages.stages_panel,
    "histogram": histogram.histogram_panel,
    "heat": lambda state, width, height: histogram.histogram_panel(state, width, height, "heat"),
    "commands": spark.commands_panel,
    "p99": spark.p99_panel,
    "wal": wal.wal_panel,
    "sessions": sessions.sessions_panel,
    "book": level.book_panel,
    "level": level.level_panel,
    "shape": level.shape_panel,
    "stages_full": stages.stages_panel_full,
    "minutes": minutes.minutes_panel,
    "syncs": files.syncs_panel,
    "segments": files.segments_panel,
    "snapshots": files.snapshots_panel,
    "checks": files.checks_panel,
    "sync_rate": files.sync_rate_panel,
    "write_rate": files.write_rate_panel,
    "people": people.people_panel,
    "session": people.session_panel,
    "timeline": timeline.timeline_panel,
    "track": timeline.track_panel,
    "marks": timeline.marks_panel,
    "proof": proof.proof_panel,
    "log": loglines.log_panel,
}


def live_state(**more: object) -> ConsoleState:
    clock = scenes.Clock()
    return ConsoleState(live=scenes.filled_store(clock, 60), clock=clock, **more)


STATE = live_state()
EMPTY = ConsoleState()


def texts(rows: list) -> list[str]:
    return [text_of(row) for row in rows]


@pytest.mark.parametrize("name", PANELS)
@pytest.mark.parametrize("state", [STATE, EMPTY], ids=["live", "empty"])
@pytest.mark.parametrize("size", [(28, 4), (34, 12), (42, 20), (60, 9), (110, 40), (300, 90)])
def test_each_line_is_exactly_as_wide_as_asked(
    name: str, state: ConsoleState, size: tuple[int, int]
) -> None:
    rows = PANELS[name](state, *size)

    assert len(rows) == size[1]
    assert {width_of(row) for row in rows} == {size[0]}


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**64 - 1), st.integers(1, 10**9)
        ),
        max_size=12,
    ),
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**64 - 1), st.integers(1, 10**9)
        ),
        max_size=12,
    ),
    st.integers(28, 120),
    st.integers(4, 40),
)
@settings(max_examples=60, deadline=None)
def test_the_ladder_takes_any_numbers(bids: list, asks: list, width: int, height: int) -> None:
    depth = msgspec.structs.replace(
        samples.depth(), bids=[Level(*b) for b in bids], asks=[Level(*a) for a in asks]
    )

    rows = ladder.ladder_rows(depth, width, height)

    assert {width_of(row) for row in rows} <= {width}
    assert len(rows) <= height


def test_the_ladder_reads_from_the_middle() -> None:
    rows = texts(ladder.ladder_rows(samples.depth(), 42, 7))

    assert [row.split()[0] for row in rows] == ["A3", "A2", "A1", "mid", "B1", "B2", "B3"]
    assert "10,001" in rows[2]
    assert "spread 2" in rows[3]
    assert "9,999" in rows[4]


def test_a_one_sided_book_says_so() -> None:
    no_asks = msgspec.structs.replace(samples.depth(), asks=[], last_price_ticks=None)
    no_bids = msgspec.structs.replace(samples.depth(), bids=[], last_price_ticks=None)

    assert "no asks" in "".join(texts(ladder.ladder_rows(no_asks, 42, 9)))
    assert "no bids" in "".join(texts(ladder.ladder_rows(no_bids, 42, 9)))


def test_an_empty_book_tells_how_to_begin() -> None:
    empty = samples.depth(count=0)

    assert "bourse buy" in "".join(texts(ladder.ladder_rows(empty, 42, 9)))


def test_the_tape_names_the_side_in_letters() -> None:
    trades = samples.trades().trades

    rows = texts(tape.tape_rows(trades[-2:], 40))

    assert " S " in rows[0] or " B " in rows[0]
    assert rows[0][2] == ":"


def test_a_trade_of_the_operators_has_no_time_but_his_name() -> None:
    trade = msgspec.structs.replace(samples.trades(3).trades[-1], received_ns=0)
    for width, words in ((60, "operator     "), (30, "operator ")):
        (row,) = tape.tape_rows([trade], width)
        assert text_of(row).startswith(words)


def test_stages_show_fewer_columns_where_there_is_less_room() -> None:
    latency = samples.latency()

    wide = text_of(stages.stage_rows(latency, "total", 74, 9)[0])
    narrow = text_of(stages.stage_rows(latency, "total", 34, 9)[0])

    assert wide.split()[:6] == ["stage", "p50", "p90", "p99", "p99.9", "max"]
    assert narrow.split() == ["stage", "p50", "p99", "max"]


def test_a_stage_out_of_the_ordinary_is_marked() -> None:
    latency = samples.latency()
    slow = msgspec.structs.replace(
        latency.stages[2],
        window=msgspec.structs.replace(
            latency.stages[2].window, p99=3 * latency.stages[2].total.p99
        ),
    )
    latency = msgspec.structs.replace(
        latency, stages=[*latency.stages[:2], slow, *latency.stages[3:]]
    )

    rows = texts(stages.stage_rows(latency, "total", 74, 9))

    assert [("!" in row) for row in rows[1:]] == [False, False, True, *[False] * 4]


def test_without_a_command_in_the_window_no_p99_is_shown() -> None:
    state = live_state()
    latency = state.store.latency
    assert latency is not None
    idle = [msgspec.structs.replace(stage, window=Percentiles()) for stage in latency.stages]
    state.store.latency = msgspec.structs.replace(latency, stages=idle)

    assert "p99" not in text_of(bars.status_row(state, 120))
    assert "P99 total –" in texts(spark.p99_panel(state, 40, 6))[0]


def test_the_histogram_marks_percentiles_in_their_bucket() -> None:
    stage = samples.latency().stages[2]  # p50 420 ns: bucket 256 ns

    rows = texts(histogram.histogram_rows(stage, 50, 12))

    marked = {row.split()[-1]: row.split()[0] for row in rows if row.split()[-1][0] == "p"}
    assert marked["p90"] == "512ns"
    assert marked["p99"] == "1µs"


def test_a_histogram_with_more_buckets_than_rows_sums_up_the_fast_end() -> None:
    stage = msgspec.structs.replace(samples.latency().stages[0], buckets=[5] * 36)

    rows = texts(histogram.histogram_rows(stage, 50, 6))

    assert len(rows) == 6
    assert rows[0].strip().startswith("<")
    assert "86.11%" in rows[0]


def test_the_log_shows_watermarks_and_how_far_they_are_behind() -> None:
    rows = texts(wal.wal_rows(STATE, samples.wal(), 40, 10))

    assert [row.split()[0] for row in rows] == [
        "accepted",
        "durable",
        "published",
        "sync",
        "batches",
        "segment",
        "snapshot",
        "recovered",
        "digest",
        "replay",
    ]
    assert "3 behind" in rows[1]


def test_a_low_log_panel_keeps_what_matters_most() -> None:
    rows = texts(wal.wal_rows(STATE, samples.wal(), 40, 4))

    assert [row.split()[0] for row in rows] == ["accepted", "durable", "sync", "replay"]


@pytest.mark.parametrize("width", range(27, 60))
def test_nothing_of_the_log_is_cut_off(width: int) -> None:
    report = ReplayReport(18_216_046, 18_216_046, Digests("1", "2"))
    outcomes = [ReplayOutcome(verdict, "…", report) for verdict in Verdict]
    for outcome in [None, *outcomes]:
        rows = texts(wal.wal_rows(live_state(replay=outcome), samples.wal(), width, 10))
        if "DIFFERS" in rows[-1] and width < 33:
            continue
        assert not any("…" in row.replace("9f3c…a17e", "") for row in rows), rows


def test_a_failed_disk_is_said_first() -> None:
    broken = msgspec.structs.replace(samples.wal(), failed="fdatasync: No space left on device")

    assert "No space left" in texts(wal.wal_rows(STATE, broken, 60, 4))[0]


def test_policy_memory_says_that_nothing_is_written() -> None:
    memory = msgspec.structs.replace(samples.wal(), durability="memory")

    assert "nothing is written" in texts(wal.wal_rows(STATE, memory, 40, 9))[0]


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict.EQUAL, "✓ equal"),
        (Verdict.DIFFERENT, "x DIFFERS"),
        (Verdict.INCOMPARABLE, "moved on"),
        (Verdict.FAILED, "x failed"),
    ],
)
def test_the_last_replay_is_shown(verdict: Verdict, words: str) -> None:
    report = ReplayReport(18_216_046, 18_216_046, Digests("1", "2"))
    state = live_state(replay=ReplayOutcome(verdict, "…", report))

    assert words in text_of(wal.replay_row(state, 40))


def test_more_sessions_than_rows_are_counted() -> None:
    state = live_state()
    one = samples.sessions().sessions[0]
    many = [msgspec.structs.replace(one, session_id=number) for number in range(2, 52)]
    state.live.apply(Frame("sessions", 1, 0, Sessions(many, 1_200)))

    rows = texts(sessions.session_rows(state, 60, 8))

    assert len(rows) == 8
    assert "… 1,194 more" in rows[-1]


@given(st.text(max_size=40), st.text(max_size=20), st.integers(30, 120))
@settings(max_examples=60, deadline=None)
def test_no_name_breaks_the_sessions(peer: str, word: str, width: int) -> None:
    state = ConsoleState()
    session = SessionInfo(7, peer, word, 0, 1, 1, 0, 0, 0, 0, 0, 0)
    state.live.apply(Frame("sessions", 1, 0, Sessions([session], 1)))

    rows = sessions.sessions_panel(state, width, 6)

    assert {cell_len(text) for text in texts(rows)} == {width}
    assert all(letter.isprintable() for text in texts(rows) for letter in text)


def test_the_status_line_keeps_the_vital_numbers_when_it_narrows() -> None:
    assert "cmd/s" in text_of(bars.status_row(STATE, 60))
    for width in (60, 80, 120, 200):
        text = text_of(bars.status_row(STATE, width))
        assert len(text) == width
        assert "LIVE" in text
        assert text.endswith("Z ")


def test_before_a_daemon_answers_the_status_line_says_what_to_do() -> None:
    state = ConsoleState(admin_path="/run/bourse/default.sock")

    text = text_of(bars.status_row(state, 120))
    book = " ".join(texts(ladder.ladder_panel(state, 44, 20)))

    assert "CONNECTING" in text
    assert "/run/bourse/default.sock" in text
    assert "bourse daemon start" not in text  # there may be one: a demo's
    assert "Waiting for a daemon" in book
    state.live.apply(Connection(ConnectionState.LOST, "nobody there"))
    assert "bourse daemon start" in text_of(bars.status_row(state, 120))


def test_the_stages_say_whose_commands_they_time_where_there_are_none() -> None:
    state = live_state()
    latency = samples.latency()
    nothing = Percentiles(0, 0, 0, 0, 0, 0)
    none = [msgspec.structs.replace(s, total=nothing, window=nothing) for s in latency.stages]
    state.live.latency = msgspec.structs.replace(latency, stages=none)

    assert "of clients: none yet" in texts(stages.stages_panel(state, 60, 9))[0]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_key_line_always_offers_help_and_quit(width: int) -> None:
    row, places = bars.footer_row(STATE, width)

    assert width_of(row) == width
    assert {"help", "quit"} <= {name for _, _, name in places}
    text = text_of(row)
    for first, end, name in places:
        title = bars.actions.BY_ID[name].title
        assert ("Stage" if name == "next" else title) in text[first:end]


@pytest.mark.parametrize("screen", actions.SCREENS)
@pytest.mark.parametrize("width", [58, 82])
def test_help_is_nowhere_cut_off(screen: str, width: int) -> None:
    rows = texts(help_lines(live_state(screen=screen), width))

    assert {len(row) for row in rows} == {width}
    assert not any("…" in row for row in rows)


def test_the_gate_says_what_is_needed() -> None:
    assert "60×16 needed, have 40×10" in "".join(texts(gate.gate_rows(40, 10)))


def test_rows_are_cut_with_an_ellipsis_and_padded() -> None:
    row = (("abc", "text"), ("def", "dim"))

    assert text_of(exactly(row, 8)) == "abcdef  "
    assert text_of(exactly(row, 6)) == "abcdef"
    assert text_of(exactly(row, 5)) == "abcd…"
    assert text_of(exactly(row, 3)) == "ab…"


def test_parts_that_do_not_fit_are_left_out_whole() -> None:
    parts = [[("first", "text")], [("a very long second one", "text")], [("3rd", "text")]]

    assert text_of(join_while_fits(parts, 12)) == "first · 3rd"


def test_a_frame_says_stale_with_a_sign() -> None:
    head = text_of(panel([], 30, 3, "BOOK", note="now", stale=True)[0])

    assert head == "╭─ BOOK ~ now ───────────────╮"


def test_styles_without_colour_have_none() -> None:
    for stale in (False, True):
        palette = Palette("mono", stale=stale)
        for token in LOOKS["dark"].foregrounds:
            for ground in LOOKS["dark"].backgrounds:
                style = palette.style(f"{token}/{ground}")
                assert style.color is None
                assert style.bgcolor is None


def _luminance(style_colour: object) -> float:
    red, green, blue = (
        (part / 255 / 12.92 if part / 255 <= 0.04045 else ((part / 255 + 0.055) / 1.055) ** 2.4)
        for part in style_colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("truecolor", [True, False])
@pytest.mark.parametrize("theme", ["dark", "light", "colourblind"])
def test_text_can_be_read_on_every_ground_in_256_colours(theme: str, truecolor: bool) -> None:
    from rich.color import ColorSystem

    palette = Palette(theme, truecolor=truecolor)
    anywhere = ("text", "bright", "dim", "title", "legend", "key", "bid", "ask", "bid-strong")
    anywhere += ("ask-strong", "ok", "warning", "slow", "error", "accent")
    badges = ("ok", "warning", "error", "time", "quiet", "prod")
    pairs = [(tone, ground) for tone in anywhere for ground in ("", "bar", "chosen", "page")]
    pairs += [
        (tone, f"{side}-shade")
        for side in ("bid", "ask")
        for tone in ("text", "bright", side, f"{side}-strong")
    ]
    pairs += [(f"badge-{state}", "") for state in badges]
    for foreground, ground in pairs:
        style = palette.style(f"{foreground}/{ground}")
        assert style.color is not None
        assert style.bgcolor is not None
        colours = (style.color, style.bgcolor)
        if not truecolor:
            colours = tuple(colour.downgrade(ColorSystem.EIGHT_BIT) for colour in colours)
        light, dark = sorted(
            (_luminance(colour.get_truecolor()) for colour in colours), reverse=True
        )
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (foreground, ground)
