"""Who may reserve GPUs without root: the settings, access to nodes, and the units of the service."""
