"""The page "Inside a head" and its stages."""
