"""Model servers: HTTP and processes out. Each adapter only yields chunks; it judges nothing."""
