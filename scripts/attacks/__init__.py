"""Modules of torture.py: what is tried, part by part."""
