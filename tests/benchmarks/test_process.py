import json
import sys
import time

from benchmarks.process import ROOT, ask, run


def test_an_answer_file_is_taken_in_with_the_wall_time(tmp_path):
    module = tmp_path / "stand_in.py"
    module.write_text(
        "import sys, time, pathlib\n"
        "time.sleep(0.05)\n"
        "pathlib.Path(sys.argv[sys.argv.index('--answer') + 1]).write_text('{\"median_ns\": {\"k\": 5}}')\n"
    )
    began = time.perf_counter()
    answered = ask("stand_in", tmp_path, environment={"PYTHONPATH": str(tmp_path)})
    most_s = time.perf_counter() - began
    assert (answered.fault, answered.found) == ("", {"median_ns": {"k": 5}})
    assert 0.05 <= answered.wall_s <= most_s


def test_a_tool_that_is_not_installed_is_told_as_such(tmp_path):
    module = tmp_path / "lacking.py"
    module.write_text(
        "import sys\nfrom benchmarks.tools.answer import answer\n"
        "def work(arguments):\n    import no_such_tool\n"
        "sys.exit(answer(work))\n"
    )
    answered = ask("lacking", tmp_path, environment={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert answered.fault == "not installed: No module named 'no_such_tool'"


def test_a_tool_that_breaks_says_how(tmp_path):
    answered = run([sys.executable, "-c", "raise SystemExit('out of luck')"], tmp_path)
    assert answered.fault == "exit code 1: out of luck"


def test_an_absent_program_and_an_endless_one_are_faults(tmp_path):
    assert run(["no-such-program-here"], tmp_path).fault == "not installed: no-such-program-here"
    endless = run([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, limit_s=0.2)
    assert endless.fault == "stopped after 0.2 s"


def test_an_old_answer_is_not_taken_for_a_new_one(tmp_path):
    (tmp_path / "json.answer.json").write_text(json.dumps({"median_ns": {}}))
    assert "exit code" in ask("benchmarks.no_such.json", tmp_path).fault
