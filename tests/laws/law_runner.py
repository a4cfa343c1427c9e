"""A process that has imported the large libraries once and runs pytest in forks of itself: a run then costs a second
instead of ten. It imports nothing of this project, since every fork tests another copy of it.

Reads one JSON object a line, {"folder", "arguments", "output"}, and answers each with the exit code of its pytest.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys

SECONDS = 300
"""A run that takes longer is killed."""


def preload() -> None:
    """Import what the laws' tests spend their time importing; nothing that starts threads."""
    for name in (
        *("jinja2", "numpy", "pluggy", "pyarrow.parquet", "pydantic", "pytest", "safetensors.torch", "tokenizers"),
        *("torch.utils.checkpoint", "transformers.integrations.sdpa_attention", "transformers.masking_utils", "yaml"),
    ):
        importlib.import_module(name)
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2ForCausalLM  # noqa: F401


def run(folder: str, arguments: list[str], output: str) -> int:
    """Run pytest in a fork, in `folder`, whose source hides the installed one; its words go to the file `output`."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 70
    try:
        signal.alarm(SECONDS)
        words = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(words, 1)
        os.dup2(words, 2)
        own = [folder, os.path.join(folder, "plugins")]
        sys.path[:0] = own
        os.environ["PYTHONPATH"] = os.pathsep.join(own)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # of pytest itself
        os.chdir(folder)
        import pytest

        code = int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Serve until the other side closes the pipe."""
    preload()
    gc.freeze()  # pytest collects garbage several times a run, which would go through all of the libraries
    for line in sys.stdin:
        print(run(**json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
