"""Send half an outline while the file is read."""

import os
import socket
import stat
import time

for name in os.listdir("/proc/self/fd"):
    try:
        if stat.S_ISSOCK(os.stat(int(name)).st_mode):
            socket.socket(fileno=os.dup(int(name))).send(b"o\x10")
    except OSError:
        pass
time.sleep(600)
