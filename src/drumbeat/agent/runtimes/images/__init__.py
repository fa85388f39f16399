"""The images of a node: found, pulled, or built once in the storage that all jobs of its container engine share.

`looking` says what an image is made of; `having` brings the one that a job wants; `building` makes one of a Dockerfile
or waits for whoever does; `places` is what is written down of those that were built; `troubles` says what was wrong
with one that couldn't be.
"""
