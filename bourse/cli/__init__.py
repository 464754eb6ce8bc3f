"""The bourse command (Typer): each command's module is imported only when it runs."""
