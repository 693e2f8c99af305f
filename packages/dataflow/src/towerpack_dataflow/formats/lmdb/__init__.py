"""LMDB files, those of Tensorpack and Caffe included; needs the extra `[lmdb]`."""
