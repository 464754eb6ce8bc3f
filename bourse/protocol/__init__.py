"""Order entry: bytes to commands and events to bytes, without any I/O."""
