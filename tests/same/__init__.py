"""Prove that two versions of the project compute, show and write the same."""
