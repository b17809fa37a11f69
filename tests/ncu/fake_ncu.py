"""A stand-in for ncu: it refuses arguments that the real one does not know and plays a script of recorded runs.

The folder FAKE_NCU holds `script.json`, a list of plays, one for each profiling run in turn, and the stand-in leaves
`calls.jsonl` and `tasks.jsonl` there. A play has, all optional: `console` (text to print), `report` (file to copy to
--export), `exit`, `progress` (identity → steps to append to the task's progress file; "all" stands for every trial of
the task), `sleep_s`, `until` (a file to wait for), `ignore_interrupt`, `kill` (a signal it sends itself).
"""

# ruff: noqa: T201 - printing is what this program is for

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

FLAGS = {"--nvtx", "--force-overwrite"}
OPTIONS = {
    "--target-processes": {"all", "application-only"},
    "--replay-mode": {"kernel", "application", "range", "app-range"},
    "--cache-control": {"all", "none"},
    "--clock-control": {"base", "none"},
    "--nvtx-include": None,
    "--set": {"basic", "detailed", "full", "roofline"},
    "--section": None,
    "--metrics": None,
    "--export": None,
}
REPEATABLE = {"--section", "--nvtx-include"}
FOLDER = Path(os.environ["FAKE_NCU"])


def refuse(text: str) -> None:
    """End as the real program does when it does not understand."""
    print(f"==ERROR== {text}")
    sys.exit(1)


def parse(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options and the program to profile."""
    options: dict[str, str] = {}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in options and word not in REPEATABLE:
            refuse(f"option '{word}' cannot be specified more than once. Use --help for further details.")
        if word in FLAGS:
            options[word] = ""
        elif word in OPTIONS:
            options[word] = words.pop(0)
            allowed = OPTIONS[word]
            if allowed is not None and options[word] not in allowed:
                refuse(f"the argument ('{options[word]}') for option '{word}' is invalid.")
        else:
            refuse(f"unrecognised option '{word}'. Use --help for further details.")
    return options, words


def next_play() -> dict:
    """Return the play of this run, by the number of runs before it."""
    calls = FOLDER / "calls.jsonl"
    number = len(calls.read_text().splitlines()) if calls.exists() else 0
    with calls.open("a") as file:
        file.write(json.dumps(sys.argv[1:]) + "\n")
    return json.loads((FOLDER / "script.json").read_text())[number]


def main() -> None:
    """Play the next run; a shell has answered --version and --query-metrics."""
    options, target = parse(sys.argv[1:])
    if not target:
        refuse("No target application specified.")
    task_file = Path(target[-1])
    while not task_file.exists():  # as the real target does: it may be started before anybody knows its trials
        time.sleep(0.01)
    play = next_play()
    if play.get("ignore_interrupt"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    task = json.loads(task_file.read_text())
    with (FOLDER / "tasks.jsonl").open("a") as file:
        file.write(json.dumps(task) + "\n")
    progress = dict(play.get("progress", {}))
    if "all" in progress:
        progress = {trial["identity"]: progress["all"] for trial in task["trials"]}
    print(play.get("console", ""), flush=True)
    if "report" in play:
        shutil.copyfile(play["report"], options["--export"])
    with Path(task["progress_path"]).open("a") as file:  # when all else is done: from here on its time is limited
        for identity, steps in progress.items():
            for step in steps:
                step, _, message = step.partition(":")
                file.write(json.dumps({"identity": identity, "step": step, "message": message}) + "\n")
    (FOLDER / "played").touch()
    while "until" in play and not Path(play["until"]).exists():
        time.sleep(0.01)
    time.sleep(play.get("sleep_s", 0))
    if "kill" in play:
        os.kill(os.getpid(), play["kill"])
    sys.exit(play.get("exit", 0))


main()
