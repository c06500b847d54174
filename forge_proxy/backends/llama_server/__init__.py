"""llama.cpp's HTTP server: already running, or managed by the daemon as a child process."""
