"""Built-in plugin `textworld`: text adventures made by seed."""
