"""Load tests: many clients over Streamlit's websocket, on this machine only."""
