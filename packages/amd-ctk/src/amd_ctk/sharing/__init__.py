"""Users who may reserve GPUs without root: the settings, and the service that gives them out."""
