"""Why a host, or a container on it, has no GPU: facts are read once, and checks judge them."""
