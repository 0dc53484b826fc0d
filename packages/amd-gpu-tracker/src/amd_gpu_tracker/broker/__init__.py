"""Reserve GPUs for everybody who has an account: one small process of root, behind a socket, while anybody needs it."""
