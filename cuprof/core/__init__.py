"""What every other room uses: errors, records, project folders, interrupts and child processes."""
