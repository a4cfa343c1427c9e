"""The engine keeps the contract that every engine keeps."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import ClassVar

import pytest
from agent_r1_transformers.engine import TransformersEngine

from agent_r1_core.testing import EngineContract


class TestTransformersEngine(EngineContract):
    component = TransformersEngine


class TestTransformersEngineWithFewRows(EngineContract):
    component = TransformersEngine
    config: ClassVar = {"max_episodes": 2, "cache_tokens": 20}


@pytest.mark.slow
def test_leaving_without_closing_ends_the_process_cleanly(model):
    """A thread inside torch would abort an interpreter that goes down."""
    _, folder = model("qwen2")
    code = f"""
        import asyncio, sys, threading
        from agent_r1_core.contracts.engine import EngineModel
        from agent_r1_core.testing import make_request
        from agent_r1_transformers.engine import TransformersEngine

        inside = threading.Event()

        async def main():
            engine = TransformersEngine()
            await engine.start(EngineModel({folder!r}, "float32"))
            decoder = engine._worker.backend._batch._decoder
            step = decoder.next_logits

            def long_step(*contexts):
                inside.set()
                return [step(*contexts) for _ in range(500)][-1]

            decoder.next_logits = long_step
            pending = asyncio.ensure_future(engine.generate(make_request((5,), 250)))
            await asyncio.sleep(0)
            inside.wait()
            sys.exit(7)

        asyncio.run(main())
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert out.returncode == 7, out.stderr
