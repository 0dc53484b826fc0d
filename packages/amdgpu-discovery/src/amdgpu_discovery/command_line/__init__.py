"""What the command lines of all distributions share; no container start imports it."""
