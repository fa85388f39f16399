"""Files of online endpoints and their deployments, in Azure's dialect."""
