"""The engine over a Kubernetes cluster.

`render` writes the pods, `own_pod_keys` merges the user's own keys into them, `machines` lists the nodes, `pod_status`
reads the pods' status, and `engine` has the gangs.
"""
