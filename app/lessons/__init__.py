"""Lesson texts under CC BY 4.0, one TOML file per lesson and language, and their loader."""
