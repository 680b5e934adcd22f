"""Records from the attention maps of other tools; called by `TranslationRecord.from_…`."""
