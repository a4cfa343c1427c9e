"""The Typer app, one file per command."""
