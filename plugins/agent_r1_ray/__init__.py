"""The site `ray`: both roles that the trainer knows, each by several workers of a Ray cluster."""
