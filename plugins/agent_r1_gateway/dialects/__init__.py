"""The APIs that the gateway speaks, one module each."""
