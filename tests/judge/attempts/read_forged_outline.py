"""Send an outline of its own, with a megabyte of nesting, while the file is read."""

import os
import socket
import stat
import struct
import time

text = b'["Outlined", ' + b"[" * 900_000
for name in os.listdir("/proc/self/fd"):
    try:
        if stat.S_ISSOCK(os.stat(int(name)).st_mode):
            pipe = socket.socket(fileno=os.dup(int(name)))
            pipe.setblocking(True)
            pipe.sendall(b"o" + struct.pack("<I", len(text)) + text)
    except OSError:
        pass
time.sleep(600)
