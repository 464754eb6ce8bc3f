"""The operations console (Textual). Only `bourse.tui.app` and what it needs import Textual."""
