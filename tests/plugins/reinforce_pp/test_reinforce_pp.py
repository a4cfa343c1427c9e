"""REINFORCE++: the contract."""

from __future__ import annotations

from agent_r1_reinforce_pp.reinforce_pp import ReinforcePP

from agent_r1_core.testing import AlgorithmContract


class TestReinforcePP(AlgorithmContract):
    component = ReinforcePP
    variants = ({}, {"kl_coef": 0.01, "gamma": 0.9}, {"baseline": True}, {"baseline": True, "kl_coef": 0.01})
