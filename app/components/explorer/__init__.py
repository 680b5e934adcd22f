"""The attention explorer. Only `mount` needs Streamlit: saved pages use the other modules."""
