"""A host in one file: what doctor found, and what it takes to see the same elsewhere."""
