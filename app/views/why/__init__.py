"""The page "Ask why": what matters here, why this word, what each layer knew, where it came from."""
