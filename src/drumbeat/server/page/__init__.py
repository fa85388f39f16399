"""The web page: its built files and their routes. The sources are in `page/`, beside `src/`."""
