"""Judge candidates: admit them, time them in turns with the baseline, compare, and list the evidence against them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from cuprof.backends.registry import CUDA, get_spec, shares_memory
from cuprof.config.model import MeasureConfig, SweepConfig
from cuprof.core.errors import UsageError
from cuprof.core.files import open_regular
from cuprof.core.processes import import_ahead
from cuprof.core.project import Project
from cuprof.core.records import FAILED, DeviceFacts, Devices, Outcome, State, Unavailable
from cuprof.core.scratch import ScratchFolder
from cuprof.core.text import list_first, one_line
from cuprof.engine.device_lock import DeviceLocks
from cuprof.engine.devices import find_devices, open_executors
from cuprof.engine.executor import Executor
from cuprof.engine.launch import prestart
from cuprof.engine.observer import Observer
from cuprof.engine.planning import choose_problems
from cuprof.families import Family
from cuprof.families.candidate import LANGUAGES, PYTHON
from cuprof.interop.origins import AnyOrigin
from cuprof.judge.ahead import Ahead, is_apart, make_executor, open_ahead
from cuprof.judge.border.fork_server import ForkServer
from cuprof.judge.border.suspect import STIRS
from cuprof.judge.contenders import Contender, Entrance
from cuprof.judge.report import Candidate, Evidence, Report, Ruling
from cuprof.judge.warden import Warden
from cuprof.plan import Plan, Selection, plan
from cuprof.sandbox.settings import Sandbox
from cuprof.statistics.verdict import Rule
from cuprof.worker.devices import DeviceTable
from cuprof.worker.messages import WorkerSettings
from cuprof.worker.method import methods

if TYPE_CHECKING:
    from cuprof.judge.legs import Course, End

Baselines = dict[str, Plan]
"""Back end → the baseline's trials."""
SLOW = ("cupy", "torch", "triton", "numba")
"""Modules that take seconds to import; they are imported once for all processes."""
COMPARING, ITS_LIBRARIES = "cuprof.judge.verdict", ("pandas", "scipy.special")
"""Imported while legs are prepared: the module that compares them, and its libraries, which take a third of a second
each. A thread imports the libraries alone, since they have nothing of cuprof in them: of two threads that import parts
of one package, either may find a module half made."""
MOST_TRIALS = 1000
"""Of one variant: all of them are described to each candidate's process, and each is timed in every leg."""
MOST_READ = 1 << 16
"""Look for their names in this much of a file."""
SAME_RESULTS = (
    "it is right and as fast, but results for some inputs are right for all others, so that remembering them cannot be "
    "told from computing; give the family inputs that change its results, or a narrower tolerance"
)
SAME_INPUTS = "; what depends on nothing else may have been computed once, before it was timed"
CLAIMS = {
    "wrong_result": "wrong result",
    "implausible": "impossible time",
    "compile_error": "does not compile",
    "launch_error": "fails",
    "crashed": "ends its process",
    "timed_out": "does not come to an end",
}


@dataclass(frozen=True)
class Request:
    """The candidates to judge, and how.

    Args:
        config: the family, the problems and how they are timed; its variants, database and report are ignored.
        origin: of the family.
        candidates: sources (.cu, .cl), Python files and solutions in JSON, as `check_file` returns them.
        like: the variant that sources replace; empty takes the baseline, or the one variant of their language.
        rounds: how often each candidate is timed, between two timings of the baseline.
        noise: relative standard deviation of a time from one process to another; None as `compare` takes it.
        as_root: judge although this process is root's; code in a sandbox can then read what root alone may read.
        time_limit_s: how long one step of a candidate may take; 0 leaves the configuration's limits.
        database: file to keep the results in; None keeps them until the end.
        counters: read hardware counters too, as the configuration's `ncu` says.
    """

    config: SweepConfig
    origin: AnyOrigin
    candidates: tuple[Path, ...]
    baseline: str = ""
    like: str = ""
    rounds: int = 3
    rule: Rule = field(default_factory=Rule)
    noise: float | None = None
    as_root: bool = False
    time_limit_s: float = 0.0
    database: Path | None = None
    counters: bool = False


def judge(request: Request, project: Project, observer: Observer, server: ForkServer, warden: Warden) -> Report:
    """Judge every candidate and return the rulings; the project and its database stay unchanged.

    Args:
        server: starts the processes in which code of candidates runs.
        warden: gives the sandboxes; it has asked the system.

    Raises:
        UsageError: the family or a setting is invalid, or the baseline's results are wrong.
        KeyboardInterrupt: only the requested database is kept.
    """
    if os.geteuid() == 0 and not warden.is_off and not request.as_root:
        raise UsageError(
            "a candidate could read every file of root's; judge as another user, or allow it with --as-root"
        )
    with ScratchFolder() as workshop:
        trial = _Trial(request, project, observer, Path(workshop), warden, server)
        try:
            return trial.hold()
        finally:
            for executor in trial.idle:
                executor.retire_worker()


@dataclass
class _Trial:
    """One call of `judge` under way."""

    request: Request
    project: Project
    observer: Observer
    workshop: Path
    warden: Warden
    server: ForkServer
    done: list[Candidate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    idle: list[Executor] = field(default_factory=list)

    def hold(self) -> Report:
        """Judge all candidates, from admission to report."""
        request, config = self.request, self._config()
        conditions, noises = None, dict[str, str]()
        if request.counters:  # what cannot work is found before anything is timed
            from cuprof.ncu.collector import check_collection
            from cuprof.ncu.setting import make_request

            conditions = make_request(config.ncu).conditions
            check_collection(config, Project(self.workshop))
        self._open_ahead(config)
        importing = Thread(target=import_ahead, args=ITS_LIBRARIES, daemon=True)
        importing.start()
        family = request.origin.load()
        devices = self._find_devices(config, family)
        if not (self.warden.is_off or self.warden.refusal) and any(
            file.suffix not in LANGUAGES for file in self.request.candidates
        ):
            self.server.load([name for name in SLOW if self._needs(name, devices)])
        problem, presets = choose_problems(family, config)
        selection = Selection(("all",), problem, config.tune, presets, frozenset(config.tune))
        baselines = _plan_baselines(family, selection, devices, request.baseline)
        if (count := max((len(each.trials) for each in baselines.values()), default=0)) > MOST_TRIALS:
            raise UsageError(f"the baseline has {count} trials; judge at most {MOST_TRIALS}, at fewer problems")
        if request.like:
            family.variant(request.like)
        contenders = [*self._admit(config, family, selection, devices, baselines)]
        if contenders:
            ahead = Ahead(config, family, devices, self._confine, DeviceLocks(self.observer.note), self.idle)
            try:
                noises = self._hear(ahead, contenders, baselines, importing)
            finally:
                ahead.end()
        order = list(map(str, self.request.candidates))
        return Report(
            family=family.name,
            candidates=tuple(sorted(self.done, key=lambda each: order.index(each.file))),
            sandbox=self.warden.describe(),
            refusal=self.warden.refusal,
            noise=noises,
            notes=tuple(dict.fromkeys(self.notes)),
            database=str(request.database or ""),
            rule=request.rule,
            rounds=request.rounds,
            conditions=conditions,
        )

    def _open_ahead(self, config: SweepConfig) -> None:
        """Have the workers of the first legs open the device while this process plans."""
        backends = {LANGUAGES.get(file.suffix, "") for file in self.request.candidates}
        if self.request.database or backends != {CUDA.name} or CUDA.name not in config.device.backends:
            return  # a sandbox hides the databases that are there when it is made
        origin, rounds = self.request.origin, self.request.rounds
        self.idle += [make_executor(config, sandbox) for sandbox in self.warden.list_first(origin.folder, rounds)]
        for executor in self.idle[1:]:  # the first one says first what there is
            open_ahead(executor, CUDA.name, origin)

    def _hear(
        self, ahead: Ahead, contenders: Sequence[Contender], baselines: Baselines, importing: Thread
    ) -> dict[str, str]:
        """Judge those that take part; return the noise that the comparison used.

        Args:
            importing: imports `ITS_LIBRARIES`. It ends before anything is timed, since it would take part in times of
                the host.
        """
        request, bases = self.request, dict[tuple[str, bool], Contender]()
        for backend, on_host in dict.fromkeys(one.kind for one in contenders):
            trials, omitted = baselines[backend].trials, baselines[backend].list_omitted()
            self.notes += [
                f"nothing is judged at {problem.label}, where baseline {trials[0].variant} is not defined: {reason}"
                for problem, reason in omitted.items()
            ]
            bases[backend, on_host] = Contender(trials[0].variant, backend, request.origin, trials, on_host)
        turns = [*bases.values(), *contenders] * request.rounds + [*bases.values()]
        self.observer.started(sum(len(one.trials) for one in turns), ())
        if not request.database:
            ahead.begin(turns)
        import_module(COMPARING)
        from cuprof.judge.counters import Counting
        from cuprof.judge.legs import Course
        from cuprof.judge.referee import Border
        from cuprof.store.store import Store

        database = request.database or self.workshop / "judge.sqlite"
        with Store.open(f"sqlite:///{database}") as store:
            with closing(Border(ahead.config, ahead.devices, ahead.family, self.server)) as border:
                course = Course(ahead, self.project, store, border, self.observer)
                importing.join()
                noises, judged = self._race(course, turns, bases)
            if request.counters:
                counting = Counting(course, database.parent / "artifacts", self.warden.is_off, self.notes)
                self.done += counting.count(judged, bases)
            else:
                self.done += [candidate for _, candidate in judged]
        return noises

    def _admit(
        self, config: SweepConfig, family: Family, selection: Selection, devices: Devices, baselines: Baselines
    ) -> Iterator[Contender]:
        """Yield the variants of all files that take part; the others' rulings are done."""
        entrance = Entrance(
            family=family,
            selection=selection,
            devices=devices,
            known=[trial for each in baselines.values() for trial in each.trials],
            incomparable={(name, problem) for name, each in baselines.items() for problem in each.list_omitted()},
            like=self.request.like,
            workshop=self.workshop,
            sandbox=partial(self.warden.confine, devices=False),
            limit_s=config.limits.build_s,
            server=self.server,
            files=self.request.candidates,
        )
        for number, file in enumerate(self.request.candidates):
            for contender in entrance.admit(file, number):
                if isinstance(contender, Candidate):
                    self.done.append(contender)
                elif why := _cannot_run(contender, baselines, config.measure):
                    self.done.append(_candidate(contender, "", Ruling.UNUSABLE, one_line(why)))
                else:
                    yield contender

    def _config(self) -> SweepConfig:
        config = self.request.config
        limits = replace(config.limits, isolate=True)
        if self.request.time_limit_s:
            limits = replace(limits, build_s=self.request.time_limit_s, check_s=self.request.time_limit_s)
        return replace(config, limits=limits, retry="", experiment="")

    def _find_devices(self, config: SweepConfig, family: Family) -> Devices:
        """Return the devices of all back ends that may be needed, since a Python file does not announce its own."""
        needed = {LANGUAGES[file.suffix] for file in self.request.candidates if file.suffix in LANGUAGES}
        if any(file.suffix not in LANGUAGES for file in self.request.candidates):
            needed |= {variant.backend for variant in family.variants.values()}
        if self.request.baseline:
            needed.add(family.variant(self.request.baseline).backend)
        if self.idle:
            described = find_devices(config, self.idle[0], tuple(sorted(needed)))
            open_ahead(self.idle[0], CUDA.name, self.request.origin)
            return described
        # The judge's own process opens these for its side of the border; a worker would take a second to say the same.
        here = {name for name in needed & {*config.device.backends} if get_spec(name).facts_reader or name == "cpu"}
        table = DeviceTable(WorkerSettings(config.device.numbers()))
        with open_executors(config) as executors:
            found = find_devices(config, executors[0], tuple(sorted(needed - here)))
        return found | {name: table.describe(name) for name in sorted(here)}

    def _needs(self, module: str, devices: Devices) -> bool:
        """Return whether processes of candidates will probably import a module."""
        found = [get_spec(name) for name, device in devices.items() if isinstance(device, DeviceFacts)]
        if any(module in spec.imports for spec in found):
            return True
        for file in self.request.candidates:
            with suppress(UsageError), open_regular(file) as text:  # who admits it says that it cannot be read
                if file.suffix == PYTHON and module.encode() in text.read(MOST_READ):
                    return True
        return False

    def _race(
        self, course: Course, turns: Sequence[Contender], bases: Mapping[tuple[str, bool], Contender]
    ) -> tuple[dict[str, str], list[tuple[Contender, Candidate]]]:
        """Time all in turns and judge the right ones together; return also the noise that the comparison used."""
        from cuprof.judge.verdict import Legs, compare_legs, is_accepted

        legs = {one: Legs(one.variant, over_border=one.runs_on_host, omitted=one.omitted) for one in turns}
        left = [*turns]
        running = [one for one in dict.fromkeys(turns) if one.file]
        while left:
            course.ahead.begin(left)
            alone = course.ahead.await_ready()
            place = next((place for place, one in enumerate(left) if one is alone), 0)
            contender = left.pop(place)
            if left and is_apart(left[0]) and not course.ahead.waiting:  # on the host it would take part in these times
                prestart(sandbox=self._confine(left[0]))
            sweep_id, ends = course.run(contender, alone=alone is not None)
            stirred = course.border.find_stirred()
            ended = {one: [_stir(one)] for one in running if (one.origin, one.extension) in stirred}
            if ended:
                left.insert(0, contender)  # for a turn that nobody has disturbed
            elif ends:
                ended[contender] = ends
            else:
                legs[contender].read(course.store, sweep_id)
            for one, its_ends in ended.items():
                self.done.append(self._dismiss(one, its_ends, bases[one.kind].variant))
                running.remove(one)
            kinds = {one.kind for one in running}
            left = [one for one in left if one in running or (not one.file and one.kind in kinds)]
            for one in {contender, *ended} - {*left}:
                if one.file:
                    course.border.retire(one.origin, one.extension)
        course.ahead.end()  # while the times are compared
        for base in bases.values():
            self.notes += [f"the baseline drifts, so verdicts are less sure: {text}" for text in legs[base].drifts()]
        if not running:
            return {}, []
        pairs = [(legs[bases[one.kind]], legs[one]) for one in running]
        compared, noises = compare_legs(pairs, self.request.rule, self.request.noise)
        judged = []
        for contender, (rows, problems) in zip(running, compared, strict=True):
            ruling = Ruling.GOOD if is_accepted(rows) and not problems else Ruling.NOT_FASTER
            reasons = [*([] if rows else ["none of its trials could be compared"]), *problems]
            blind = [each.problem.label for each in rows if not course.border.tells.get(each.problem, True)]
            if blind and ruling is Ruling.GOOD:
                ruling, reasons = Ruling.UNUSABLE, [f"at {list_first([*dict.fromkeys(blind)], 3)} {SAME_RESULTS}"]
            decided = _candidate(contender, bases[contender.kind].variant, ruling, "; ".join(reasons))
            evidence = [Evidence("uneven", text, counts=False) for text in legs[contender].drifts()]
            if same := dict.fromkeys(name for each in rows for name in course.border.same.get(each.problem, ())):
                evidence.append(Evidence("the same in every draw", list_first([*same], 3) + SAME_INPUTS, counts=False))
            judged.append((contender, replace(decided, rows=rows, evidence=tuple(evidence))))
        return {device: noise.text for device, noise in noises.items()}, judged

    def _confine(self, contender: Contender) -> Sandbox | None:
        """Return the sandbox of a leg; a kernel of the family's own needs none."""
        if not contender.runs_on_host and not contender.file:
            return None
        file, backend = contender.file, get_spec(contender.backend)
        return self.warden.confine(contender.origin.folder, file, devices=not backend.is_host)

    @staticmethod
    def _dismiss(contender: Contender, ends: Sequence[End], baseline: str) -> Candidate:
        """Return a candidate some of whose trials did not end well, with its ruling.

        Raises:
            UsageError: it is the baseline.
        """
        trial, outcome = ends[0]
        if not contender.file:
            ending = f"{trial.label}: {outcome.state}: {outcome.message or 'no message'}"
            longer = "give it longer with --time-limit, or " if outcome.state is State.TIMED_OUT else ""
            raise UsageError(f"the baseline cannot be timed here: {ending}; {longer}name another one with --baseline")
        if not (failed := [end for end in ends if end[1].state in FAILED]):
            return _candidate(contender, baseline, Ruling.UNUSABLE, outcome.message)
        evidence = []
        for trial, outcome in failed:
            evidence.append(Evidence(CLAIMS.get(outcome.state, outcome.state), f"{trial.label}: {outcome.message}"))
            if outcome.log:
                evidence.append(Evidence("log", outcome.log, counts=False))
        made = _candidate(contender, baseline, Ruling.WRONG, evidence[0].detail)
        return replace(made, evidence=tuple(evidence))


def _plan_baselines(family: Family, selection: Selection, devices: Devices, wanted: str) -> Baselines:
    """Return back end → the plan of its baseline: the requested variant, else the family's, else the first.

    Unless another baseline is requested, a candidate is compared with a variant on the same device.
    """
    found = {}
    for backend in devices:
        own = [name for name, variant in family.variants.items() if variant.backend == backend]
        right = [name for name in own if family.variant(name).expected == "right"]
        name = wanted or next((each for each in (family.get_baseline(), *right) if each in right), "")
        if name:
            chosen = family.variant(name)
            tune = {key: values for key, values in selection.tune.items() if chosen.tunable(key)}
            narrowed = replace(selection, variants=(name,), tune=tune, optional=frozenset())
            found[backend] = plan(family, narrowed, devices)
    return found


def _cannot_run(contender: Contender, baselines: Baselines, measure: MeasureConfig) -> str:
    """Return why a candidate cannot be judged here, or an empty string."""
    if contender.backend not in baselines:
        return f"the family has no {contender.backend} variant to compare it with; name a baseline with --baseline"
    for trial in (*baselines[contender.backend].trials, *contender.trials):
        if isinstance(trial.unavailable, Unavailable):
            return f"{trial.label}: {trial.unavailable}"
    device = contender.trials[0].device
    if contender.runs_on_host and not (device and shares_memory(device)):
        return "no other process can own its inputs and its clock; name a source, or a function for CUDA or the CPU"
    if not methods(measure, contender.backend, over_border=contender.runs_on_host):
        modes = " and ".join(measure.modes)
        return f"its {modes} time is not judged; ask for measure.modes=[cold]"
    return ""


def _stir(contender: Contender) -> End:
    """Return the end of a candidate whose processes went on by themselves between its turns."""
    trial = contender.trials[0]
    return trial, Outcome(trial.identity, State.CRASHED, f"{STIRS} between its turns")


def _candidate(contender: Contender, baseline: str, ruling: Ruling, message: str) -> Candidate:
    return Candidate(
        str(contender.file), contender.variant, contender.backend, baseline, message=message, ruling=ruling
    )
