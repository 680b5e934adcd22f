"""Fault injection: which one-line faults do the tests not notice?"""
