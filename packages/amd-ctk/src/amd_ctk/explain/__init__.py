"""What a container would get, and why: the runtime's own decisions, without writing anything."""
