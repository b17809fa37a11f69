"""What ought to come of each variant of the family `tricks`, and whether it does.

What a variant does is the first line of its docstring in `benchmarks/project/kernels/tricks`. Each trick is of another
kind; some kinds are there once for each back end that they can be played on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from benchmarks.space import PROJECT

FAMILY = PROJECT / "kernels" / "tricks"
STALE = "this trick is out of date"
"""How the message of a trick begins that no longer finds what it wants to change: then nothing was shown."""

OK = "ok"
IN_FULL = "timed in full"
FALSE_TIME = "false time"
WRONG, IMPLAUSIBLE, REFUSED = "wrong_result", "implausible", "launch_error"
CRASHED, TIMED_OUT = "crashed", "timed_out"
TRUE_SHARE = {"cuda": 0.8, "opencl": 0.5, "cpu": 0.5}
"""A trick was believed if its stored time is below this share of the honest one; times of a host scatter."""
NEIGHBOUR_BAND = {"cuda": (0.8, 1.25), "opencl": (0.25, 4.0), "cpu": (0.25, 4.0)}
"""An honest variant beside a trick has a true time if that is within these shares of its time without the trick."""

BASELINES = {"cuda": "polynomial", "opencl": "plain_cl", "cpu": "numpy"}
PROBES = {"cuda": "device_probe", "cpu": "state_probe"}
"""Honest variants that are slow where somebody has left settings changed, as code may be that heeds them."""


class Level(StrEnum):
    """Name what stops a trick; see docs/judging.md."""

    CORRECTNESS = "correctness"
    ACCIDENTS = "accidents"
    ADVERSARIES = "adversaries"


@dataclass(frozen=True)
class Trick:
    """One trick and what ought to become of it.

    Attributes:
        variant: its name in the family.
        kind: what it exploits, a few words; the same for the same trick on another back end.
        caught_by: the mechanism that ought to catch it.
        expected: the endings that are right; `IN_FULL` where being told the true time is as good as being refused.
        caught: whether it ends in one of them, and those beside it are sound; None where that is luck.
        n: the problem at which it gains something; None for the run's own.
        samples: timed executions that it takes to be seen; None for the run's own.
    """

    variant: str
    kind: str
    caught_by: str
    expected: tuple[str, ...]
    caught: bool | None = False
    n: int | None = None
    samples: int | None = None

    @property
    def level(self) -> Level:
        """Return the lowest level that catches it: what looks at results, or the border where one cheats on purpose."""
        if self.variant in ON_PURPOSE:
            return Level.ADVERSARIES
        return LEVELS.get(self.caught_by, Level.ADVERSARIES)

    @property
    def is_harmless(self) -> bool:
        """Return whether it concerns its own result alone, so that several such tricks can be swept in one process."""
        return self.caught_by in HARMLESS and not self.samples and self.level is not Level.ADVERSARIES


@dataclass(frozen=True)
class Shown:
    """What cuprof shows of one trial: its state, and its cold median in nanoseconds where it has one."""

    state: str
    median_ns: float | None = None
    message: str = ""


TIMED_CHECKED = "results of timed executions are compared, outputs overwritten before each, inputs changed between them"
UNFORESEEN = "results on inputs that nobody can foresee count, and what is right for them is found out afterwards"
INSIDE = "work outside the frame is noticed (streams, threads, device stamps)"
BOUND = "what reads clocks is no part of the process that is judged"
APART = "what judges runs in another process than what is judged"
ISOLATED = "limits.isolate gives each variant that runs its own code in the worker a process of its own"
RECORDS = "one execution of an isolated variant is looked at by CUPTI's records, where cupti-python is installed"
PUT_BACK = "stream, context, limits and settings are put back after a variant, whatever it did"
CHECKED = "results, inputs and guard bytes are checked"
ARGUMENTS = "arguments are held against what the compiled kernel takes"

PROVED = "what compares has to find a wrong result wrong, after each variant"
SEALED = "what is read is sealed as soon as it is read"
SCRATCH = "scratch is overwritten before each execution"
LEVELS = {
    **dict.fromkeys((TIMED_CHECKED, CHECKED, ARGUMENTS, SCRATCH), Level.CORRECTNESS),
    INSIDE: Level.ACCIDENTS, PUT_BACK: Level.ACCIDENTS,
}  # fmt: skip
"""Mechanism → the lowest level that has it; all others are the border's."""
ON_PURPOSE = frozenset(
    {"caller_read", "reference_read", "memory_searched", "seed_known", "comparison_foreseen",
     "known_from_third_meeting", "last_kept", "poison_awaited", "process_handed", "finaliser_deferred",
     "signal_deferred", "weakly_deferred", "works_ahead", "limits_left", "alarm_left", "thread_hooks_left",
     "callbacks_left", "reference_uploaded", "seed_guessed", "allocator_spied", "rhythm_noticed",
     "device_memory_searched", "named_like_the_judge", "waiting_removed", "device_kept_busy", "phases_seeded",
     "kept_by_content", "inputs_made_easy", "put_later", "put_later_on_device", "handed_out_in_turn"}
)  # fmt: skip
"""Nobody does these by accident."""
HARMLESS = (TIMED_CHECKED, CHECKED, ARGUMENTS, SCRATCH)

GONE = (WRONG, IMPLAUSIBLE, REFUSED, CRASHED, TIMED_OUT)
"""Endings that give no rank."""
NO_RANK_OR_TRUE = (*GONE, IN_FULL)

TRICKS = (
    # On the CPU: clocks, and what is told of them.
    Trick("clock_replaced", "host clock replaced", BOUND, NO_RANK_OR_TRUE, caught=True),
    Trick("clock_overwritten", "clock's machine code overwritten", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("works_in_clock", "work inside the clock", BOUND, NO_RANK_OR_TRUE, caught=True),
    Trick("summary_replaced", "statistics replaced", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("samples_rewritten", "earlier samples rewritten", SEALED, GONE, caught=True),
    Trick("outcome_forged", "outcome forged on its way", APART, NO_RANK_OR_TRUE, caught=True),
    # On the CPU: results that were not computed.
    Trick("precomputed", "precomputed while preparing", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("kept_by_address", "kept by address", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("kept_by_content", "kept by sampled content", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("kept_by_count", "kept by count", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("first_and_last_there", "first and last already there", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("poison_awaited", "waits for the check", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("caller_read", "reads the call stack", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("reference_read", "reads the reference", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("memory_searched", "searches the process's memory", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("seed_known", "known seed", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("half_precision", "lower precision", CHECKED, (WRONG,), caught=True),
    Trick("tail_skipped", "skipped tail", CHECKED, (WRONG,), caught=True),
    Trick("sparse", "sparse work", CHECKED, (WRONG,), caught=True),
    Trick("one_in_fifty", "wrong in one of fifty", TIMED_CHECKED, (WRONG,), caught=True, samples=250),
    Trick("view_returned", "result returned, not written", CHECKED, (WRONG,), caught=True),
    Trick("input_overwritten", "input overwritten", CHECKED, (WRONG,), caught=True),
    Trick("written_beside", "written beside", CHECKED, (WRONG,), caught=True),
    # On the CPU: work where no clock looks.
    Trick("thread_handed", "handed to a thread", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("process_handed", "handed to a process", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("finaliser_deferred", "finaliser", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("signal_deferred", "signal handler", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("profiler_hooked", "interpreter hook", BOUND, NO_RANK_OR_TRUE, caught=True),
    Trick("exit_deferred", "exit hook", CHECKED, (WRONG,), caught=True),
    # On the CPU: the judge itself, and those beside.
    Trick("check_replaced", "check replaced", APART, GONE, caught=True),
    Trick("verdicts_rewritten", "earlier verdicts rewritten", SEALED, GONE, caught=True),
    Trick("numpy_replaced", "NumPy replaced", APART, GONE, caught=True),
    Trick("tolerance_widened", "tolerance widened", APART, GONE, caught=True),
    Trick("output_replaced", "output's array replaced", APART, GONE, caught=True),
    Trick("neighbours_inputs_spoiled", "neighbours' inputs spoiled", APART, (*GONE, OK), caught=True),
    Trick("neighbours_slowed", "neighbours slowed", ISOLATED, (*GONE, IN_FULL), caught=True),
    Trick("store_written", "database written", APART, NO_RANK_OR_TRUE, caught=True),
    # On the CPU: the judge by other ways.
    Trick("constants_changed", "judge's constants changed", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("builtins_replaced", "built-in functions replaced", APART, GONE, caught=True),
    Trick("methods_shadowed", "judge's methods shadowed", APART, GONE, caught=True),
    Trick("class_exchanged", "judge's class exchanged", APART, GONE, caught=True),
    Trick("comparison_foreseen", "comparison foreseen", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("draws_foreseen", "chance taken away", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("known_from_third_meeting", "kept from the third meeting on", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("traced_opcodes", "caller's frame traced", BOUND, NO_RANK_OR_TRUE, caught=True),
    Trick("weakly_deferred", "weak reference's callback", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("not_a_number", "no number", CHECKED, (WRONG,), caught=True),
    Trick("infinite", "infinity", CHECKED, (WRONG,), caught=True),
    Trick("array_of_its_own", "output exchanged for an array of its own", CHECKED, (WRONG, REFUSED), caught=True),
    Trick("inputs_made_easy", "inputs made easy", CHECKED, (WRONG,), caught=True),
    Trick("ends_the_process", "process ended in good order", APART, GONE, caught=True),
    Trick("others_blamed", "another trial blamed", APART, GONE, caught=True),
    Trick("nobody_blamed", "nobody to be blamed", APART, GONE, caught=True),
    Trick("pipes_filled", "answer written into the pipe", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("pipes_closed", "pipe closed", APART, GONE, caught=True),
    Trick("error_that_errs", "error whose text is one", APART, GONE, caught=True),
    Trick("child_takes_over", "child goes on as the worker", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("spins_beside", "thread that slows those beside", ISOLATED, NO_RANK_OR_TRUE, caught=True),
    Trick("works_ahead", "works while caches are emptied", INSIDE, NO_RANK_OR_TRUE, n=2**20, caught=None),
    Trick("clock_slowed", "clock slowed while it is read", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("put_later", "work where results are delivered", CHECKED, (REFUSED,), caught=True),
    Trick("allocation_hooked", "allocator of copies hooked", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("executor_hollow", "threads of the judge's replaced", APART, NO_RANK_OR_TRUE, caught=True),
    # On the CPU: when nobody looks, and what looks changed where no function shows it.
    Trick("unknown_skipped", "unknown inputs skipped", UNFORESEEN, GONE, caught=True),
    Trick("last_kept", "last result kept", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("handed_out_in_turn", "results handed out in turn", TIMED_CHECKED, (WRONG,), caught=True),
    Trick("kept_in_files", "kept in files for the next process", UNFORESEEN, GONE, caught=True),
    Trick("sets_searched", "inputs searched and solved ahead", ISOLATED, GONE, caught=True),
    Trick("audit_hooked", "audit hook that puts back", BOUND, GONE, caught=True),
    Trick("numbers_overwritten", "numbers in code overwritten", PROVED, GONE, caught=True),
    Trick("loops_exchanged", "NumPy's machine code exchanged", PROVED, GONE, caught=True),
    Trick("reference_rewritten", "reference rewritten in place", UNFORESEEN, GONE, caught=True),
    Trick("tolerance_overwritten", "tolerance overwritten in place", UNFORESEEN, GONE, caught=True),
    Trick("variables_rewritten", "caller's variables rewritten", APART, GONE, caught=True),
    Trick("looks_foreseen", "engine's looks foreseen", APART, GONE, caught=True),
    Trick("counter_used_up", "engine's count used up", APART, GONE, caught=True),
    Trick("library_slowed", "library's function slowed", APART, (*GONE, IN_FULL), caught=True),
    # On the CPU: what stands behind the judge's functions.
    Trick("module_class_exchanged", "class of a module exchanged", APART, GONE, caught=True),
    Trick("bases_exchanged", "bases of a judge's class exchanged", APART, GONE, caught=True),
    Trick("type_changed", "method of a built-in class exchanged", APART, GONE, caught=True),
    Trick("chance_by_class", "chance taken away in its class", APART, GONE, caught=True),
    Trick("compared_late", "judge replaced when nobody asks any more", APART, GONE, caught=True),
    Trick("ending_renamed", "endings renamed", APART, GONE, caught=True),
    Trick("queue_replaced", "queue of the judge's threads replaced", APART, GONE, n=2**20, caught=True),
    Trick("damage_unsaid", "code of a library that judges exchanged", APART, GONE, caught=True),
    # On the CPU: honest work, and the process left changed.
    Trick("limits_left", "limits left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("alarm_left", "alarm left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("warnings_left", "warnings and collection left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("denormals_left", "denormals left flushed", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("numpy_errors_left", "library switches left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("environment_left", "environment and folder left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("random_state_left", "random state left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("rounding_left", "rounding mode left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("thread_hooks_left", "threads' hooks left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("callbacks_left", "collection's callbacks left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("processors_left", "processors left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    # In OpenCL.
    Trick("ends_there_cl", "first and last already there", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("poison_awaited_cl", "waits for the check", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("noted_in_scratch_cl", "note left in scratch", SCRATCH, NO_RANK_OR_TRUE, caught=True),
    Trick("tail_skipped_cl", "skipped tail", CHECKED, (WRONG,), caught=True),
    Trick("one_in_fifty_cl", "wrong in one of fifty", TIMED_CHECKED, (WRONG,), caught=True, samples=250),
    Trick("input_overwritten_cl", "input overwritten", CHECKED, (WRONG,), caught=True),
    Trick("written_beside_cl", "written beside", CHECKED, (WRONG,), caught=True),
    # In CUDA C++, where only the kernel and its arguments can cheat.
    Trick("ends_there_cuda", "first and last already there", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("poison_awaited_cuda", "waits for the check", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("noted_in_scratch_cuda", "note left in scratch", SCRATCH, NO_RANK_OR_TRUE, caught=True),
    Trick("kept_in_module", "kept in the module's own memory", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("lower_precision_cuda", "lower precision", CHECKED, (WRONG,), caught=True),
    Trick("tail_skipped_cuda", "skipped tail", CHECKED, (WRONG,), caught=True),
    Trick("sparse_cuda", "sparse work", CHECKED, (WRONG,), caught=True),
    Trick("one_in_fifty_cuda", "wrong in one of fifty", TIMED_CHECKED, (WRONG,), samples=250, caught=True),
    Trick("input_overwritten_cuda", "input overwritten", CHECKED, (WRONG,), caught=True),
    Trick("written_beside_cuda", "written beside", CHECKED, (WRONG,), caught=True),
    Trick("int_for_size_t", "argument too narrow", ARGUMENTS, (REFUSED,), caught=True),
    Trick("float_for_double", "argument of another width", ARGUMENTS, (REFUSED,), caught=True),
    Trick("one_argument_too_many", "too many arguments", ARGUMENTS, (REFUSED,), caught=True),
    Trick("one_argument_too_few", "too few arguments", ARGUMENTS, (REFUSED,), caught=True),
    # On the GPU from Python: what times it.
    Trick("event_times_replaced", "event times replaced", BOUND, NO_RANK_OR_TRUE, caught=True),
    Trick("event_records_replaced", "event records replaced", BOUND, NO_RANK_OR_TRUE, caught=True),
    Trick("event_times_overwritten", "driver's machine code overwritten", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("correction_raised", "timer's correction raised", BOUND, NO_RANK_OR_TRUE, caught=True),
    Trick("correction_nudged", "timer's correction nudged", APART, GONE, caught=True),
    Trick("samples_rewritten_cuda", "earlier samples rewritten", SEALED, GONE, caught=True),
    Trick("flush_removed", "flush removed", BOUND, NO_RANK_OR_TRUE, n=2**20, caught=True),
    Trick("gate_opened", "gate opened early", BOUND, NO_RANK_OR_TRUE, n=2**20, caught=True),
    Trick("phases_seeded", "random state left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    # On the GPU from Python: where the frame is not.
    Trick("own_stream", "own stream", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("own_stream_joined_for_checks", "own stream, joined for checks", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("joined_too_early", "joined too early", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("per_thread_default_stream", "per-thread default stream", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("stream_left_current", "current stream left changed", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("capture_left_open", "capture left open", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("graph_not_launched", "graph captured, not launched", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("graph_launched_elsewhere", "graph launched elsewhere", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("device_thread_handed", "handed to a thread", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("resident_kernel", "resident kernel", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("host_works", "host-side work", "the host's own clock is a bound", NO_RANK_OR_TRUE, caught=True),
    Trick("finaliser_launches", "finaliser", INSIDE, NO_RANK_OR_TRUE, caught=True),
    # On the GPU from Python: results that were not computed.
    Trick("result_moved", "record of the result moved", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("copied_from_neighbour", "neighbour's result kept", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("precomputed_on_device", "precomputed while preparing", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("kept_by_pointer", "kept by address", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("kept_by_samples", "kept by sampled content", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("kept_by_call", "kept by count", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("kept_in_free_list", "kept in the allocator's free list", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("caller_asked", "reads the call stack", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("reference_uploaded", "reads the reference", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("seed_guessed", "known seed", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("allocator_spied", "allocator replaced", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("one_in_fifty_on_device", "skipped in one of fifty", TIMED_CHECKED, (WRONG,), samples=250, caught=True),
    # On the GPU from Python: honest work, and the device left changed.
    Trick("l2_persisting_left", "lines left persisting in L2", PUT_BACK, NO_RANK_OR_TRUE, n=2**20, caught=True),
    Trick("l2_window_prepared", "window prepared in L2", PUT_BACK, NO_RANK_OR_TRUE, n=2**20, caught=True),
    Trick("stack_limit_left", "device limits left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("cache_config_left", "cache configuration left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("context_left", "current context left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("switches_left", "library switches left", PUT_BACK, NO_RANK_OR_TRUE, caught=True),
    Trick("memory_hoarded", "device memory hoarded", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("device_kept_busy", "neighbours' device kept busy", INSIDE, NO_RANK_OR_TRUE, caught=True),
    # On the GPU from Python: of other kinds.
    Trick("caches_kept_warm", "caches kept warm from beside", RECORDS, NO_RANK_OR_TRUE, n=2**20, caught=True),
    Trick("graph_of_copies", "graph of copies", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("rhythm_noticed", "timed by its rhythm", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("context_ended", "context ended", APART, NO_RANK_OR_TRUE, caught=True),
    Trick("device_memory_searched", "device memory searched", TIMED_CHECKED, NO_RANK_OR_TRUE, caught=True),
    Trick("queue_flooded", "device flooded from beside", ISOLATED, NO_RANK_OR_TRUE, caught=True),
    Trick("torch_clock_replaced", "libraries' clocks replaced", BOUND, NO_RANK_OR_TRUE, caught=True),
    Trick("not_a_number_on_device", "no number", CHECKED, (WRONG,), caught=True),
    Trick("named_like_the_judge", "kernel named like the judge's", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("put_later_on_device", "work where results are delivered", CHECKED, (REFUSED,), caught=True),
    Trick("waiting_removed", "waiting removed", INSIDE, NO_RANK_OR_TRUE, caught=True),
    Trick("download_replaced", "download replaced", APART, GONE, caught=True),
)
"""Set `caught` of a trick once the judge catches it; a test compares the two."""

HONEST = {
    "cpu": (
        "numpy", "threads_joined", "thread_each_time", "compiled_at_first_call", "plan_kept", "workspace_prepared",
        "old_output_read", "settings_put_back", "tuned_at_first_call", "state_probe",
    ),
    "opencl": ("plain_cl", "old_output_read_cl", "two_launches_cl"),
    "cuda": (
        "polynomial", "twice", "old_output_read_cuda", "two_launches", "result_in_scratch", "cupy_elementwise",
        "default_stream", "streams_joined", "graph_replayed", "torch_current_stream", "torch_default_stream",
        "triton_default_stream", "triton_current_stream", "launched_in_pieces", "copied_then_added",
        "workspace_in_prepare", "compiled_at_first_launch", "tuned_at_first_launch", "descriptor_kept", "handle_kept",
        "allocator_put_back", "host_callback", "own_blocking_stream", "prefetched_beside", "slow_to_launch",
        "waits_itself", "stack_raised", "device_probe",
    ),
}  # fmt: skip
"""Variants that are timed in full and accused of nothing, by back end."""


def load_records(*backends: str) -> dict[str, list[Trick]]:
    """Return the tricks of these back ends, by back end."""
    from cuprof.families.origin import load_family

    variants = load_family(FAMILY).variants
    return {name: [each for each in TRICKS if variants[each.variant].backend == name] for name in backends}
