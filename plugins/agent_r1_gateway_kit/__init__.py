"""Test kit for gateways: `pytest --agent-gateway URL` plays programs against one, and checks ids and masks.

It needs pytest and nothing else, and knows a gateway by HTTP alone; docs/gateway_kit.md has the protocol.
"""
