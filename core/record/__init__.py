"""The teacher-forced pass and what is kept of it: capture, edits, the record and its checks."""
