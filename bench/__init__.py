"""Benchmarks: each command prints ratios against a peer, measured in one run."""
