"""The four container engines that amd-ctk configures, each as data."""
