"""What several pages share: choices, figures, explorers, the sentence of a lesson."""
