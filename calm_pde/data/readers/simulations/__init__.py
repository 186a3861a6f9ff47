"""Folders of what simulations write: VTK's families of files and OpenFOAM cases, read in a process of their own."""
