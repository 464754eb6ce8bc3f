"""The operations console (Textual)."""
