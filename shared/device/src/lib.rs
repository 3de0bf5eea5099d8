//! Devices that measure a co-run: simulator, CPU quotas, NVIDIA MPS, replay.
