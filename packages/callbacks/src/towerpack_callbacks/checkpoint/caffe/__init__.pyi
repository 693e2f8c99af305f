from ._caffe_variables import load_caffe

__all__ = ["load_caffe"]
