"""The engine for hosts in other languages: functions without the GIL, published as C pointers.

    host ──► bourse.h: bourse_load() ──► c_face.__pyx_capi__ ──► the functions below
                                                                     │
    bourse_engine: a core Engine, a window of 256 events, how many of them are taken

One command is executed at a time and its events are taken one by one; a command with more events
than the window holds goes on when its events are asked for. Compiled only; Python cannot call it.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.engine import Engine
from cython.cimports.bourse.core.executor import CommandPtr
from cython.cimports.bourse.core.exports import DepthLevelPtr
from cython.cimports.bourse.core.records import Command, DepthLevel, Event, EventWindow
from cython.cimports.bourse.core.structures import Int64Ptr
from cython.cimports.bourse.core.words import BUY, SELL
from cython.cimports.bourse.library.arguments import is_command
from cython.cimports.bourse.library.c_face import (
    bourse_command,
    bourse_engine,
    bourse_event,
    bourse_level,
)
from cython.cimports.bourse.library.reads import best_price, level_at_price
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc

# What functions return: as in bourse.h.
_OK = cython.declare(cython.int, 0)
_BAD_KIND = cython.declare(cython.int, -1)
_EVENTS_LEFT = cython.declare(cython.int, -2)
_BAD_ARGUMENT = cython.declare(cython.int, -3)
_UNKNOWN_INSTRUMENT = cython.declare(cython.int, -1)

_EVENTS = cython.declare(uint64_t, 256)

Handle = cython.struct(
    engine=cython.p_void,  # a reference to a core Engine
    window=EventWindow,
    taken_count=uint64_t,  # events of the window that the host has had
    is_unfinished=cython.bint,
    events=Event[256],
)
HandlePtr = cython.typedef(cython.pointer[Handle])
EnginePtr = cython.typedef(cython.pointer[bourse_engine])
HostCommandPtr = cython.typedef(cython.pointer[cython.const[bourse_command]])
HostEventPtr = cython.typedef(cython.pointer[cython.const[bourse_event]])
HostLevelPtr = cython.typedef(cython.pointer[bourse_level])

for _name, _ours, _theirs in (
    ("command", cython.sizeof(Command), cython.sizeof(bourse_command)),
    ("event", cython.sizeof(Event), cython.sizeof(bourse_event)),
    ("level", cython.sizeof(DepthLevel), cython.sizeof(bourse_level)),
):
    if _ours != _theirs:
        raise ImportError(f"bourse_{_name} of bourse.h has {_theirs} bytes, expected {_ours}")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def create() -> EnginePtr:
    """Make an empty engine; takes the GIL."""
    handle: HandlePtr = cython.cast(HandlePtr, malloc(cython.sizeof(Handle)))
    if handle == cython.NULL:
        return cython.NULL
    handle.engine = cython.NULL
    with cython.gil:
        handle.engine = new_engine()
    if handle.engine == cython.NULL:
        free(handle)
        return cython.NULL
    handle.window.base = cython.address(handle.events[0])
    handle.window.mask = _EVENTS - 1
    handle.window.next = 0
    handle.window.limit = 0
    handle.taken_count = 0
    handle.is_unfinished = False
    return cython.cast(EnginePtr, handle)


@cython.cfunc
@cython.exceptval(check=False)
def new_engine() -> cython.p_void:
    """Return a new reference to a core Engine, NULL when there is no memory."""
    engine: Engine
    try:
        engine = Engine()
    except MemoryError:
        return cython.NULL
    Py_INCREF(engine)
    return cython.cast(cython.p_void, engine)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def submit(handle: EnginePtr, command: HostCommandPtr) -> cython.int:
    """Execute one command (see bourse.h)."""
    host: HandlePtr = cython.cast(HandlePtr, handle)
    if host == cython.NULL or command == cython.NULL:
        return _BAD_ARGUMENT
    if not is_command(command.kind):
        return _BAD_KIND
    if host.is_unfinished or host.taken_count != host.window.next:
        return _EVENTS_LEFT
    host.taken_count = 0
    host.window.next = 0
    host.window.limit = _EVENTS
    host.is_unfinished = not cython.cast(Engine, host.engine).execute(
        cython.cast(CommandPtr, command), cython.address(host.window)
    )
    return _OK


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def next_event(handle: EnginePtr) -> HostEventPtr:
    """Return the next event of the last command, NULL after the last (see bourse.h)."""
    host: HandlePtr = cython.cast(HandlePtr, handle)
    if host == cython.NULL:
        return cython.NULL
    if host.taken_count == host.window.next:
        if not host.is_unfinished:
            return cython.NULL
        host.taken_count = 0
        host.window.next = 0
        host.window.limit = _EVENTS
        host.is_unfinished = not cython.cast(Engine, host.engine).resume(
            cython.address(host.window)
        )
        # What was left to do may have had no event.
        if host.window.next == 0:
            return cython.NULL
    host.taken_count += 1
    return cython.cast(HostEventPtr, cython.address(host.events[host.taken_count - 1]))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def best(
    handle: EnginePtr, instrument_id: uint32_t, side: uint32_t, price_ticks: Int64Ptr
) -> cython.int:
    """Find the touch of one side."""
    host: HandlePtr = cython.cast(HandlePtr, handle)
    if host == cython.NULL or price_ticks == cython.NULL:
        return _UNKNOWN_INSTRUMENT
    return best_price(cython.cast(Engine, host.engine), instrument_id, side, price_ticks)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def best_bid(handle: EnginePtr, instrument_id: uint32_t, price_ticks: Int64Ptr) -> cython.int:
    """Find the highest price that somebody wants to buy at (see bourse.h)."""
    return best(handle, instrument_id, BUY, price_ticks)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def best_ask(handle: EnginePtr, instrument_id: uint32_t, price_ticks: Int64Ptr) -> cython.int:
    """Find the lowest price that somebody wants to sell at (see bourse.h)."""
    return best(handle, instrument_id, SELL, price_ticks)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def depth_at(
    handle: EnginePtr,
    instrument_id: uint32_t,
    side: uint8_t,
    price_ticks: int64_t,
    level: HostLevelPtr,
) -> cython.int:
    """Find what rests at one price (see bourse.h)."""
    host: HandlePtr = cython.cast(HandlePtr, handle)
    if host == cython.NULL or level == cython.NULL or (side != BUY and side != SELL):
        return _UNKNOWN_INSTRUMENT
    return level_at_price(
        cython.cast(Engine, host.engine),
        instrument_id,
        side,
        price_ticks,
        cython.cast(DepthLevelPtr, level),
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def state_digest(handle: EnginePtr) -> uint64_t:
    """Return the digest of the live orders; 0 for NULL."""
    host: HandlePtr = cython.cast(HandlePtr, handle)
    if host == cython.NULL:
        return 0
    return cython.cast(Engine, host.engine).books.state.state_digest


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def event_digest(handle: EnginePtr) -> uint64_t:
    """Return the digest of all numbered events; 0 for NULL."""
    host: HandlePtr = cython.cast(HandlePtr, handle)
    if host == cython.NULL:
        return 0
    return cython.cast(Engine, host.engine).books.state.event_digest


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def destroy(handle: EnginePtr) -> cython.void:
    """Give an engine's memory back; takes the GIL."""
    host: HandlePtr = cython.cast(HandlePtr, handle)
    if host == cython.NULL:
        return
    with cython.gil:
        Py_DECREF(cython.cast(object, cython.cast(cython.pointer[PyObject], host.engine)))
    free(host)
