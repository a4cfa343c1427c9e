"""Kernels in C++ for float32 on a CPU, where the machine that computes can compile them; elsewhere torch's operations.
On a GPU the learner has torch's compiler make some; the switch is the same.

Whoever has kernels for a computation has torch's operations for it, too, and asks `kernels` which to take.
"""

from __future__ import annotations

from agent_r1_core.kernels.functions import Kernels, Norm, describe, kernels, switch, switched_on

__all__ = ["Kernels", "Norm", "describe", "kernels", "switch", "switched_on"]
