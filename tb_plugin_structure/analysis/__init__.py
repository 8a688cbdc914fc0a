"""Comparing two records: alignment, audit, attention. Needs numpy, never torch."""
