"""The images of a node: found, pulled, or built once in the storage that all jobs of its container engine share.

`image_puller` provides a job's image; `image_builder` builds one from a Dockerfile or waits for the agent that builds
it, and records which were built; `build_errors` explains failed builds.
"""
