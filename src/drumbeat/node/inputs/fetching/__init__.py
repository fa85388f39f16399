"""How the files of inputs come to a node: from their store, from the server, or from the node before it in the gang.

`fetch_threads` has the threads that fetch and how many there are, `piece_queue` what they fetch next.
`store_client` asks the store or the server, `peer_client` the node before; `peer_server` answers the node after.
`http_client` says which answers are passing troubles, `fetch_context` how long a fetch waits after one.
"""
