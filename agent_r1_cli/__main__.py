"""`python -m agent_r1_cli` is `agent-r1`."""

from agent_r1_cli.main import main

main()
