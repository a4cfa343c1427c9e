"""Survivors that no test can tell from the original, or that none should: why, by file, text before and text after."""

from __future__ import annotations

SPARE = "One bucket more than there are groups or sequences, which nothing reads."
COUNT = "count = int(group.max()) + 1 if group.numel() else 0"
ZEROS = "zeros = token_log_ratio.new_zeros(int(sequence.max()) + 1 if sequence.numel() else 0)"

EXPLAINED: dict[tuple[str, str, str], str] = {
    ("groups", COUNT, COUNT.replace("+ 1", "+ 2")): SPARE,
    ("groups", COUNT, COUNT.replace("else 0", "else 1")): SPARE,
    ("surrogate", ZEROS, ZEROS.replace("+ 1", "+ 2")): SPARE,
    ("surrogate", ZEROS, ZEROS.replace("else 0", "else 1")): SPARE,
}
