"""Import networks of other projects as checkpoints, one file per family; see README.md."""
