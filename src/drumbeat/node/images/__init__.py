"""The images of a node: found, pulled, or built once in the storage that all jobs of its container engine share.

`image_puller` brings the one that a job wants; `image_builder` makes one of a Dockerfile or waits for the agent that
does; `folders` records which ones were built, `build_errors` says what was wrong with one that couldn't be.
"""
