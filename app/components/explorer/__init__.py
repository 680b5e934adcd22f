"""The attention explorer. Only its module `mount` needs Streamlit: saved pages use the rest."""
