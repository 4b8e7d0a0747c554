"""Whether a store has kept its promises when a process that wrote to it was killed."""

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from .model import Retired, Said, Sheet, Step, World
from .outcome import Problems
from .player import Player, from_lists, message_of
from .seen import Seen, SeenArchive, SeenSession, look
from .successor import goes_on
from .workload import CLOSED, Operation, plan

__all__ = ["judge", "replayed", "settled", "take"]


def replayed(
    world: World, operations: Mapping[int, Operation], told: Sequence[Mapping[str, Any]], problems: Problems
) -> tuple[Step | None, list[str]]:
    """Let the model do what was told; return the step that was under way, and the story."""
    step: Step | None = None
    story: list[str] = []
    for word in told:
        if word["what"] == "begin":
            step = plan(world, operations[word["operation"]], word["operation"])
            story.append(f"{word['operation']} {step}")
        elif word["what"] == "done" and step is not None:
            take(world, step, word, problems)
            story[-1] += f", done by {word['points']} calls"
            step = None
    return step, story


def take(world: World, step: Step, facts: Mapping[str, Any], problems: Problems) -> None:
    """Let the model do a step that the store has done, and look at what the store alone decided."""
    made = from_lists(facts["made"]) if "made" in facts else None
    if made is not None:
        wrong = goes_on(world.live[step.key], made, rotated=step.kind == "rotate", end=step.at)
        problems.wrong += [f"the {step.kind} of {step.key!r}: {problem}" for problem in wrong]
    world.take(step, made)
    world.file = facts.get("file", world.file)


def settled(folder: Path, world: World, step: Step | None, problems: Problems) -> World:
    """
    Return what a folder holds whose writer is gone, and find which promises are broken; nothing is written.

    Args:
        folder: The store's.
        world: What it must hold.
        step: What was under way, of which it may hold all or nothing.
        problems: Takes them.
    """
    seen = look(folder)
    found = [(_differences(outcome, seen), outcome) for outcome in _outcomes(world, step, seen)]
    difference, now = min(found, key=lambda pair: len(pair[0].all()))
    problems.add(difference)
    now.is_moved |= step is not None and step.kind in {"archive", "restore"}
    return now


def judge(folder: Path, world: World, step: Step | None, problems: Problems) -> World:
    """Do as :func:`settled`, and write to the sessions: each of them, and what was not done."""
    now = settled(folder, world, step, problems)
    was_done = now.steps > world.steps
    if not problems.all():
        _write_next(folder, now, problems)
    if not problems.all():
        again = look(folder)
        problems.add(_differences(now, again))
        problems.add(_lines(now, again))
    if not problems.all() and step is not None and not was_done:
        _do_again(folder, now, step, problems)
    if not problems.all() and not now.is_moved:
        _lose_index(folder, now, problems)
    return now


def _outcomes(world: World, step: Step | None, seen: Seen) -> list[World]:
    """Return what there may be: the world as it was told, and that with the step done."""
    outcomes = [copy.deepcopy(world)]
    if step is not None:
        after = copy.deepcopy(world)
        made = _made(world, step, seen)
        if made is not None or step.kind not in {"fork", "rotate"}:
            after.take(step, made)
            outcomes.append(after)
            # A rotation may leave nothing out; then the file alone tells whether it was done.
            del outcomes[: step.kind == "rotate"]
    for outcome in outcomes:
        outcome.fall()
    return outcomes


def _made(world: World, step: Step, seen: Seen) -> Sheet | None:
    """Return the transcript that a rotation or a fork has made, where there is one and it is as it should be."""
    session = seen.live.get(step.key if step.kind == "rotate" else step.new_key)
    if session is None or step.kind not in {"fork", "rotate"}:
        return None
    if step.kind == "rotate" and session.path.name == world.file:
        return None
    made = session.file().sheet
    return None if goes_on(world.live[step.key], made, rotated=step.kind == "rotate", end=step.at) else made


def _differences(world: World, seen: Seen) -> Problems:
    """Return what a store shows otherwise than it should."""
    problems = Problems(wrong=list(seen.problems))
    for key, sheet in world.live.items():
        session = seen.live.get(key)
        if session is not None:
            _compare(key, sheet, session, problems)
        elif sheet.lines:
            problems.lost.append(f"session {key!r} with {len(sheet.lines)} lines")
    for key in seen.live.keys() - world.live.keys():
        if seen.live[key].lines:
            problems.duplicated.append(f"session {key!r}, which should not be there")
    _compare_aside(world, seen, problems)
    return problems


def _compare(key: str, sheet: Sheet, session: SeenSession, problems: Problems) -> None:
    # All lines first: a label or a branch that was left is on record too.
    parts = ("lines", sheet.lines, session.lines), ("record", sheet.record(), session.record)
    for part, lines, shown in (*parts, ("context", sheet.context(), session.context)):
        wanted = [line.token for line in lines]
        had, has = Counter(wanted), Counter(shown)
        problems.lost += [f"{token!r} of the {part} of {key!r}" for token in had - has]
        problems.duplicated += [f"{token!r} of the {part} of {key!r}" for token in has - had]
        if had == has and wanted != shown:
            problems.wrong.append(f"the order of the {part} of {key!r}: {shown} for {wanted}")
    problems.wrong += [f"{token!r} of {key!r} says something else" for token in session.altered]
    counts = (len(sheet.record()), sheet.compactions())
    if (session.messages, session.compactions) != counts:
        problems.wrong.append(f"the list says {session.messages}, {session.compactions} of {key!r} for {counts}")
    if sheet.tokens is not None and session.tokens not in {sheet.tokens, sheet.perhaps}:
        problems.wrong.append(f"the list says {session.tokens} tokens of {key!r} for {sheet.tokens}")
    if sheet.note is not None and session.note != sheet.note:
        problems.lost.append(f"the note of {key!r}: {session.note!r} for {sheet.note!r}")


def _compare_aside(world: World, seen: Seen, problems: Problems) -> None:
    """Compare archives, and the transcripts that rotations left: these are somewhere, once."""
    archives = list(seen.archived)
    for archived in world.archived:
        wanted = (archived.key, archived.reason, archived.sheet.lines)
        same = [archive for archive in archives if (archive.key, archive.reason, archive.lines) == wanted]
        if same:
            archives.remove(same[0])
        else:
            problems.lost.append(f"the archive of {archived.key!r} with {len(archived.sheet.lines)} lines")
    strays = list(seen.strays)
    for retired in world.retired:
        _find_retired(retired, strays, archives, problems)
    problems.duplicated += [f"archive {archive.name!r}, which should not be there" for archive in archives]


def _find_retired(retired: Retired, strays: list[list[Said]], archives: list[SeenArchive], problems: Problems) -> None:
    lines = retired.sheet.lines
    same = next((archive for archive in archives if archive.lines == lines), None)
    if same is not None:
        archives.remove(same)
    elif lines in strays:
        strays.remove(lines)
    else:
        problems.lost.append(f"what {retired.key!r} was before it was rotated, {len(lines)} lines")


def _write_next(folder: Path, world: World, problems: Problems) -> None:
    """Open each session for writing, look at it, and append to it."""
    player = Player(folder, world)
    for key, sheet in world.live.items():
        line = Said("message", f"next:{key}", "user", 40)
        try:
            player.perform(Step(kind="open", key=key))
            assert player.transcript is not None
            shown = [str(message.entry_id) for message in player.transcript.record()]
            if len(shown) != len(sheet.record()):
                problems.wrong.append(f"{key!r} opens with {len(shown)} messages for {len(sheet.record())}")
            player.transcript.append(message_of(line))
        except Exception as error:  # noqa: BLE001 -- whatever it is, the next append was refused
            problems.refused.append(f"the next append to {key!r}: {error!r}")
        player.close()
        sheet.add(line)


def _lines(world: World, seen: Seen) -> Problems:
    """Compare the lines of the files, where nothing torn is left."""
    problems = Problems()
    for key, sheet in world.live.items():
        if key not in seen.live and not sheet.lines:
            continue  # begun, and nothing said yet: that is no session
        found = seen.live[key].file(as_is=True)
        problems.wrong += [f"{found.path.name}: {problem}" for problem in found.problems]
        if found.header is None:
            problems.wrong.append(f"{found.path.name}: no header")
        lines = found.sheet.lines
        if lines == sheet.lines:
            continue
        had, has = Counter(sheet.lines), Counter(lines)
        problems.lost += [f"line {line} of {key!r}" for line in had - has]
        problems.duplicated += [f"line {line} of {key!r}" for line in has - had]
        if had == has:
            problems.wrong.append(f"the order of the lines of {key!r}")
    return problems


def _do_again(folder: Path, world: World, step: Step, problems: Problems) -> None:
    """Do what was not done, as the next process would."""
    player = Player(folder, world)
    try:
        if step.kind not in CLOSED:
            player.perform(Step(kind="open", key=step.key))
            world.take(Step(kind="open", key=step.key))
            if not _is_possible(world.sheet, step):
                player.close()
                return
        # The leaf has moved on; the fork is of what it was.
        step = attrs.evolve(step, word="at") if step.kind == "fork" else step
        take(world, step, player.perform(step), problems)
        player.close()
    except Exception as error:  # noqa: BLE001 -- whatever it is, the operation was refused
        problems.refused.append(f"{step.kind} of {step.key!r} when tried again: {error!r}")
        return
    world.close()
    again = look(folder)
    problems.add(_differences(world, again))
    problems.add(_lines(world, again))


def _is_possible(sheet: Sheet, step: Step) -> bool:
    """Return whether the step can be done at the leaf that a reopening goes on from."""
    if step.kind == "rotate":
        return bool(sheet.compactions())
    return set(step.replaced) <= set(sheet.path())


def _lose_index(folder: Path, world: World, problems: Problems) -> None:
    """Look again where nothing but the transcripts is left: what they say must be enough."""
    (folder / "sessions.json").unlink(missing_ok=True)
    for sheet in world.live.values():
        sheet.tokens = None  # said nowhere else
    seen = look(folder)
    found = _differences(world, seen)
    found.add(_lines(world, seen) if not found.all() else Problems())
    problems.wrong += [f"without its index: {problem}" for problem in found.all()]
