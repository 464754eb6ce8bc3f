"""Pictures of figures as SVG: the few elements that all of them are made from, light and dark."""

from __future__ import annotations

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #333 }
  .title { font-size: 15px; font-weight: 600 }
  .grid { stroke: #ccc } .axis { stroke: #666 } .cache { stroke: #999; stroke-dasharray: 2 4 }
  .bound { stroke: #c33; stroke-dasharray: 6 4 } .bound-text { fill: #c33 }
  .a { stroke: #06c; fill: #06c } .b { stroke: #b60; fill: #b60 }
  .c { stroke: #888; fill: #888 }
  .way { fill: none; stroke-width: 2 } text.a, text.b, text.c { stroke: none }
  .back { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .grid { stroke: #444 } .axis { stroke: #999 } .cache { stroke: #777 }
    .bound { stroke: #f77 } .bound-text { fill: #f77 } .back { fill: #16181d }
    .a { stroke: #6af; fill: #6af } .b { stroke: #fa4; fill: #fa4 }
    .way { fill: none }
  }
"""


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a straight line."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def label(kind: str, x: float, y: float, words: str, anchor: str = "middle") -> str:
    """Return a text."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def way(kind: str, places: list[tuple[float, float]]) -> str:
    """Return a line through places."""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline class="way {kind}" points="{points}"/>'


def picture(width: int, height: int, title: str, parts: list[str]) -> str:
    """Return a whole picture, with its ground and its style."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-label="{title}">',
            f"<style>{STYLE}</style>",
            f'<rect class="back" width="{width}" height="{height}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )
