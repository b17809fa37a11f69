"""Refuse in bytes that are no text, while the file is read."""

import os
import socket
import stat
import struct
import time

text = b'{"state":"skipped","message":"\xff","log":""}'
for name in os.listdir("/proc/self/fd"):
    try:
        if stat.S_ISSOCK(os.stat(int(name)).st_mode):
            socket.socket(fileno=os.dup(int(name))).send(b"e" + struct.pack("<I", len(text)) + text)
    except OSError:
        pass
time.sleep(600)
