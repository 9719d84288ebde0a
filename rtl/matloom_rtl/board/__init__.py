"""Complete boards: clock, reset, pins, memory, link and engine, and how to build them."""
