"""The guided tour: its page and its stops."""
