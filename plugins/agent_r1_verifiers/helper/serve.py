"""The helper of `verifiers`, a program for the Python that has it: it lists tasks, and scores what was said."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import inspect
import itertools
import json
import math
import os
import sys
import threading
import time
import traceback
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

OUT = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # whatever the task set prints

LIBRARIES = (sys.prefix, os.path.dirname(os.__file__), __file__)
LOADED: dict[str, Any] = {}
ASKED: ContextVar[tuple[int, float] | None] = ContextVar("asked", default=None)
"""The number of what is scored, and the seconds that it may take."""
NOTHING = (0, math.inf)
TASKS: WeakKeyDictionary[asyncio.Task[Any], tuple[int, float]] = WeakKeyDictionary()
"""The same of every task that scores, those included that a score has started."""


def task_set(taskset: str, options: dict[str, Any]) -> Any:
    """The task set; raises ValueError with a sentence where it is none of v1."""
    try:
        from verifiers.v1.utils import loaders
    except ImportError as error:
        try:
            version = importlib.metadata.version("verifiers")
        except importlib.metadata.PackageNotFoundError:
            raise ValueError(f"{sys.executable} has no verifiers; install verifiers>=0.4 there") from error
        raise ValueError(f"verifiers {version} has the old API (v0); install verifiers>=0.4") from error
    try:
        config = loaders.taskset_config_type(taskset).model_validate({**options, "id": taskset})
        return loaders.load_taskset(config)
    except (AttributeError, TypeError):
        module = importlib.import_module(taskset.rpartition("/")[2].replace("-", "_").lower())
        if hasattr(module, "load_environment"):
            raise ValueError(
                "it is an environment of the old API (v0, load_environment); port it to vf.Taskset"
            ) from None
        raise


def tasks_of(taskset: str, options: dict[str, Any]) -> Any:
    """The tasks read so far, and the rest of them."""
    key = json.dumps([taskset, options], sort_keys=True)
    if key not in LOADED:
        found = task_set(taskset, options)
        LOADED[key] = ([], iter(found), found.bounded)
    return LOADED[key]


def task_at(taskset: str, options: dict[str, Any], index: int) -> Any:
    """A task, or None behind the last one."""
    read, rest, _ = tasks_of(taskset, options)
    read.extend(itertools.islice(rest, max(0, index + 1 - len(read))))
    return read[index] if index < len(read) else None


def listed(taskset: str, options: dict[str, Any], first: int, size: int | None) -> list[dict[str, Any]]:
    if size is None and not tasks_of(taskset, options)[2]:
        raise ValueError("the task set never ends; set size")
    out = []
    for index in itertools.count(first) if size is None else range(first, first + size):
        task = task_at(taskset, options, index)
        if task is None:
            break
        refuse_what_needs_more(task)
        prompt = task.data.prompt
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [*map(plain, prompt or [])]
        out.append({"index": index, "key": task.key, "messages": messages, "system": task.data.system_prompt})
        if not messages:
            raise ValueError("its user opens the conversation, which needs verifiers' own harness")
    return out


def plain(message: Any) -> dict[str, str]:
    from verifiers.v1.types import content_text

    return {"role": message.role, "content": content_text(message.content)}


def refuse_what_needs_more(task: Any) -> None:
    """Rewards with a runtime would be left out of the score without a word."""
    if task.NEEDS_CONTAINER or type(task).toolsets(task.config):
        raise ValueError("its tasks need a container or tool servers, which need verifiers' own harness")
    for reward in task.hooks("reward"):
        runtime = inspect.signature(reward).parameters.get("runtime")
        if runtime is not None and runtime.default is inspect.Parameter.empty:
            raise ValueError(f"its reward {reward.__name__} needs a runtime, which needs verifiers' own harness")


async def score(taskset: str, options: dict[str, Any], index: int, key: str, said: str, seconds: float) -> float:
    task = task_at(taskset, options, index)
    if task is None or task.key != key:
        raise ValueError(f"task {index} is no longer the one that was played; name the task set as the run did")
    BEAT.take()  # loading took its time
    return await asyncio.create_task(scored(task, said, seconds))


async def scored(task: Any, said: str, seconds: float) -> float:
    import verifiers.v1 as vf

    prompt = task.data.prompt
    before = [vf.UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt)
    nodes = [vf.MessageNode(message=one, parent=n - 1 if n else None) for n, one in enumerate(before)]
    nodes.append(vf.MessageNode(parent=len(nodes) - 1, sampled=True, message=vf.AssistantMessage(content=said)))
    trace = vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=task.data),
        agent=vf.AgentInfo(config=vf.AgentConfig()),
        nodes=nodes,
    )
    try:
        async with asyncio.timeout(seconds):
            await task.score(trace)
    except TimeoutError:
        raise ValueError(late(seconds)) from None
    return float(trace.reward)


def late(seconds: float) -> str:
    return f"its score took longer than {seconds:g} seconds"


def sentence(error: Exception) -> str:
    if hasattr(error, "errors"):  # of pydantic
        wrong = ((".".join(map(str, one["loc"])), one["msg"]) for one in error.errors())
        return "it refuses its options: " + "; ".join(f"{where}: {what}" for where, what in wrong)
    said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return said + raised_at(error)


def raised_at(error: BaseException | None) -> str:
    """` (FILE, line N)`: where the task set's own code raised; empty where it is installed."""
    frames: list[traceback.FrameSummary] = []
    while error is not None:
        frames += traceback.extract_tb(error.__traceback__)
        error = error.__cause__
    places = [(Path(one.filename), one.lineno) for one in frames if not one.filename.startswith("<")]
    own = [place for place in places if not any(place[0].is_relative_to(folder) for folder in LIBRARIES)]
    return f" ({own[-1][0].name}, line {own[-1][1]})" if own else ""


def say(number: int, **reply: Any) -> None:
    OUT.write(json.dumps({"id": number, **reply}) + "\n")
    OUT.flush()


async def answer(asked: dict[str, Any]) -> None:
    number, do = asked.pop("id"), asked.pop("do")
    ASKED.set((number, asked["seconds"]) if do == "score" else None)
    try:
        say(number, value=listed(**asked) if do == "tasks" else await score(**asked))
    except Exception as error:
        say(number, error=sentence(error))


def make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, **options)
    if (asked := ASKED.get()) is not None:
        TASKS[task] = asked
    return task


class Beat:
    """When the loop last had time for anything else than what it does now."""

    def __init__(self) -> None:
        self.at = 0.0
        self.take()

    def take(self) -> None:
        self.at = time.monotonic()

    async def keep(self) -> None:
        while True:
            self.take()
            await asyncio.sleep(0.1)


BEAT = Beat()


def watch(loop: asyncio.AbstractEventLoop) -> None:
    """End this process where a score keeps the loop busy for longer than its time; it is told, the others ask anew."""
    while True:
        time.sleep(0.25)
        task = asyncio.current_task(loop)
        number, seconds = TASKS.get(task, NOTHING) if task is not None else NOTHING
        if time.monotonic() - BEAT.at > seconds:
            try:
                say(number, error=late(seconds))
            finally:  # nobody may read it any more
                os._exit(1)


async def main() -> None:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(make_task)
    threading.Thread(target=watch, args=(loop,), daemon=True).start()
    beating, running = asyncio.create_task(BEAT.keep()), set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        task = asyncio.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)
    beating.cancel()


if __name__ == "__main__":
    asyncio.run(main())
