"""Complete boards with clock, reset, pins, memory, link and engine, and the build of bitstreams."""
