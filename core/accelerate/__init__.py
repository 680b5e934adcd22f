"""Speed on a CPU: compiled kernels for a network's passes, searches and training loss."""
