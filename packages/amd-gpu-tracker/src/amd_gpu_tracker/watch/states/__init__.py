"""The state of each GPU: free, reserved, in use, drained, suspect, sick, lost; for all that lists or chooses GPUs."""
