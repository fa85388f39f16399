"""Online endpoints and their deployments: kept, run as parents of replicas, and told to the router."""
