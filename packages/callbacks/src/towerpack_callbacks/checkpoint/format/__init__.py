"""The format of checkpoint directories, with functions to write, publish and read them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
