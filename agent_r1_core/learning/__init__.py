"""From trajectories to a better policy: batches, log-probs of action tokens, credit, losses, optimiser steps."""
