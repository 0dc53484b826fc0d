"""What a container that starts gets: the one story that the runtime acts on and `amd-ctk explain` tells."""
