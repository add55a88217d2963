"""Modules of PyTorch that packages import and that do nothing here: each name can be imported, and raises when it is used."""
