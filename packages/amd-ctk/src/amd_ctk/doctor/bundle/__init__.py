"""A host in one file: what doctor found, and everything to reproduce it elsewhere."""
