"""What runs in the sandbox: reads code, runs it in one namespace, and answers with what a Python prompt would print.

It is sent to the sandbox as text, and imports the standard library alone.
"""

from __future__ import annotations

import ast
import io
import json
import linecache
import os
import random
import sys
import traceback
import types

MOST_FRAMES = 4


class Output(io.TextIOBase):
    """Keeps the first `most` characters that are written, and counts the others."""

    def begin(self, most: int) -> None:
        self.most, self.size = most, 0
        self.kept: list[str] = []

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        kept = text[: max(0, self.most - self.size)]
        if kept:
            self.kept.append(kept)
        self.size += len(text)
        return len(text)


def run(code: str, name: str, namespace: dict[str, object]) -> bool:
    """Run the code, and print the value of its last expression; returns whether it raised."""
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    try:
        body = ast.parse(code, name).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), name, "exec"), namespace)
        if last is not None:
            exec(compile(ast.Interactive([last]), name, "single"), namespace)
    except BaseException as error:
        print(short_traceback(error, name), end="")
        return True
    return False


def short_traceback(error: BaseException, name: str) -> str:
    """The last frames of the caller's own code, and the error."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [index for index, frame in enumerate(frames) if frame.filename == name]
    shown = frames[own[0] :][-MOST_FRAMES:] if own else []
    lines = [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n    {frame.line}\n' for frame in shown]
    head = ["Traceback (most recent call last):\n"] if shown else []
    return "".join([*head, *lines, *traceback.format_exception_only(type(error), error)])


def serve() -> None:
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv, output, count = [""], Output(), 0
    random.seed(0)  # the same code prints the same in every episode
    while header := requests.read(4):
        request = json.loads(requests.read(int.from_bytes(header, "big")))
        output.begin(request["most"])
        sys.stdout = sys.stderr = output
        sys.displayhook = sys.__displayhook__
        failed = False
        if "code" in request:
            count += 1
            failed = run(request["code"], f"<input {count}>", main.__dict__)
        text = "".join(output.kept)
        answer = {"text": text, "dropped": output.size - len(text), "failed": failed}
        data = json.dumps(answer).encode()
        answers.write(len(data).to_bytes(4, "big") + data)
        answers.flush()


serve()
