"""Built-in plugin `gateway`: any program that asks a model over HTTP plays episodes, and is trained."""
