"""Tools as they should and should not be, in a module that another process can import."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import time
from typing import Any

from bad_tools import RELEASE

from agent_r1_core import ComponentConfig, Tool, ToolContext, ToolError, ToolResources, tool


@tool
def lookup(name: str, times: int = 1) -> str:
    """Look a name up."""
    return f"{name} was born in Tavelo." * times


@tool
def counted(name: str, context: ToolContext) -> str:
    """Look a name up and record how long it is."""
    context.metrics["letters"] = len(name)
    return name


@tool(reward_range=(-1.0, 1.0))
def paid(value: float, times: int = 1, end: str = "", context: ToolContext = None) -> str:  # type: ignore[assignment]
    """Give a reward, then answer, refuse, break or hang."""
    for _ in range(times):
        context.reward(value)
    if end == "refuse":
        raise ToolError("no")
    if end == "break":
        raise ValueError("broken")
    if end == "hang":
        RELEASE.wait()
    return "paid"


@tool(reward_range=(0.0, 1.0))
async def paid_later(value: Any, context: ToolContext) -> str:
    """Give a reward on the event loop."""
    await asyncio.sleep(0)
    context.reward(value)
    return "paid"


@tool
def undeclared(context: ToolContext) -> str:
    """Give a reward without a declared range."""
    context.reward(0.5)
    return "paid"


@tool
async def later(name: str) -> dict[str, str]:
    """Look a name up without a hurry."""
    await asyncio.sleep(0)
    return {"name": name}


@tool
def act(how: str, context: ToolContext, folder: str = "") -> str:
    """Do what no tool should."""
    match how:
        case "break":
            raise ValueError("no such page\nat all")
        case "decline":
            raise ToolError("the page is gone; ask for another")
        case "die":
            os._exit(9)
        case "print":
            print("I look it up", flush=True)
        case "keep a tuple":
            context.state["place"] = (1, 2)  # what JSON would change
        case "hoard":
            return str(len(bytearray(1 << 30)))
        case "fill":
            with open(f"{folder}/big", "wb") as file:
                file.truncate(1 << 30)
    return "done"


@tool
def whoami(context: ToolContext) -> dict[str, Any]:
    """Say who is served."""
    context.state["calls"] = context.state.get("calls", 0) + 1
    served = {"episode": context.episode, "turn": context.turn, "task": context.task.id, "process": os.getpid()}
    served |= {"calls": context.state["calls"], "in time": context.deadline > time.monotonic()}
    return {**served, "random": context.rng.random()}


@tool
def count(fail: bool, context: ToolContext) -> float:
    """Count calls in the state, forget what was noted, and draw a number."""
    context.state["calls"] = context.state.get("calls", 0) + 1
    context.state.pop("noted", None)
    if fail:
        raise ToolError("counted in vain")
    return context.rng.random()


@tool
def remember(lists: int, context: ToolContext) -> str:
    """Keep many lists in the state."""
    context.state["lists"] = [[]] * lists
    return "kept"


class Index(Tool):
    """Counts the passages of a corpus."""

    class Config(ComponentConfig):
        unit: str = "passages"

    def open(self, resources: ToolResources) -> None:
        self.titles = [passage.title for passage in resources.corpora["train"]()]

    def describe(self) -> dict[str, Any]:
        return {"passages": len(self.titles)}

    def run(self, arguments: Any, context: ToolContext) -> str:
        return f"{len(self.titles)} {self.config.unit}: {', '.join(self.titles)}"


class BadIndex(Index):
    """Fails to describe itself."""

    def describe(self) -> dict[str, Any]:
        return {"share": 1 / 0}


class Sql(Tool):
    """Adds in a database whose connection serves only the thread that made it."""

    def open(self, resources: ToolResources) -> None:
        self.connection = sqlite3.connect(":memory:")

    def run(self, arguments: Any, context: ToolContext) -> int:
        return int(self.connection.execute("SELECT 1 + 1").fetchone()[0])


class Closed(Tool):
    """A tool that cannot be opened."""

    def open(self, resources: ToolResources) -> None:
        raise OSError("the disk is full")


class Dying(Tool):
    """A tool whose process does not survive its opening."""

    def open(self, resources: ToolResources) -> None:
        os._exit(3)


class Orderly(Tool):
    """Notes when it is opened and closed, and leaves a process behind."""

    class Config(ComponentConfig):
        notes: str
        most: int = 99
        """How often it can be opened."""

    def open(self, resources: ToolResources) -> None:
        if len(self.note("opened")) > self.config.most:
            raise OSError("there are too many already")

    def run(self, arguments: Any, context: ToolContext) -> str:
        time.sleep(0.5)
        return str(subprocess.Popen(["sleep", "600"]).pid)

    def close(self) -> None:
        time.sleep(0.3)
        self.note("closed")

    def note(self, what: str) -> list[str]:
        with open(self.config.notes, "a+", encoding="utf-8") as notes:
            notes.write(f"{what}\n")
            notes.seek(0)
            return notes.read().split()


@tool
def meet(folder: str, guests: int) -> int:
    """Wait until so many processes run this tool at once."""
    with open(f"{folder}/{os.getpid()}", "w"):
        pass
    while len(os.listdir(folder)) < guests:
        time.sleep(0.01)
    return guests
