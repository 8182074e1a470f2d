"""Which source, store and delivery a Config names."""
