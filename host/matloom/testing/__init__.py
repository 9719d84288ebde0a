"""Random configurations, instructions and streams, and campaigns that compare chip and model."""
