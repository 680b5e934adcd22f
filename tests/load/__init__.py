"""A load client for the app: many visitors over Streamlit's own socket, on this machine only."""
