"""What the metrics say is what the log says; what the alerts fire on, and stay silent on."""
