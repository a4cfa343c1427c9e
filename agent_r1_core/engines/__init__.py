"""What engines share: the thread that drives a backend, checks of requests and weights, an engine from one function."""
