"""Which job gets which slots: needs, queues, fair shares, quotas, elastic sizes, autoscaling. Pure."""
