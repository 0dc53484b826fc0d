"""The commands of amd-gpu-sharing, which amd-ctk offers too."""
