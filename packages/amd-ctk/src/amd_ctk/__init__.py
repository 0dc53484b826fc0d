"""The command people type: amd-ctk."""
