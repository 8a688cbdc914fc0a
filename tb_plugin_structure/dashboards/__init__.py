"""The three tabs inside TensorBoard: routes parse, call records and analysis, respond. Never imports torch."""
