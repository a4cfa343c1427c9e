"""The environment and the task source `openenv`: a server of OpenEnv, spoken to over its protocol."""
