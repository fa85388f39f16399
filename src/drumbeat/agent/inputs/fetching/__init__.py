"""How the files of inputs come to a node: from their store, from the server, or from the node before it in the gang.

web.py: requests. store.py: links, and the server where there are none. work.py: what comes next. fetch.py: threads that
fetch; crew.py: how many of them; batch.py: their small files; means.py: what they share. meter.py: how far it is, in
words. chain.py, serving.py and bundles.py: what nodes pass on. staging.py: all inputs of a job.
"""
