"""llama.cpp for `real_model.py`: `Peer` starts this file in an environment with llama-cpp-python.

    python peer_llama.py FILE.gguf EPISODES LONGEST THREADS

Reads lines of JSON, {"contexts": lists of ids, "new_tokens": n}, continues every context by n ids at temperature 1, and
answers with seconds and processor seconds. Equal neighbours among the contexts are read once. All episodes decode
together; its sampler draws one id after the other.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class Peer:
    """llama.cpp in a process of its own.

    Args:
        python: of an environment with llama-cpp-python.
        episodes: at once, at most, of `longest` ids each.
    """

    def __init__(self, python: str, gguf: Path, episodes: int, longest: int, threads: int) -> None:
        command = [python, __file__, str(gguf), *map(str, (episodes, longest, threads))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def generate(self, contexts: list[list[int]], new_tokens: int) -> tuple[float, float]:
        """Continue the contexts; returns seconds, and processor seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"contexts": contexts, "new_tokens": new_tokens}), file=self._process.stdin, flush=True)
        wall, cpu = json.loads(self._process.stdout.readline())
        return wall, cpu

    def close(self) -> None:
        """End it."""
        self._process.communicate()


class Llama:
    """A model, and a context with room for all episodes."""

    def __init__(self, file: str, episodes: int, longest: int, threads: int) -> None:
        import llama_cpp

        self._cpp: Any = llama_cpp
        # Called from C for every line of the log; kept, since C holds no reference.
        self._silence = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._silence, ctypes.c_void_p())
        llama_cpp.llama_backend_init()
        model = llama_cpp.llama_model_load_from_file(file.encode(), llama_cpp.llama_model_default_params())
        wanted = llama_cpp.llama_context_default_params()
        wanted.n_ctx, wanted.n_seq_max = -(-longest // 256) * 256 * episodes, episodes
        wanted.n_batch = wanted.n_ubatch = max(512, episodes)
        wanted.n_threads = wanted.n_threads_batch = threads
        wanted.kv_unified = True  # without it every sequence has a cache of its own, and none can share a prompt
        self._context = llama_cpp.llama_init_from_model(model, wanted)
        if not self._context:
            raise SystemExit(f"llama.cpp cannot open {file}")
        self._batch = llama_cpp.llama_batch_init(wanted.n_batch, 0, 1)
        self._room = int(wanted.n_batch)
        self._sampler = llama_cpp.llama_sampler_init_dist(0)

    def generate(self, contexts: list[list[int]], new_tokens: int) -> None:
        """Continue the contexts."""
        memory = self._cpp.llama_get_memory(self._context)
        self._cpp.llama_memory_clear(memory, True)
        for number, ids in enumerate(contexts):
            if number and ids == contexts[number - 1]:
                self._cpp.llama_memory_seq_cp(memory, number - 1, number, -1, -1)
                continue
            for start in range(0, len(ids) - 1, self._room):
                chunk = ids[:-1][start : start + self._room]
                self._decode([(token, start + place, number) for place, token in enumerate(chunk)], False)
        last = [ids[-1] for ids in contexts]
        for step in range(new_tokens):
            self._decode([(last[row], len(ids) - 1 + step, row) for row, ids in enumerate(contexts)], True)
            last = [self._cpp.llama_sampler_sample(self._sampler, self._context, row) for row in range(len(contexts))]

    def _decode(self, tokens: list[tuple[int, int, int]], logits: bool) -> None:
        """Run (id, place, sequence) through the model."""
        batch = self._batch
        batch.n_tokens = len(tokens)
        for row, (token, place, sequence) in enumerate(tokens):
            batch.token[row], batch.pos[row], batch.logits[row] = token, place, logits
            batch.n_seq_id[row], batch.seq_id[row][0] = 1, sequence
        if self._cpp.llama_decode(self._context, batch) != 0:
            raise SystemExit("llama.cpp has no room for the tokens of its cache")


def main() -> None:
    """Answer line by line."""
    file, *numbers = sys.argv[1:]
    llama = Llama(file, *map(int, numbers))
    for line in sys.stdin:
        asked = json.loads(line)
        begun, cpu = time.perf_counter(), time.process_time()
        llama.generate(**asked)
        print(json.dumps([time.perf_counter() - begun, time.process_time() - cpu]), flush=True)


if __name__ == "__main__":
    main()
