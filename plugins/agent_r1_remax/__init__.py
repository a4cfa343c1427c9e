"""ReMax: the return of a greedy rollout is the baseline."""
