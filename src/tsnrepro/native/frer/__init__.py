"""The eBPF FRER switch of the emulated testbed: sources, and how they are built."""
