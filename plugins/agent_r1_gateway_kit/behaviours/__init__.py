"""What programs do, one test each; docs/gateway_kit.md lists them by their docstrings."""
