"""The teacher-forced pass: capture, edits, the record and its checks."""
