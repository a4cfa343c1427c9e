"""Our scores are those of an independent plain implementation on the pairs that the official file was run on, and the
script that runs it tells every difference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from plain_scores import plain_exact, plain_f1

from agent_r1_core.evaluation.scorers import exact_match_score, f1_score

PAIRS = 10_000
PROGRAM = """
import sys
import ujson
from agent_r1_core.evaluation.scorers import exact_match_score, f1_score as our_f1

def f1_score(prediction, answer):
    return {f1}, 0, 0

if __name__ == "__main__":
    predicted, gold = (ujson.load(open(path)) for path in sys.argv[1:])
    pairs = [(predicted["answer"][one["_id"]], one["answer"]) for one in gold]
    print({{"em": sum(exact_match_score(*pair) for pair in pairs) / len(pairs),
           "f1": sum(f1_score(*pair)[0] for pair in pairs) / len(pairs)}})
"""


@pytest.fixture
def script(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "scripts"))
    monkeypatch.delitem(sys.modules, "official_hotpotqa", raising=False)
    import official_hotpotqa

    return official_hotpotqa


def test_our_scores_are_those_of_a_plain_implementation(script: ModuleType) -> None:
    cases = script.pairs(PAIRS)
    assert [exact_match_score(*case) for case in cases] == [plain_exact(*case) for case in cases]
    assert [f1_score(*case) for case in cases] == pytest.approx([plain_f1(*case) for case in cases], abs=1e-12)


def test_the_pairs_are_odd_enough_to_tell_scorers_apart(script: ModuleType) -> None:
    cases = script.pairs(PAIRS)
    shares = [sum(map(bool, which)) / PAIRS for which in zip(*map(_traits, cases), strict=True)]
    assert min(shares) > 0.02, shares
    assert script.pairs(50, seed=1) != script.pairs(50)
    assert script.pairs(50) == cases[:50]


def _traits(pair: tuple[str, str]) -> tuple[bool, ...]:
    prediction, answer = pair
    overlap = f1_score(prediction, answer)
    closed = {"yes", "no", "noanswer"} & {prediction.lower(), answer.lower()}
    return (
        exact_match_score(prediction, answer) == 1 and prediction != answer,
        0 < overlap < 1,
        overlap == 0,
        bool(closed),
        not prediction.split(),
        not (prediction + answer).isascii(),
    )


def test_a_missing_file_is_one_sentence(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["official_hotpotqa.py", "scorer.py"])
    with pytest.raises(SystemExit, match="2"):
        script.main()
    told = "error: there is no file scorer.py; get hotpot_evaluate_v1.py from github.com/hotpotqa/hotpot\n"
    assert capsys.readouterr().err.endswith(told)


@pytest.mark.parametrize(("f1", "status"), [("our_f1(prediction, answer)", 0), ("0.5", 1)])
def test_the_script_runs_a_file_as_it_is_and_tells_every_difference(
    root: Path, tmp_path: Path, f1: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scorer.py").write_text(PROGRAM.format(f1=f1))
    monkeypatch.setenv("PYTHONPATH", str(root))
    command = [sys.executable, str(root / "scripts/official_hotpotqa.py"), "scorer.py", "--pairs", "200"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert "sha256 of scorer.py: " in done.stdout
    assert ("official em, f1 = " in done.stdout) == bool(status)
