"""Benchmarks that ship with the product: workloads, clients, checks, results."""
