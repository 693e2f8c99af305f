"""Tar files of samples in the format of WebDataset, read in any order by an index."""
