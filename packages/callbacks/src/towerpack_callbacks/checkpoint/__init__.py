"""Checkpoints: one directory each, complete or absent.

```
<log_dir>/model-1000/
    variables.index  variables.data-00000-of-00001    TensorFlow's own format
    state.json                                        loop, callbacks' states, input position
    manifest.json                                     format, versions, size and CRC-32 of every file
<log_dir>/latest -> model-1000
```

A checkpoint is written to a temporary directory, flushed to the disk, then renamed; `latest` moves last. If
the process is killed at any time, the newest complete checkpoint still loads.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
