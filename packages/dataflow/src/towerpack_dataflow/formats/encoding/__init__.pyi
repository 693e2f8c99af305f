from ._messages import pack_message, unpack_message
from ._stored_datapoints import decode_stored, pack_record, unpack_record

__all__ = ["decode_stored", "pack_message", "pack_record", "unpack_message", "unpack_record"]
