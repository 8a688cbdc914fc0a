"""Python generated from proto/ by `make proto`. Never edited by hand."""
