"""Security middleware in front of Streamlit: hosts, headers, messages, connections and uploads."""
