"""The lesson on tokens: how the tokenizer splits words."""

import streamlit as st

st.title("Tokens")
