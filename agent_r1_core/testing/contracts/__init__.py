"""One test class per kind of component; a plugin author subclasses it, and pytest runs the checks."""
