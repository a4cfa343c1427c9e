"""The parts of `make test-gpu`."""
