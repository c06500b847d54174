"""llama.cpp's HTTP server: found running, or embedded in a child process of ours."""
