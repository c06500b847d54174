"""Files of clients, and batches: thousands of requests in one file. They import no HTTP or SQL library."""
