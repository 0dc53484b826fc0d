"""The five programs that start containers and that amd-ctk configures, each as data."""
