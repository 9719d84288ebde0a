"""Networks and data packaged for the demo."""
