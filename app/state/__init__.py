"""State that outlives a script run: models, results, session state and the URL."""
