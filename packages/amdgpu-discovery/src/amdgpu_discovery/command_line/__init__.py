"""What the command lines of all distributions share; few container starts import it."""
