"""What people call: ofu-report, ofu-admin, ofu-node."""
