"""The paper's tables as a matrix of trainings and evaluations: what runs, what has run, and what it shows."""
