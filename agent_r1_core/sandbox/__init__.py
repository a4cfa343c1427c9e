"""A process that sees no network and no host files, within bounds, for tools and environments that run what a model
wrote.

`find_backend` says what this machine offers; `Box` starts a Python program in it and exchanges messages with it;
`Shell` runs commands on files.
"""

from agent_r1_core.sandbox.backends import BACKENDS, UNSAFE, Backend, Bounds
from agent_r1_core.sandbox.box import Box, BoxEnded, BoxTimeout, EpisodeBox, find_backend
from agent_r1_core.sandbox.shell import File, Outcome, Shell, is_below

__all__ = [
    "BACKENDS",
    "UNSAFE",
    "Backend",
    "Bounds",
    "Box",
    "BoxEnded",
    "BoxTimeout",
    "EpisodeBox",
    "File",
    "Outcome",
    "Shell",
    "find_backend",
    "is_below",
]
