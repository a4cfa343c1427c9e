"""Modules of mutants.py: rooms and their tests, the folder that mutmut works in, mutants, the report."""
