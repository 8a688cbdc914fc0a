"""What several tests start from: a real TensorBoard, a real browser, and small records written out by hand."""
