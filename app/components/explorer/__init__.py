"""The attention explorer. Only `mount` needs Streamlit: a saved page has the same files."""
