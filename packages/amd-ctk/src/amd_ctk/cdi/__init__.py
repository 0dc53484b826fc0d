"""CDI specs of a host: generate, refresh, validate, and list what engines find."""
