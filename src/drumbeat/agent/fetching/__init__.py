"""How the files of inputs come to a node: from their store, from the server, or from the node before it in the gang.

web.py: GETs. store.py: links, and the server where there are none. work.py: which piece next. fetch.py: threads that
fetch. meter.py: how far it is, in words. chain.py and serving.py: what nodes pass on. staging.py: all inputs of a job.
"""
