"""Recorded steps of a run, played and learnt from again: do they repeat bit for bit, and what would change them?"""
