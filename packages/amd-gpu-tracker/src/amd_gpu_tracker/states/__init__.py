"""The state of each GPU: free, reserved, in use, drained, suspect, sick, lost. What lists or chooses GPUs asks here."""
