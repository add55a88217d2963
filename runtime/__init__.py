"""What is still there when compilation is over: settings, logs, counters, records, artefacts, toolchain, native kernels."""
