"""The continuous convolution and the latent steps."""
