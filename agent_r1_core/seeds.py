"""Seeds derived from names, so that what is sampled depends on neither order nor speed (LAW 11)."""

from __future__ import annotations

from hashlib import blake2b


def derive_seed(*parts: str | int) -> int:
    """A stable 63-bit seed for these parts: equal on every machine and in every process."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1
