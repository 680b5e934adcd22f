"""The files made from a plan: the offline page that runs it, and the worksheet."""

import streamlit as st

from app import controls
from app.plan import Plan


def show_files(made: Plan, chosen: controls.Selection) -> None:
    """Offer the files, and say first what they leave out."""
