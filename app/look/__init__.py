"""What figures and components share: palette, labels of tokens, numbers, literal text."""
