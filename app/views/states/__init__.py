"""Copy and push states on the page "Two at once", one file per question."""
