"""The operations of HTTP APIs as tools."""
