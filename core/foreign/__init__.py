"""Networks of other projects as checkpoint folders, one file per family; see README.md."""
