"""miniwiki: a procedural world and multi-hop questions about it."""
