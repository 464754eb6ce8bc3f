"""Commands and events as NumPy arrays: the C layout, the same events, mistakes, memory."""

import re
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import numpy
import pytest

from bourse import COMMAND_DTYPE, EVENT_DTYPE, Engine
from bourse.bench.engine_loops import MIX_SESSIONS, Mix
from bourse.bench.engine_runs import new_engine
from bourse.domain import CommandKind, EventKind, OrderType, Reason, Side

ROOT = Path(__file__).resolve().parents[2]


def orders(count: int, **fields: object) -> numpy.ndarray:
    """Limit orders of session 2 with consecutive client order ids."""
    commands = numpy.zeros(count, COMMAND_DTYPE)
    commands["kind"] = CommandKind.NEW_ORDER
    commands["order_type"] = OrderType.LIMIT
    commands["side"] = Side.SELL
    commands["instrument_id"] = 1
    commands["session_id"] = 2
    commands["client_order_id"] = numpy.arange(1, count + 1)
    commands["price_ticks"] = 100
    commands["qty_lots"] = 1
    for name, value in fields.items():
        commands[name] = value
    return commands


def mixed_commands(count: int) -> bytes:
    """A seeded stream of every kind of order, cancels and mistakes."""
    return Mix(new_engine(MIX_SESSIONS), 7, 500, count + 10).fill(count)


@pytest.mark.parametrize(("struct", "dtype"), [("Command", COMMAND_DTYPE), ("Event", EVENT_DTYPE)])
def test_dtypes_are_the_structs_of_records_pxd(
    tmp_path: Path, struct: str, dtype: numpy.dtype
) -> None:
    """The C compiler is asked for the offset, size and sign of each field of the .pxd's struct."""
    body = re.search(
        rf"^cdef struct {struct}:.*\n((?:    .*\n)+)",
        (ROOT / "bourse/core/records.pxd").read_text(),
        re.M,
    )
    assert body
    fields = re.findall(r"^    (\w+) (\w+)", body[1], re.M)
    assert [name for _, name in fields] == list(dtype.names or ())
    members = "".join(f"{kind} {name};" for kind, name in fields)
    asserts = [f'_Static_assert(sizeof(T) == {dtype.itemsize}, "size");']
    for name in dtype.names or ():
        field, offset = (dtype.fields or {})[name][:2]
        asserts += [
            f'_Static_assert(offsetof(T, {name}) == {offset}, "{name}");',
            f'_Static_assert(sizeof((T){{0}}.{name}) == {field.itemsize}, "{name}");',
            f"_Static_assert((__typeof__((T){{0}}.{name}))-1 {'<' if field.kind == 'i' else '>'} 0,"
            f' "{name}");',
        ]
        assert field.isnative
    source = tmp_path / "layout.c"
    source.write_text(
        f"#include <stdint.h>\n#include <stddef.h>\ntypedef struct {{{members}}} T;\n"
        + "\n".join(asserts)
    )
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]

    result = subprocess.run(
        [compiler, "-fsyntax-only", source], capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stderr


def test_a_batch_gives_the_events_of_its_commands_one_by_one() -> None:
    raw = mixed_commands(20_000)
    one_by_one = new_engine(MIX_SESSIONS)
    engine = Engine(symbols=["BENCH"], sessions=MIX_SESSIONS)
    commands = numpy.frombuffer(raw, COMMAND_DTYPE)

    parts = [engine.submit(commands[:1]), engine.submit(commands[1:7000])]
    parts += [engine.submit(commands[at : at + 333]) for at in range(7000, 20_000, 333)]

    assert b"".join(part.tobytes() for part in parts) == one_by_one.apply_all(raw)
    assert engine.state_digest == one_by_one.state_digest
    assert engine.event_digest == one_by_one.event_digest
    engine.check()


def test_any_fields_in_a_large_book_give_the_events_of_one_by_one() -> None:
    """A batch looks ahead in a large book; whatever its fields say, nothing else changes by it."""
    draw = numpy.random.default_rng(3)
    count = 40_000
    commands = orders(count, client_order_id=numpy.arange(count), side=numpy.arange(count) % 2 + 1)
    commands["price_ticks"] = 1000 * (2 * commands["side"].astype(int) - 3) + draw.integers(
        -400, 400, count
    )
    bad = numpy.frombuffer(draw.bytes(64 * count), COMMAND_DTYPE).copy()
    bad["kind"] = draw.choice([1, 2, 3, 3, 4, 10], count)
    for name, most in (
        ("side", 4),
        ("order_type", 7),
        ("flags", 2),
        ("instrument_id", 3),
        ("session_id", 4),
        ("client_order_id", count + 100),
        ("order_id", count + 100),
    ):
        some = draw.random(count) < 0.9
        bad[name][some] = draw.integers(0, most, count)[some]
    bad["price_ticks"] = draw.integers(-1500, 1500, count)
    one_by_one = new_engine()
    engine = Engine(symbols=["BENCH"])

    for part in (commands, bad):
        events = engine.submit(part)
        assert events.tobytes() == one_by_one.apply_all(part.tobytes())

    assert engine.state_digest == one_by_one.state_digest
    assert engine.live_order_count > 10_000
    engine.check()


def test_events_can_be_read_by_name() -> None:
    engine = Engine()
    commands = orders(2)
    commands["side"][1] = Side.BUY

    events = engine.submit(commands)

    assert events.dtype == EVENT_DTYPE
    assert list(events["kind"]) == [
        EventKind.HEAD,
        EventKind.ACCEPTED,
        EventKind.HEAD,
        EventKind.ACCEPTED,
        EventKind.TRADE,
        EventKind.DONE,
        EventKind.DONE,
    ]
    trades = events[events["kind"] == EventKind.TRADE]
    assert (trades["price_ticks"].tolist(), trades["qty_lots"].tolist()) == ([100], [1])


def test_nothing_gives_nothing() -> None:
    engine = Engine()
    before = engine.snapshot()

    assert len(engine.submit(orders(0))) == 0
    assert engine.snapshot() == before


@pytest.mark.parametrize("makers", [1, 127, 128, 129, 400, 20_000])
def test_a_sweep_makes_the_room_that_it_needs(makers: int) -> None:
    """One command with far more events than room was made for."""
    engine = Engine()
    engine.submit(orders(makers))

    events = engine.submit(orders(1, side=Side.BUY, qty_lots=makers + 1, client_order_id=0))

    assert (events["kind"] == EventKind.TRADE).sum() == makers
    assert len(events) == 2 + 2 * makers
    assert events["sequence"][1:].tolist() == list(range(makers + 1, 3 * makers + 2))
    engine.check()


def test_arrays_of_earlier_batches_stay_what_they_were() -> None:
    engine = Engine()
    kept = []
    copies = []
    for number in range(6):
        events = engine.submit(orders(50, client_order_id=numpy.arange(50) + 1000 * number))
        if number != 2:
            kept.append(events[::2])
            copies.append(events[::2].copy())
        del events

    for events, copy in zip(kept, copies, strict=True):
        assert (events == copy).all()
    kept[0]["qty_lots"] = 77  # they are the caller's
    engine.check()


def test_memory_of_dropped_arrays_is_used_again() -> None:
    engine = Engine()
    places = set()
    events = None
    for number in range(20):
        events = engine.submit(orders(100, client_order_id=numpy.arange(100) + 1000 * number))
        places.add(events.ctypes.data)

    assert len(places) <= 4


# --- Mistakes -------------------------------------------------------------------------------------

SWAPPED = COMMAND_DTYPE.newbyteorder()
OTHER = numpy.dtype([("a", "<u8", 8)])


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (orders(3).tolist(), TypeError, "commands is a list, expected a NumPy array"),
        (orders(3).tobytes(), TypeError, "commands is a bytes"),
        (None, TypeError, "commands is a NoneType"),
        (orders(3)[0], TypeError, "commands is a void"),
        (orders(3).astype(SWAPPED), TypeError, "has its bytes in the other order"),
        (numpy.zeros(64), TypeError, "is of float64; its dtype must be COMMAND_DTYPE"),
        (numpy.zeros(64, "u1"), TypeError, "is of uint8"),
        (numpy.zeros(3, OTHER), TypeError, "has other fields"),
        (numpy.zeros(3, EVENT_DTYPE), TypeError, "has other fields"),
        (orders(3)[["kind", "side"]], TypeError, "its dtype must be COMMAND_DTYPE"),
        (numpy.zeros(3, [("kind", "u1")]), TypeError, "has items of 1 bytes, expected 64"),
        (numpy.array([1, "a"], object), TypeError, "is of object"),
        (orders(4).reshape(2, 2), ValueError, "commands has 2 dimensions, expected 1"),
        (orders(1)[0:1].reshape(()), ValueError, "commands has 0 dimensions, expected 1"),
        (orders(6)[::2], ValueError, "is not contiguous; pass numpy.ascontiguousarray"),
        (orders(6)[::-1], ValueError, "is not contiguous"),
        (
            numpy.frombuffer(bytes(1) + orders(2).tobytes(), COMMAND_DTYPE, offset=1),
            ValueError,
            "does not begin at a multiple of 8 bytes",
        ),
        *(
            (orders(3, kind=[1, kind, 1]), ValueError, rf"commands\[1\] has kind={kind}, expected")
            for kind in (0, 11, 77, 127, 128, 129, 255)
        ),
    ],
)
def test_what_is_no_array_of_commands_changes_nothing(
    wrong: object, error: type[Exception], words: str
) -> None:
    engine = Engine()
    engine.limit("buy", 1, 1)
    before = engine.snapshot()

    with pytest.raises(error, match=words):
        engine.submit(wrong)  # type: ignore[arg-type]

    assert engine.snapshot() == before
    assert engine.limit("buy", 1, 1).is_accepted


def test_wrong_fields_are_answers_of_the_exchange() -> None:
    """As over the wire: a rule refuses them, each command by itself."""
    engine = Engine()
    commands = orders(5)
    commands["side"][0] = 3
    commands["order_type"][1] = 9
    commands["flags"][2] = 1
    commands["qty_lots"][3] = 0

    events = engine.submit(commands)

    heads = events[events["kind"] == EventKind.HEAD]
    assert heads["reason"].tolist() == [
        Reason.BAD_COMMAND,
        Reason.BAD_COMMAND,
        Reason.BAD_COMMAND,
        Reason.ZERO_QUANTITY,
        Reason.NONE,
    ]


@pytest.mark.parametrize("kind", [4, 8, 9, 10])
def test_every_kind_that_is_logged_may_be_sent(kind: int) -> None:
    assert len(Engine().submit(orders(1, kind=kind))) >= 1


def test_numpy_refuses_what_a_field_cannot_hold() -> None:
    """Nothing negative can reach the engine's unsigned fields."""
    commands = orders(1)
    with pytest.raises(OverflowError):
        commands["qty_lots"][0] = -1


def test_read_only_arrays_are_read() -> None:
    commands = orders(2)
    commands.flags.writeable = False

    assert len(Engine().submit(commands)) == 4


def test_a_second_thread_is_told_that_the_engine_is_busy() -> None:
    """submit() gives the interpreter's lock away; the engine is still one thread's at a time."""
    engine = Engine()
    commands = orders(400_000, order_type=OrderType.IOC)
    refused: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for call in (engine.best_ask, engine.snapshot, engine.check, engine.orders):
                try:
                    call()
                except RuntimeError as error:
                    refused.append(str(error))
                    return

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(20):
            engine.submit(commands)
            if refused:
                break
    finally:
        done.set()
        looker.join()

    assert refused == ["the engine is busy: submit() runs in another thread"]


# --- Without NumPy --------------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules["numpy"] = None
import bourse
engine = bourse.Engine()
engine.limit("sell", 1, 5)
assert engine.limit("buy", 1, 5).filled_lots == 1
for use in (lambda: bourse.COMMAND_DTYPE, lambda: engine.submit([])):
    try:
        use()
    except ImportError as error:
        print(error)
"""


def test_without_numpy_one_sentence_says_what_to_install() -> None:
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, cwd=ROOT, check=False
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == 2 * [
        "arrays of commands and events need NumPy; "
        "install it with `pip install 'bourse-exchange[numpy]'`"
    ]


# --- Without memory -------------------------------------------------------------------------------

NO_MEMORY = """
import resource
import numpy
from bourse import COMMAND_DTYPE, Engine
commands = numpy.zeros(200_000, COMMAND_DTYPE)
commands["kind"] = commands["order_type"] = commands["instrument_id"] = 1
commands["side"] = commands["session_id"] = 2
commands["client_order_id"] = numpy.arange(200_000)
commands["qty_lots"] = 1
engine = Engine()
for at in range(0, 200_000, 1000):
    engine.submit(commands[at : at + 1000])
sweep = commands[:3].copy()
sweep["client_order_id"] += 1_000_000
sweep["side"] = 1
sweep["qty_lots"] = [1, 300_000, 1]
used = [line for line in open("/proc/self/status") if line.startswith("VmSize")]
limit = int(used[0].split()[1]) * 1024 + (4 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
try:
    engine.submit(sweep)
except MemoryError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
engine.check()
print(engine.state.trade_count, engine.live_order_count)
print(len(engine.submit(sweep[2:])))
"""


def test_without_memory_for_events_the_command_is_finished_and_said() -> None:
    """Its events are lost, the engine is whole, and the next command is executed as ever."""
    result = subprocess.run(
        [sys.executable, "-c", NO_MEMORY], capture_output=True, text=True, cwd=ROOT, check=False
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "no memory for the events of 3 commands; 2 were executed, their events are lost",
        "200000 1",
        "2",
    ]
