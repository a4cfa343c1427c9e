"""Steps of the embedded engine that sample one id for every row, by rows and by what they have read."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import report
from gpu_learner import profiled, seconds_of

ROWS = (1, 16, 64, 256)


def decoding(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """The tables of the part `decoding`."""
    import torch
    from agent_r1_transformers.engine import choose_decoder

    from agent_r1_core.contracts.engine import EngineModel
    from agent_r1_core.engines.module import load_module

    rows: list[dict[str, Any]] = []
    with torch.inference_mode():
        module = load_module(EngineModel(str(folder), options.dtype, options.device))
        decoder = choose_decoder(module)
        for count in (4,) if options.quick else ROWS:
            contexts = [[(7 * row + place) % 200 for place in range(options.prompt)] for row in range(count)]
            _read(decoder, [context[:-1] for context in contexts])
            alone = seconds_of(lambda: decoder.next_logits(contexts), options.device, 5 * options.repeats)  # noqa: B023
            whole = seconds_of(lambda: _sampled(decoder, contexts), options.device, 5 * options.repeats)  # noqa: B023
            graph = _as_a_graph(decoder, contexts, options) if options.device == "cuda" else None
            rows.append(
                {
                    "rows": count,
                    "model ms": 1e3 * alone,
                    "with sampling ms": 1e3 * whole,
                    "tokens/s": count / whole,
                    "model as a CUDA graph ms": None if graph is None else 1e3 * graph,
                    "model / graph": None if graph is None else alone / graph,
                }
            )
        report.show(f"A step of {type(decoder).__name__} after {options.prompt} ids", rows)
        kernels = profiled(lambda: _sampled(decoder, contexts), options.device)
    report.show(f"Where the time of a step with {count} rows goes", kernels)
    return {"decoding": rows, "step's kernels": kernels}


def _read(decoder: Any, contexts: list[list[int]]) -> None:
    """Fill the cache, a few rows at a time."""
    for first in range(0, len(contexts), 16):
        some = contexts[first : first + 16]
        decoder.cache.reserve(len(contexts), len(contexts[0]) + 64)
        decoder.read(first, [0] * len(some), some)


def _sampled(decoder: Any, contexts: list[list[int]]) -> None:
    from agent_r1_core.engines.sampling import choose
    from agent_r1_core.testing import make_request

    requests = [make_request(context, 8, row) for row, context in enumerate(contexts)]
    choose(decoder.next_logits(contexts), requests, [0] * len(requests))


def _as_a_graph(decoder: Any, contexts: list[list[int]], options: argparse.Namespace) -> float:
    """Seconds of the model's part of a step, recorded once and played again."""
    import torch

    span = len(contexts[0])
    ids = torch.tensor([context[-1:] for context in contexts], device=options.device)
    positions = torch.full((len(contexts), 1), span - 1, device=options.device)
    decoder.cache.place(0, positions, span)
    mask = torch.arange(span, device=options.device) <= positions[:, None, :, None]

    def step() -> None:
        decoder.forward(ids, positions, mask, True, 0)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # recording wants what is made in a first call to be there
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return seconds_of(graph.replay, options.device, 5 * options.repeats)
