"""The write-ahead log, snapshots and recovery: formats and state machines, no I/O of its own."""
