"""The test: twelve questions in two parallel forms, scored in the browser."""
