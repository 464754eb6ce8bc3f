"""The exchange process: the only package that owns sockets, clocks and threads."""
