"""Who may open the nodes of GPUs on the host: their group, or those only who have reserved them."""
