"""The parts of the page on scratch and baseline, one file each."""
