"""Inline: what a notebook shows of runs, as a page of the viewer in a frame; a plain terminal shows text.

The frame may run the page's own scripts and nothing else: it reaches no network, no file and no other cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from agent_r1_core.runs.reading.found_runs import FoundRuns


@dataclass(frozen=True, repr=False)
class Inline:
    """A page of the viewer about runs, and the same in a few lines of text."""

    text: str
    runs: tuple[Path, ...]
    """The folders of the runs that the page needs."""
    address: str
    """Of the page, as `#/runs/first/steps/3`."""
    height: int
    """Of the frame, in pixels."""

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """The frame, as IPython asks for it.

        Raises:
            RunError: what it shows is gone by now.
        """
        from agent_r1_viewer.exported_page import page

        html = escape(page(self.runs, self.address))
        style = f"width: 100%; height: {self.height}px; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html}"></iframe>'


def ids_of(runs: tuple[Path, ...]) -> list[str]:
    """What the viewer calls these runs."""
    names = {path: name for name, path in FoundRuns(runs).all().items()}
    return [names[run.resolve()] for run in runs]
