"""The benchmarks' own tests: what they compute, and whom they refuse to measure."""
