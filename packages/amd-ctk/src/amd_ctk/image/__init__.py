"""Judge images: the GPU targets of their code, their requirements, and which of several images fits this host."""
