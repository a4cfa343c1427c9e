"""Built-in plugin `rft`: learning from the policy's own successes."""
