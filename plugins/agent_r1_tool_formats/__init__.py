"""Built-in plugin `tool_formats`: how models write tool calls."""
