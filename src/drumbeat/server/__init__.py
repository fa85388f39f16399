"""The server: a folder for each subject with its routes, service and tables, and `control` and `app` above them."""
