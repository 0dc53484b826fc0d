"""Who may open the nodes of GPUs on the host: their groups, or only users who have reserved them."""
