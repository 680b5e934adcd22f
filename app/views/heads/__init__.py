"""The page "Heads": what each head does over a corpus, and over a visitor's own text."""
