"""Built-in plugin `tool_calling`: the environment of tasks that are solved with tools."""
