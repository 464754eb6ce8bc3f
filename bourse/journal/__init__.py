"""The write-ahead log, snapshots and recovery: formats and state machines, without any I/O of its own."""
