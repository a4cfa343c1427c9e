"""A program that starts warm has its arguments, files and status, hears signals, and ends with its command."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def test_a_program_has_what_python_gives_it(warm: Path, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'beside'")
    (tmp_path / "program.py").write_text(
        "import os, sys, beside\nprint(sys.argv[1:], input(), beside.WORD, os.getcwd(), os.environ['WORD'])\n"
        "os.write(int(sys.argv[1]), b'written')\nraise SystemExit(3)"
    )
    read, write = os.pipe()
    call = [warm, tmp_path / "program.py", str(write), "b c"]
    options = {"input": "said\n", "cwd": "/", "env": {"WORD": "told"}, "pass_fds": [write]}
    done = subprocess.run(call, capture_output=True, text=True, **options)
    assert (done.returncode, done.stdout) == (3, f"['{write}', 'b c'] said beside / told\n"), done.stderr
    assert os.read(read, 9) == b"written"
    for call in (["-m", "json.tool", "--help"], ["-P", "-c", "import torch"]):
        assert subprocess.run([warm, *call], capture_output=True).returncode == 0
    failed = subprocess.run([warm, "-c", "1 / 0"], capture_output=True, text=True)
    assert (failed.returncode, failed.stderr.splitlines()[-1]) == (1, "ZeroDivisionError: division by zero")
