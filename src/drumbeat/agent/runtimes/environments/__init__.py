"""The Python environments of a node: made once, in a folder that all jobs of a user share, and found again.

`making` makes one or waits for whoever does; `places` is where they lie, under which locks and pins; `interpreters` and
`builders` choose with what; `troubles` says what was wrong with one that couldn't be made; `collecting` removes those
that nobody uses; `distributions` and `current` say what a Python is made of.
"""
