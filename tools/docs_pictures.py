"""Draw the pictures of README and docs from a real exchange: `make docs-pictures`.

Starts `bourse demo` without its console in a directory of its own, lets it trade for a while, and
renders each screen once. The numbers are those of this machine at that moment.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

TRADING_SECONDS = 45.0
"""Before the first picture: the charts' minute has something to show."""
PICTURES = (
    # file, screen, size, keys
    ("docs/console.svg", "overview", (120, 36), ()),
    ("docs/pictures/book.svg", "book", (110, 32), ("down", "down", "down")),
    ("docs/pictures/latency.svg", "latency", (110, 32), ()),
    ("docs/pictures/wal.svg", "wal", (110, 34), ("s", "y")),
    ("docs/pictures/sessions.svg", "sessions", (110, 32), ("down", "down")),
    ("docs/pictures/time.svg", "time", (110, 32), ("r", "y")),
    ("docs/pictures/log.svg", "log", (110, 32), ()),
)


async def draw(admin: Path) -> None:
    """Render every picture."""
    from bourse.tui.render import render

    for name, screen, size, keys in PICTURES:
        picture = await render(
            admin, size, 12.0, screen=screen, keys=keys, title=f"bourse tui --screen {screen}"
        )
        path = ROOT / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(picture, encoding="utf-8")
        print(f"{name}: {len(picture) // 1024} KiB")


def main() -> int:
    """Start the exchange, draw, stop it."""
    with tempfile.TemporaryDirectory(prefix="bourse-") as home:
        # A runtime directory of its own: no other daemon's socket is in the way.
        os.environ["XDG_RUNTIME_DIR"] = home
        admin = Path(home) / "bourse" / "default.sock"
        seconds = TRADING_SECONDS + 16.0 * len(PICTURES)
        words = [sys.executable, "-m", "bourse", "demo", "--headless", "--seconds", str(seconds)]
        demo = subprocess.Popen(
            [*words, "--data", f"{home}/data"], cwd=ROOT, stdout=subprocess.DEVNULL
        )
        try:
            time.sleep(TRADING_SECONDS)
            asyncio.run(draw(admin))
        finally:
            demo.terminate()
            demo.wait(60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
