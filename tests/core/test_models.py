"""Loading a model: all of its weights, or one sentence; its download, from a hub on this machine, is counted work."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from agent_r1_core.errors import ModelError
from agent_r1_core.models import load_model, model_name
from agent_r1_core.testing import tiny_model_folder
from agent_r1_core.work import watched_by


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_model_folder(tmp_path / "model")


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        (("model.norm.weight",), r"model\.norm\.weight;"),
        (("model.norm.weight", "model.embed_tokens.weight"), r"lm_head\.weight and 2 more of the model's tensors;"),
    ],
)
def test_weights_that_lack_a_tensor_are_refused_and_not_made_up(folder, lost, named):
    weights = load_file(folder / "model.safetensors")
    for name in lost:
        del weights[name]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=f"lack {named} copy all files of the model there"):
        load_model(folder, torch.float32)


@pytest.mark.parametrize("value", ["", [], {}, None])
def test_a_damaged_configuration_is_one_sentence(folder, value):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_key_value_heads": value, "rope_parameters": value}))
    with pytest.raises(ModelError, match="no causal language model can be loaded from"):
        load_model(folder, torch.float32)


def test_whoever_watches_is_told_how_many_tensors_are_loaded_and_a_cached_model_has_its_name(folder):
    told: list[tuple[str, float, float | None, bool]] = []
    with watched_by(lambda work: told.append((work.what, work.done, work.total, work.ended))):
        model = load_model(folder, torch.float32)
    tensors = len(load_file(folder / "model.safetensors"))
    assert told[0] == (f"loading {folder}", 0, None, False)
    assert told[-1] == (f"loading {folder}", tensors, tensors, True)
    assert len(list(model.parameters())) == tensors
    assert model_name("/cache/hub/models--Qwen--Qwen2.5-3B-Instruct/snapshots/0a1b") == "Qwen/Qwen2.5-3B-Instruct"
    assert model_name(Path("runs/first/model")) == "runs/first/model"


FILES = {"config.json": b"{}", "model.safetensors": b"w" * 3_000_000, "old.gguf": b"g" * 1_000_000}
COMMIT = "c" * 40
FETCH = """
from agent_r1_core.models import download
from agent_r1_core.work import watched_by

told = []
with watched_by(lambda work: told.append((work.what, work.done, work.total))):
    folder = download("org/model")
print(sorted(path.name for path in folder.iterdir()), told[0], told[-1])
"""


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's API as a download asks for."""

    def log_message(self, *_: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if "/resolve/" in path:
            name = path.rpartition("/")[2]
            return self._send(FILES[name], {"ETag": f'"{_id(name)}"', "X-Repo-Commit": COMMIT})
        if "/tree/" in path:
            listed = [{"type": "file", "path": name, "size": len(FILES[name]), "oid": _id(name)} for name in FILES]
            return self._send(json.dumps(listed).encode(), {})
        about = {"id": "org/model", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]}
        return self._send(json.dumps(about).encode(), {})

    do_HEAD = do_GET

    def _send(self, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def _id(name: str) -> str:
    return hashlib.sha1(name.encode()).hexdigest()


@pytest.fixture
def hub() -> Iterator[str]:
    """Its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_bytes_of_a_download_are_counted_and_no_other_bar_is_drawn(hub, tmp_path):
    own = {"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    environment = {**os.environ, **own, "PYTHONPATH": os.pathsep.join(sys.path), "TQDM_POSITION": "-1"}
    done = subprocess.run([sys.executable, "-c", FETCH], capture_output=True, text=True, env=environment)
    size = sum(len(content) for name, content in FILES.items() if name != "old.gguf")
    began, ended = ("downloading org/model", 0, None), ("downloading org/model", size, size)
    assert done.stdout == f"{['config.json', 'model.safetensors']} {began} {ended}\n", done.stderr
    assert done.stderr == ""
