"""The environment `tool_calling`: tasks that are solved with tools."""
