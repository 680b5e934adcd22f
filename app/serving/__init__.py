"""What stands between the network and Streamlit: hosts, headers, messages, connections, uploads."""
