"""Plain PyTorch models for the examples and benchmarks."""
