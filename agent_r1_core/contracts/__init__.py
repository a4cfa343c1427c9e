"""What an author subclasses, one noun per file; none imports torch."""
