"""What checks judge. Every module reads one part of it, once, and never fails."""
