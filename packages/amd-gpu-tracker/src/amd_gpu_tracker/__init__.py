"""Who is using which AMD GPU."""
