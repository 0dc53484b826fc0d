"""Why a host, or a container on it, has no GPU: facts that are read once, and checks that judge them."""
