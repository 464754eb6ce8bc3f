"""A screen's values as JSON and CSV, and what was copied: files under the state directory."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bourse.admin.store import Store
from bourse.tui.format import clean
from bourse.tui.state import ConsoleState
from bourse.tui.widgets import files, loglines, people, timeline

_TOPICS = {
    "overview": ("status", "depth", "latency", "wal", "sessions", "trades"),
    "book": ("depth", "trades"),
    "latency": ("latency",),
    "wal": ("wal",),
    "sessions": ("sessions",),
    "time": ("wal", "markers"),
    "log": ("log",),
}


def state_dir() -> Path:
    """Return the console's directory for what the operator saves; made when it is missing."""
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    folder = root / "bourse"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def values_of(store: Store, topic: str) -> Any:
    """Return a topic's values as JSON can have them."""
    if topic == "trades":
        return [msgspec.structs.asdict(trade) for trade in store.trades]
    if topic == "markers":
        return store.all_markers()
    if topic == "log":
        return list(store.log)
    if topic == "depth" and store.depth is not None:
        sides = {
            side: [msgspec.structs.asdict(level) for level in getattr(store.depth, side)]
            for side in ("asks", "bids")
        }
        return {**msgspec.structs.asdict(store.depth), **sides}
    return getattr(store, topic)


def as_json(state: ConsoleState, screen: str) -> bytes:
    """Return a screen's values as one JSON object, indented."""
    values = {topic: values_of(state.store, topic) for topic in _TOPICS[screen]}
    badge, age = state.live.badge()
    head = {"screen": screen, "badge": badge.value, "age_seconds": age, "time_ns": time.time_ns()}
    return msgspec.json.format(msgspec.json.encode({**head, **values}), indent=2) + b"\n"


def rows_of(state: ConsoleState, screen: str) -> Sequence[Mapping[str, object]]:
    """Return a screen's main table, a mapping a row."""
    store = state.store
    if screen in ("overview", "book"):
        depth = store.depth
        sides = (("A", depth.asks[::-1]), ("B", depth.bids)) if depth else ()
        return [
            {"side": side, **msgspec.structs.asdict(level)}
            for side, levels in sides
            for level in levels
        ]
    if screen == "latency":
        stages = store.latency.stages if store.latency else ()
        return [
            {"stage": stage.stage, "over": over, **msgspec.structs.asdict(getattr(stage, over))}
            for stage in stages
            for over in ("window", "total")
        ]
    if screen == "wal":
        return [msgspec.structs.asdict(snapshot) for snapshot in files.snapshots_of(state)]
    if screen == "sessions":
        shown = people.SESSIONS.shown(people.people_of(state), state.table("sessions"))
        return [
            {
                **msgspec.structs.asdict(person.info),
                "in_per_s": round(person.in_per_s, 1),
                "out_per_s": round(person.out_per_s, 1),
            }
            for person in shown
        ]
    if screen == "time":
        return [
            {
                "wal_seq": marker.wal_seq,
                "time_ns": marker.time_ns,
                "kind": marker.kind.value,
                "text": marker.text,
            }
            for marker in timeline.marks_of(state)
        ]
    entries = loglines.LOG.shown(loglines.entries_of(state), state.table("log"))
    return [
        {
            "time_ns": entry.time_ns,
            "level": entry.level,
            "source": entry.source,
            "count": entry.count,
            "text": entry.text,
        }
        for entry in entries
    ]


def as_csv(state: ConsoleState, screen: str) -> str:
    """Return a screen's main table as CSV with a head.

    Text of the daemon is made harmless, and one that a spreadsheet would take for a formula gets a
    quote in front.
    """
    rows = rows_of(state, screen)
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return out.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text[:1] in "=+-@" and text else text


def export(state: ConsoleState, screen: str) -> list[Path]:
    """Write a screen's values and return the files' paths."""
    folder = state_dir() / "exports"
    folder.mkdir(exist_ok=True)
    stem = f"{screen}-{time.strftime('%Y%m%d-%H%M%S')}"
    paths = [folder / f"{stem}.json", folder / f"{stem}.csv"]
    paths[0].write_bytes(as_json(state, screen))
    paths[1].write_text(as_csv(state, screen), encoding="utf-8")
    return paths


def save_copy(text: str) -> Path:
    """Write what was copied, for terminals that keep their clipboard to themselves."""
    path = state_dir() / "clipboard.txt"
    path.write_text(text + "\n", encoding="utf-8")
    return path
