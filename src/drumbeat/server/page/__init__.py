"""The web page: its built files, and the routes that send them. The sources are in `page/`, beside `src/`."""
