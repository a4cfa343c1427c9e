"""The {{kind}} `{{name}}` for agent-r1."""
