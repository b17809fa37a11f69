"""Say that everything is done, in the words of the border or of the worker, and compute nothing."""

import ctypes
import os
import socket
import stat
import struct
import subprocess
import sys
import threading
import time


def sockets():
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.stat(int(name)).st_mode):
                yield int(name)
        except OSError:
            pass


def pipes():
    return [socket.socket(fileno=os.dup(each)) for each in list(sockets())]  # a copy would be found as another one


def compiled(text):
    command = ["gcc", "-O1", "-shared", "-fPIC", "-x", "c", "-o", "speaks.so", "-"]
    subprocess.run(command, input=text.encode(), check=True)
    return ctypes.CDLL(os.path.abspath("speaks.so"))


@family.cpu("answers_in_a_thread")
def answers_in_a_thread(problem, tune, inputs, outputs):
    """Take the requests in a thread, and answer each at once."""

    def impersonate(pipe):
        pipe.setblocking(True)
        while pipe.recv(5):
            pipe.sendall(b"d")

    for pipe in pipes():
        threading.Thread(target=impersonate, args=(pipe,), daemon=True).start()
    return lambda: None


@family.cpu("answers_ahead")
def answers_ahead(problem, tune, inputs, outputs):
    """Answer while it executes, before the work is done, and once more afterwards."""
    (pipe,) = pipes()

    def run():
        pipe.send(b"d")
        right(inputs, outputs)

    return run


@family.cpu("answers_before_the_question")
def answers_before_the_question(problem, tune, inputs, outputs):
    """Leave a thousand answers in the pipe."""
    (pipe,) = pipes()
    pipe.send(b"d" * 1000)
    return lambda: None


@family.cpu("takes_over_the_loop")
def takes_over_the_loop(problem, tune, inputs, outputs):
    """Never return from preparing: serve in its own way, computing for the first two requests alone."""
    (pipe,) = pipes()
    pipe.setblocking(True)
    pipe.sendall(b"d")
    count = 0
    while True:
        asked = pipe.recv(5)
        if not asked:
            os._exit(0)
        if asked[:1] == b"x" and count < 2:
            right(inputs, outputs)
            count += 1
        pipe.sendall(b"l" if asked[:1] == b"c" else b"d")


@family.cpu("child_answers")
def child_answers(problem, tune, inputs, outputs):
    """Let a forked child go on as the process, and answer at once."""
    (pipe,) = pipes()
    if os.fork():
        time.sleep(60)
    pipe.setblocking(True)
    pipe.sendall(b"d")
    while pipe.recv(5):
        pipe.sendall(b"d")
    os._exit(0)


@family.cpu("half_a_message")
def half_a_message(problem, tune, inputs, outputs):
    """Begin a message, and never end it."""
    (pipe,) = pipes()
    pipe.send(b"e\x00\x01")
    time.sleep(600)


@family.cpu("huge_message")
def huge_message(problem, tune, inputs, outputs):
    """Announce a message of four gigabytes, and send what the pipe takes."""
    (pipe,) = pipes()
    pipe.setblocking(True)
    pipe.sendall(b"e" + struct.pack("<I", 0xFFFFFFFF))
    while True:
        pipe.sendall(bytes(1 << 20))


@family.cpu("message_of_ten_megabytes")
def message_of_ten_megabytes(problem, tune, inputs, outputs):
    """Raise an error whose text has ten megabytes."""
    raise ValueError("x" * 10_000_000)


@family.cpu("nonsense")
def nonsense(problem, tune, inputs, outputs):
    """Send bytes that mean nothing."""
    (pipe,) = pipes()
    pipe.send(bytes(range(256)))
    return lambda: right(inputs, outputs)


@family.cpu("forged_refusal")
def forged_refusal(problem, tune, inputs, outputs):
    """Refuse with a state that means success, and with other types."""
    (pipe,) = pipes()
    text = b'{"state": "ok", "message": 7, "log": null}'
    pipe.send(b"e" + struct.pack("<I", len(text)) + text)
    return lambda: None


@family.cpu("nested_refusal")
def nested_refusal(problem, tune, inputs, outputs):
    """Refuse with JSON that is nested a hundred thousand deep."""
    (pipe,) = pipes()
    pipe.setblocking(True)
    text = b"[" * 100_000
    pipe.sendall(b"e" + struct.pack("<I", len(text)) + text)
    return lambda: None


@family.cpu("endless_readiness")
def endless_readiness(problem, tune, inputs, outputs):
    """Say "done" without end."""
    (pipe,) = pipes()
    pipe.setblocking(True)
    while True:
        pipe.sendall(b"d" * 4096)


@family.cpu("closes_its_pipe")
def closes_its_pipe(problem, tune, inputs, outputs):
    """Close every descriptor."""
    os.closerange(3, 256)
    return lambda: None


@family.cpu("ends_in_good_order")
def ends_in_good_order(problem, tune, inputs, outputs):
    """End the process as if all were done."""

    def run():
        right(inputs, outputs)
        os._exit(0)

    return run


@family.cpu("replaces_the_stage")
def replaces_the_stage(problem, tune, inputs, outputs):
    """Exchange what executes for what does nothing, through the frames that call it."""
    frame = sys._getframe()
    while frame is not None:
        stage = frame.f_locals.get("stage") or frame.f_locals.get("self")
        if type(stage).__name__ == "Stage":
            type(stage).execute = lambda self, count: None
        frame = frame.f_back
    return lambda: right(inputs, outputs)


@family.cpu("only_the_last_set")
def only_the_last_set(problem, tune, inputs, outputs):
    """Compute only the first and the last of the sets that it is asked for."""
    frame = sys._getframe()
    while frame is not None:
        stage = frame.f_locals.get("self")
        if type(stage).__name__ == "Stage":

            def execute(self, count):
                for number in {0, count - 1}:
                    self.calls[number]()

            type(stage).execute = execute
        frame = frame.f_back
    return lambda: right(inputs, outputs)


@family.cpu("refuses_in_no_text")
def refuses_in_no_text(problem, tune, inputs, outputs):
    """Refuse in bytes that are no text."""
    (pipe,) = pipes()
    pipe.setblocking(True)
    text = b'{"state":"skipped","message":"\xff","log":""}'
    pipe.sendall(b"e" + struct.pack("<I", len(text)) + text)
    time.sleep(600)


@family.cpu("answers_once_it_has_gone")
def answers_once_it_has_gone(problem, tune, inputs, outputs):
    """End at once, and let what shares its memory answer when it has been awaited."""
    library = compiled(
        """
        #define _GNU_SOURCE
        #include <sched.h>
        #include <signal.h>
        #include <unistd.h>
        static int first, pipe_;
        static char stack[1 << 16];
        static int answer(void *_) { while (!kill(first, 0)) ; write(pipe_, "d", 1); for (;;) pause(); }
        void go(int pipe) {
            first = getpid(), pipe_ = pipe;
            clone(answer, stack + sizeof stack, CLONE_VM | CLONE_FILES | SIGCHLD, 0);
            _exit(0);
        }
        """
    )
    (pipe,) = sockets()
    return lambda: library.go(pipe)
