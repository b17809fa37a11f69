"""Take up a planned sweep: reuse its stored trials, and check a few of their times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from cuprof.core.records import State, StoredTrial, Trial
from cuprof.core.text import count, list_first
from cuprof.engine.planning import Prepared
from cuprof.engine.recorder import Recorder
from cuprof.results.sessions import compare_sessions
from cuprof.store import Store


def take_up(recorder: Recorder) -> tuple[list[Trial], set[str]]:
    """Enlist the planned trials, and report those that need no work.

    Returns:
        The trials left to run, and the identities of those that are timed again to see whether stored times hold.
    """
    prepared, store, sweep_id = recorder.prepared, recorder.store, recorder.sweep_id
    trials, known = prepared.plan.trials, prepared.stored(store)
    settled = [trial for trial in trials if prepared.is_settled(trial, known.get(trial.identity), sweep_id)]
    skipped = [  # for the reason that is stored
        trial
        for trial in trials
        if trial.unavailable
        and (stored := known.get(trial.identity))
        and (stored.state, stored.message) == (State.SKIPPED, str(trial.unavailable))
    ]
    done = {trial.identity for trial in settled}
    new = [trial for trial in trials if not trial.unavailable and trial.identity not in done]
    references = prepared.find_references(known, new, sweep_id) if settled else []
    again = {trial.identity for trial in references}
    settled = [trial for trial in settled if trial.identity not in again]
    reused = {trial.identity: known[trial.identity] for trial in (*settled, *skipped)}
    due = [trial for trial in trials if trial.identity not in reused and not trial.unavailable]
    recorder.enlist(trials, reused)
    recorder.observer.started(len(trials), {trial.identity for trial in settled})
    for text in _describe_again(prepared, references, due, known):
        recorder.observer.note(text)
    recorder.take_stored(settled, known)
    recorder.take_over()
    unavailable = [trial for trial in trials if trial.unavailable and trial.identity not in recorder.concluded]
    recorder.skip(unavailable, reused)
    return [trial for trial in due if trial.identity not in recorder.concluded], again


def _describe_again(
    prepared: Prepared, references: Sequence[Trial], due: Sequence[Trial], known: Mapping[str, StoredTrial]
) -> Iterator[str]:
    """Yield a line on each reason why stored trials are timed again."""
    if references:
        yield (
            f"{_timed_again(len(references))}, to see whether stored times still hold: "
            f"{list_first([trial.label for trial in references], 3)}"
        )
    if prepared.config.retry == "noisy":
        noisy = sum(prepared.is_noisy(known[trial.identity]) for trial in due if trial.identity in known)
        yield _timed_again(noisy, f" wider than ±{100 * prepared.widest:.3g} %")


def _timed_again(number: int, which: str = "") -> str:
    """Return "1 stored trial is timed again", "2 stored trials are timed again"."""
    return f"{count(number, 'stored trial')}{which} {'is' if number == 1 else 'are'} timed again"


def report_sessions(store: Store, sweep_id: int, note: Callable[[str], object]) -> None:
    """Say whether the stored times that a sweep takes over still hold."""
    with store.snapshot() as connection:
        found = compare_sessions(connection, sweep_id)
    for each in found:
        tried = f"{count(each.controls, 'trial')} timed again {'differ' if each.controls > 1 else 'differs'} {each}"
        if each.agrees:
            note(f"times of sweep {each.sweep_id} still hold: {tried}")
        else:
            note(
                f"times of sweep {each.sweep_id} do not hold today: {tried}; they are marked, and get no speed-up "
                "against today's (retry=all measures everything together)"
            )
