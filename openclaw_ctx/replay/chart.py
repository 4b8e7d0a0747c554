"""
The pictures of a replay, as SVG elements.

Built as element trees rather than from text, so that nothing foreign is ever
unescaped. Colours are classes; the page's style sheet says what they are.
"""

import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import fmean
from xml.etree.ElementTree import Element, SubElement

import attrs

from openclaw_ctx.log import clean_text

from .compactions import told
from .figures import count
from .measures import Call, Replay, Run, label

__all__ = ["NARROW", "WIDE", "Frame", "colours", "is_dense", "record_chart", "thin", "window_chart"]

_HUES = 6
_TONES = 4
_LABEL = 22  # characters of a run's name at the end of its line
_LINE = 15  # between two such names
_MARK_GAP = 11  # between two marks of one run
_BAND = 5  # the narrowest hover band
_DENSE = 1.6  # calls per pixel from which lines are a blur
_MEAN_OF = 8  # pixels that one point of a dense run's mean line stands for
_TOLD = 4  # compactions that one mark tells of one by one
_FEW_CALLS = 60  # up to here every call gets its dot
_FAR = 3  # a budget this much above every prompt does not stretch the scale


@attrs.frozen(kw_only=True)
class Frame:
    """Where a chart's plot lies, in SVG units; ``named`` leaves room for the runs' names at the right."""

    name: str
    width: int
    height: int
    left: int
    right: int
    top: int = 22
    bottom: int = 46
    named: bool = False

    @property
    def plot_width(self) -> int:
        """Units from the first call to the last."""
        return self.width - self.left - self.right

    @property
    def plot_height(self) -> int:
        """Units from no tokens to the most."""
        return self.height - self.top - self.bottom


WIDE = Frame(name="wide", width=1120, height=440, left=70, right=168, named=True)
NARROW = Frame(name="narrow", width=360, height=300, left=54, right=8)


@attrs.frozen(kw_only=True)
class _Scale:
    """From calls and tokens to places in the frame."""

    frame: Frame
    calls: int
    most: float

    def x(self, index: float) -> float:
        return self.frame.left + self.frame.plot_width * index / max(self.calls, 1)

    def middle(self, call: Call) -> float:
        return self.x(call.call - 0.5)

    def y(self, tokens: float) -> float:
        return self.frame.top + self.frame.plot_height * (1 - tokens / self.most)


def thin(values: Sequence[float], width: int) -> list[int]:
    """
    Return which of *values* a line over *width* pixels needs, in order.

    Each pixel keeps its lowest and its highest value, so no peak is lost; the
    first and the last value stay. At most ``2 * width + 2`` are returned.
    """
    size = len(values)
    if size <= 2 * width:
        return list(range(size))
    kept = {0, size - 1}
    for pixel in range(width):
        bucket = range(pixel * size // width, (pixel + 1) * size // width)
        kept.add(min(bucket, key=values.__getitem__))
        kept.add(max(bucket, key=values.__getitem__))
    return sorted(kept)


def is_dense(run: Run, frame: Frame) -> bool:
    """Return whether calls stand so close that lines blur, and that a mean line is drawn through them."""
    return len(run.calls) > _DENSE * frame.plot_width


def colours(runs: Sequence[Run]) -> list[str]:
    """
    Return the colour classes of each run, the same ones in every picture.

    A hue per engine and a tone per budget, the tightest budget the strongest;
    where all runs are of one engine, a hue each.
    """
    engines = list(dict.fromkeys(run.engine for run in runs))
    if len(engines) == 1:
        return [f"h{index % _HUES} t0" for index in range(len(runs))]
    budgets = sorted({run.budget for run in runs}, key=lambda budget: math.inf if budget is None else budget)
    return [f"h{engines.index(run.engine) % _HUES} t{budgets.index(run.budget) % _TONES}" for run in runs]


def window_chart(replay: Replay, frame: Frame) -> Element:
    """Draw the prompt's tokens over the calls: a line per run, budgets dashed, compactions and overruns marked."""
    runs = [run for run in replay.runs if run.calls]
    scale = _Scale(frame=frame, calls=max(run.calls[-1].call for run in runs), most=_most(runs))
    classes = dict(zip(map(id, replay.runs), colours(replay.runs), strict=True))
    longest = max(runs, key=lambda run: len(run.calls))

    svg = _svg(frame, "The window over the turns", _describe(runs))
    _grid(svg, scale)
    _turns(svg, scale, longest.calls)
    _budgets(svg, scale, runs)
    for run in reversed(runs):  # the first run lies on top
        _line(svg, scale, run, classes[id(run)])
    if frame.named:
        _bands(svg, scale, runs, longest.calls)
    for run in reversed(runs):
        _marks(svg, scale, run, classes[id(run)])
    _budget_names(svg, scale, runs)
    if frame.named:
        _names(svg, scale, runs, classes)
    return svg


def record_chart(run: Run) -> Element:
    """
    Draw the record over the calls, oldest messages at the bottom: summarised, left out, kept.

    Without text and without proportions of its own, so that it stretches to
    any width; who places it writes the scale beside it.
    """
    width, height = 600, 140
    size, most = run.calls[-1].call, max(call.messages for call in run.calls) or 1
    sampled = [run.calls[index] for index in thin([call.kept for call in run.calls], width)]
    svg = Element("svg", {"viewBox": f"0 0 {width} {height}", "preserveAspectRatio": "none", "role": "img"})
    last = run.calls[-1]
    SubElement(svg, "title").text = f"The record through {label(run)}"
    SubElement(svg, "desc").text = (
        f"After the last call {count(last.kept)} messages are kept, {count(last.left_out)} left out "
        f"and {count(last.summarised)} summarised."
    )
    edges: list[list[tuple[float, float]]] = [[], [], [], []]
    for index, call in enumerate(sampled):
        start = width * (call.call - 1) / size
        end = width * (sampled[index + 1].call - 1) / size if index + 1 < len(sampled) else width
        heights = (0, call.summarised, call.summarised + call.left_out, call.messages)
        for edge, messages in zip(edges, heights, strict=True):
            y = height * (1 - messages / most)
            edge += [(start, y), (end, y)]
    for name, low, high in zip(("summarised", "left-out", "kept"), edges, edges[1:], strict=False):
        if any(a != b for a, b in zip(low, high, strict=True)):
            path = SubElement(svg, "path", {"class": name, "d": f"M{_points(high)}L{_points(low[::-1])}Z"})
            SubElement(path, "title").text = f"messages {name.replace('-', ' ')}"
    return svg


def _svg(frame: Frame, title: str, description: str) -> Element:
    svg = Element(
        "svg", {"class": f"window {frame.name}", "viewBox": f"0 0 {frame.width} {frame.height}", "role": "img"}
    )
    SubElement(svg, "title").text = title
    SubElement(svg, "desc").text = description
    return svg


def _describe(runs: Sequence[Run]) -> str:
    return "Prompt tokens of every model call. " + " ".join(run.verdict for run in runs)


def _most(runs: Sequence[Run]) -> float:
    peak = max(run.peak_tokens for run in runs)
    near = [run.budget for run in runs if run.budget is not None and run.budget <= peak * _FAR]
    return max(peak, *near, 1) * 1.06


def _steps(most: float) -> float:
    """Return a round distance that divides *most* into about five."""
    power = 10.0 ** math.floor(math.log10(max(most / 5, 1)))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= most / 5.5)


def _grid(svg: Element, scale: _Scale) -> None:
    frame, group = scale.frame, SubElement(svg, "g", {"class": "grid"})
    step = _steps(scale.most)
    for index in range(int(scale.most / step) + 1):
        y = scale.y(index * step)
        _rule(group, frame.left, y, frame.width - frame.right, y, "axis" if index == 0 else "")
        _text(group, frame.left - 9, y + 4, count(index * step), "end")
    _text(group, frame.left - 9 if frame.named else 2, 12, "tokens", "end" if frame.named else "")


def _turns(svg: Element, scale: _Scale, calls: Sequence[Call]) -> None:
    frame, group = scale.frame, SubElement(svg, "g", {"class": "turns"})
    starts = [(turn, scale.x(next(of).call - 1)) for turn, of in groupby(calls, key=lambda call: call.turn)]
    labelled = _labelled(starts, 26.0 if frame.named else 34.0)
    foot, ruled = frame.height - frame.bottom, -math.inf
    for turn, x in starts:
        if turn in labelled:
            _text(group, x, foot + 18, count(turn), "middle")
            _rule(group, x, frame.top, x, foot + 5, "labelled")
            ruled = x
        elif x - ruled >= _BAND + 1:
            _rule(group, x, frame.top, x, foot, "")
            ruled = x
    _text(group, frame.left + frame.plot_width / 2, foot + 38, "turn, as wide as its model calls are many", "middle")


def _labelled(starts: Sequence[tuple[int, float]], room: float) -> set[int]:
    """
    Return the turns that get a label: every so-many-th, so that whoever reads them can count on.

    The step is the smallest round one whose labels stand *room* apart everywhere.
    The first turn has one too, unless the next is too close.
    """
    steps = (digit * 10**power for power in range(len(str(starts[-1][0])) + 1) for digit in (1, 2, 5))
    places: list[tuple[int, float]] = []
    for step in steps:
        places = [(turn, x) for turn, x in starts if turn % step == 0]
        if all(right - left >= room for (_, left), (_, right) in pairwise(places)):
            break
    first = starts[0]
    return {turn for turn, _ in places} | ({first[0]} if not places or places[0][1] - first[1] >= room else set())


def _budgets(svg: Element, scale: _Scale, runs: Sequence[Run]) -> None:
    frame, group = scale.frame, SubElement(svg, "g", {"class": "budgets"})
    for budget in _budgets_of(runs):
        if budget <= scale.most:
            _rule(group, frame.left, scale.y(budget), frame.width - frame.right, scale.y(budget), "budget")


def _budget_names(svg: Element, scale: _Scale, runs: Sequence[Run]) -> None:
    frame, group = scale.frame, SubElement(svg, "g", {"class": "budgets"})
    above, free = [], math.inf
    for budget in _budgets_of(runs):
        if budget > scale.most:
            above.append(count(budget))
        elif free - scale.y(budget) >= _LINE - 2:
            free = scale.y(budget)
            _text(group, frame.left + 6, free - 5, f"budget {count(budget)}", "")
    if above:
        _text(group, frame.width - frame.right, 12, f"budget {', '.join(above)} ↑ above the chart", "end")


def _budgets_of(runs: Sequence[Run]) -> list[int]:
    return sorted({run.budget for run in runs if run.budget is not None})


def _line(svg: Element, scale: _Scale, run: Run, classes: str) -> None:
    points = [(scale.middle(call), scale.y(call.prompt_tokens)) for call in run.calls]
    group = SubElement(svg, "g", {"class": f"run {classes}"})
    dense = is_dense(run, scale.frame)
    drawn = [points[index] for index in thin([call.prompt_tokens for call in run.calls], scale.frame.plot_width)]
    if len(points) > 1:
        SubElement(group, "path", {"class": "line dense" if dense else "line", "d": f"M{_points(drawn)}"})
    if dense:
        size = math.ceil(len(points) * _MEAN_OF / scale.frame.plot_width)
        bunches = [points[start : start + size] for start in range(0, len(points), size)]
        means = [(fmean(x for x, _ in bunch), fmean(y for _, y in bunch)) for bunch in bunches]
        SubElement(group, "path", {"class": "line", "d": f"M{_points(means)}"})
    if scale.calls <= _FEW_CALLS:
        for x, y in points:
            _circle(group, x, y, 2.5 if len(points) > 1 else 4, "dot")


def _bands(svg: Element, scale: _Scale, runs: Sequence[Run], calls: Sequence[Call]) -> None:
    """Lay an invisible band over each turn that says its numbers when pointed at."""
    frame, group = scale.frame, SubElement(svg, "g", {"class": "bands"})
    first = 0
    for index, call in enumerate(calls):
        closing = index + 1 == len(calls) or calls[index + 1].turn != call.turn
        left, right = scale.x(calls[first].call - 1), scale.x(call.call)
        if not closing or (right - left < _BAND and index + 1 < len(calls)):
            continue
        band = SubElement(
            group,
            "rect",
            {"x": _n(left), "y": str(frame.top), "width": _n(right - left), "height": str(frame.plot_height)},
        )
        SubElement(band, "title").text = _band_title(runs, calls[first], call)
        first = index + 1


def _band_title(runs: Sequence[Run], first: Call, last: Call) -> str:
    lines = [f"{_span('turn', first.turn, last.turn)}, {_span('call', first.call, last.call)}"]
    for run in runs:
        tokens = [call.prompt_tokens for call in run.calls[first.call - 1 : last.call]]
        if tokens:
            low, high = count(min(tokens)), count(max(tokens))
            lines.append(f"{label(run)}: {low if low == high else f'{low} to {high}'} tokens")
    return "\n".join(lines)


def _span(noun: str, first: int, last: int) -> str:
    return f"{noun} {count(first)}" if first == last else f"{noun}s {count(first)} to {count(last)}"


def _marks(svg: Element, scale: _Scale, run: Run, classes: str) -> None:
    group = SubElement(svg, "g", {"class": f"run {classes}"})
    for calls in _bunches(scale, [call for call in run.calls if call.over_budget]):
        worst = max(calls, key=lambda call: call.prompt_tokens)
        mark = _circle(group, scale.middle(worst), scale.y(worst.prompt_tokens), 4, "over")
        more = "" if len(calls) == 1 else f"; {count(len(calls))} calls over it hereabouts"
        SubElement(
            mark, "title"
        ).text = f"{_place(worst)}, {label(run)}: {count(worst.prompt_tokens)} tokens, over the budget{more}"
    for calls in _bunches(scale, [call for call in run.calls if call.compactions]):
        done, call = sum(call.compactions for call in calls), calls[0]
        x, y = scale.middle(call), scale.y(call.prompt_tokens)
        r = 4.5 if scale.frame.named and not is_dense(run, scale.frame) else 3
        points = [(x, y - r), (x + r, y), (x, y + r), (x - r, y)]
        mark = SubElement(group, "path", {"class": "compaction", "d": f"M{_points(points)}Z"})
        SubElement(mark, "title").text = (
            f"{_place(call)}, {label(run)}: {count(done)} compaction{'' if done == 1 else 's'}, "
            f"then a prompt of {count(call.prompt_tokens)} tokens{_made(run, calls)}"
        )


def _made(run: Run, calls: Sequence[Call]) -> str:
    """Return what is known of the compactions of *calls*, a line each; many are counted only."""
    numbers = {call.call for call in calls}
    made = [one for one in run.compacted if one.compacted and one.call in numbers]
    if len(made) > _TOLD:
        return ""
    return "".join(f"\n{told(one)}" for one in made)


def _place(call: Call) -> str:
    return f"turn {count(call.turn)}, call {count(call.call)}"


def _bunches(scale: _Scale, calls: Sequence[Call]) -> list[list[Call]]:
    """Return *calls* in groups whose marks would not overlap."""
    bunches: list[list[Call]] = []
    for call in calls:
        if bunches and scale.middle(call) - scale.middle(bunches[-1][0]) < _MARK_GAP:
            bunches[-1].append(call)
        else:
            bunches.append([call])
    return bunches


def _names(svg: Element, scale: _Scale, runs: Sequence[Run], classes: dict[int, str]) -> None:
    frame = scale.frame
    ends = sorted(((scale.y(run.calls[-1].prompt_tokens), run) for run in runs), key=lambda end: end[0])
    places = _spread([y for y, _ in ends], frame.top, frame.height - frame.bottom)
    edge = frame.width - frame.right
    for (y, run), place in zip(ends, places, strict=True):
        group = SubElement(svg, "g", {"class": f"run {classes[id(run)]}"})
        start = scale.middle(run.calls[-1])
        leader = [(start, y), (edge + 4, y), (edge + 14, place), (edge + 18, place)]
        SubElement(group, "path", {"class": "leader", "d": f"M{_points(leader)}"})
        name = clean_text(run.engine)
        budget = "" if run.budget is None else f" {count(run.budget)}"
        room = _LABEL - len(budget)
        _text(group, edge + 23, place + 4, (name if len(name) <= room else f"{name[: room - 1]}…") + budget, "")


def _spread(places: Sequence[float], top: float, bottom: float) -> list[float]:
    """Return *places*, which ascend, moved apart so that names do not overlap."""
    gap = min(_LINE, (bottom - top) / max(len(places) - 1, 1))
    spread: list[float] = []
    for place in places:
        spread.append(max(place, spread[-1] + gap if spread else top))
    limit = bottom
    for index in reversed(range(len(spread))):
        spread[index] = min(spread[index], limit)
        limit = spread[index] - gap
    return spread


def _rule(parent: Element, x1: float, y1: float, x2: float, y2: float, name: str) -> None:
    line = SubElement(parent, "line", {"x1": _n(x1), "y1": _n(y1), "x2": _n(x2), "y2": _n(y2)})
    if name:
        line.set("class", name)


def _text(parent: Element, x: float, y: float, text: str, anchor: str) -> None:
    element = SubElement(parent, "text", {"x": _n(x), "y": _n(y)})
    if anchor:
        element.set("text-anchor", anchor)
    element.text = text


def _circle(parent: Element, x: float, y: float, radius: float, name: str) -> Element:
    return SubElement(parent, "circle", {"class": name, "cx": _n(x), "cy": _n(y), "r": f"{radius:g}"})


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
