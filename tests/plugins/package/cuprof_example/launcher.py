"""A launcher that runs one job after the other."""

import subprocess
import sys

from cuprof.engine.launchers.launcher import JobState, Launcher


class Queue(Launcher):
    """Run the jobs in this process's own children, each to its end."""

    def start(self):
        self.states = []
        for number in range(self.work.config.jobs):
            command = [sys.executable, *self.work.words_of(number)]
            with self.work.log_of(number).open("wb") as log:
                done = subprocess.run(command, cwd=self.work.folder, stdout=log, stderr=log)
            self.states.append(JobState("ended", done.returncode))

    def poll(self):
        return self.states

    def stop(self):
        pass
