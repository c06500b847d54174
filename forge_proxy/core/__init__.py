"""What forge-proxy knows about chats, calls and corrections. Pure: no clock, no network, no randomness, no I/O."""
