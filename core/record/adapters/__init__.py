"""Records from the attention maps of other tools; `TranslationRecord.from_…` calls these."""
