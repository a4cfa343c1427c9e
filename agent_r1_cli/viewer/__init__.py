"""`agent-r1 view`: a local web page over run directories, which it reads as they are and never writes."""
