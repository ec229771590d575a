"""The studies, and what runs them, keeps their replicates and writes their results.

A study is a module with a `STUDY` (see `study.Study`) and a line in `study.STUDIES`; `python -m simulations NAME`
does the rest.
"""
