"""The processor: how latent tokens change in time."""
