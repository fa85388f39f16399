"""The engine over a Kubernetes cluster.

`render` writes the pods, `own_pod_keys` merges what a person wants of them, `machines` tells which nodes there are,
`pod_status` what the pods say, and `engine` has the gangs.
"""
