"""The deterministic heart: records, rings, order book, matcher, digests. No clock, no I/O."""
