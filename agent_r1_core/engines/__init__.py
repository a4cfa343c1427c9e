"""What engines share: the thread that drives one, checks of requests and weights, and an engine from one function."""
