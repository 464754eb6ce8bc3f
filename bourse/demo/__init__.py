"""The synthetic market of `bourse demo`: traders that are processes like any other client."""
