"""Kernels: in C++ for float32 on a CPU, where the machine that computes can compile them; on a GPU those that torch's
compiler makes, and one for Triton; elsewhere torch's operations. One switch for both.

Whoever has kernels for a computation has torch's operations for it, too, and asks `kernels` which to take.
"""

from __future__ import annotations

from agent_r1_core.kernels.functions import Kernels, Norm, describe, kernels, switch, switched_on

__all__ = ["Kernels", "Norm", "describe", "kernels", "switch", "switched_on"]
