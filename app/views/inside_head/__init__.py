"""The page "Inside a head" and the stages that it shows."""
