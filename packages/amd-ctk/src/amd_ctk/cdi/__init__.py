"""CDI specs of a host: making them, keeping them true, and finding out what engines are offered."""
