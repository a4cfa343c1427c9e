"""Every law's test catches its planted faults: a copy of the source is broken on purpose, and the test must fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mutations import MUTATIONS, Mutation
from planting import Runner, check_noticed, copied, plant, runner

TESTS = (
    *("tests/laws", "tests/warm", "tests/yardstick", "tests/fixtures"),
    *("tests/plugins/ray_site/fake_workers.py", "tests/plugins/conftest.py"),
    *sorted({str(Path(one.by).parent) for one in MUTATIONS if one.by}),
)
LAWS = range(1, 14)


@pytest.fixture(scope="module")
def runs() -> Iterator[Runner]:
    with runner() as found:
        yield found


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Iterator[Path]:
    with copied(root, tmp_path, TESTS) as folder:
        yield folder


def files_of(mutation: Mutation, copy: Path) -> list[Path]:
    if mutation.by:
        return [copy / mutation.by]
    found = sorted((copy / "tests" / "laws").glob(f"test_law_{mutation.law:02d}_*.py"))
    assert found, f"law {mutation.law} has no test"
    return found


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"law{mutation.law:02d}-{mutation.name}")
def test_the_laws_test_sees_the_fault(mutation: Mutation, copy: Path, runs: Runner) -> None:
    plant(copy, mutation.file, mutation.old, mutation.new)
    code, said = runs.run(copy, files_of(mutation, copy), mutation.tests, "-x")
    check_noticed(code, said, mutation.by or "tests/laws/test_law_")


@pytest.mark.parametrize("law", LAWS)
def test_without_a_fault_the_same_test_passes(law: int, copy: Path, runs: Runner) -> None:
    """The first one of each law's, which sees that copies run; the first ring runs all of them in the source."""
    planted = [mutation for mutation in MUTATIONS if mutation.law == law and mutation.by is None]
    assert planted, f"law {law} has no planted fault"
    check_passes(planted[0], copy, runs)


def test_without_a_fault_a_test_of_a_component_passes(copy: Path, runs: Runner) -> None:
    check_passes(next(mutation for mutation in MUTATIONS if mutation.by), copy, runs)


def check_passes(mutation: Mutation, copy: Path, runs: Runner) -> None:
    """See that the test that notices this fault passes in a copy without it."""
    code, said = runs.run(copy, files_of(mutation, copy), mutation.tests)
    assert code == 0, said
