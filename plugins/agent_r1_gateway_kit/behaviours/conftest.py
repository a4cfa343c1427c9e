"""Fixtures of the behaviours: the gateway, the API that a program speaks, and the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agent_r1_gateway_kit.protocol import Gateway, Program
from agent_r1_gateway_kit.talks import TALKS


@pytest.fixture(scope="session")
def gateway(request: pytest.FixtureRequest) -> Gateway:
    """The gateway under test."""
    address = request.config.getoption("--agent-gateway")
    if address is None:
        pytest.skip("name a gateway: pytest --agent-gateway URL")
    return Gateway(address)


@pytest.fixture(params=list(TALKS))
def api(request: pytest.FixtureRequest, gateway: Gateway) -> str:
    """The API that the program speaks, one that the gateway has."""
    gateway.needs(request.param)
    return str(request.param)


@pytest.fixture
def play(gateway: Gateway, api: str) -> Callable[..., Any]:
    """`with play(action, ...) as program` opens an episode with this script, and ends it."""

    @contextmanager
    def play(*policy: dict[str, Any], **options: Any) -> Iterator[Program]:
        program = Program(gateway.address, api, policy, options)
        try:
            yield program
        finally:
            program.end()

    return play
