"""The style sheet of the report: calm, light and dark, with nothing loaded from anywhere."""

__all__ = ["STYLE"]

STYLE = """
:root {
  --paper: #fbfaf7; --card: #ffffff; --ink: #23262b; --soft: #5c626b; --faint: #e7e4dc; --rule: #f0eee8;
  --good: #1c6b45; --good-paper: #e3f1e8; --bad: #b3261e; --bad-paper: #fbe6e3; --odd: #7d5200; --odd-paper: #f8ecd2;
  --kept: #2f7f86; --left-out: #d5d3cb; --summarised: #e8c98a;
  --h0: #2c5cc5; --h1: #c2571a; --h2: #7b4bb3; --h3: #2b7d4f; --h4: #b03a6e; --h5: #5f6b1f;
  --t1: 70%; --t2: 54%; --t3: 42%;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15171a; --card: #1c1f23; --ink: #e6e4df; --soft: #a3a8b0; --faint: #33373d; --rule: #262a2f;
    --good: #83d3a6; --good-paper: #1b3327; --bad: #ff9a8f; --bad-paper: #432320; --odd: #f0c674;
  --odd-paper: #3a2f17;
    --kept: #4fb0b8; --left-out: #444a52; --summarised: #8a6d36;
    --h0: #7fa8ff; --h1: #ff9d63; --h2: #c09bf0; --h3: #6fcf97; --h4: #f48ab5; --h5: #c2cc6b;
    --t1: 78%; --t2: 68%; --t3: 60%;
  }
}
* { box-sizing: border-box; }
html { background: var(--paper); color: var(--ink); -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 3.5rem 2rem 2rem; max-width: 1184px;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif;
}
article + article { margin-top: 5rem; padding-top: 3.5rem; border-top: 1px solid var(--faint); }
h1 { font-size: 1.9rem; line-height: 1.2; font-weight: 650; letter-spacing: -.015em; margin: 0;
  overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; font-weight: 650; letter-spacing: -.005em; margin: 0 0 .15rem; }
p { margin: 0; }
section { margin-top: 3rem; }
figure { margin: 0; }
.eyebrow { color: var(--soft); font-size: .875rem; margin-bottom: .35rem; }
.about { color: var(--soft); margin-top: .4rem; font-variant-numeric: tabular-nums; }
.lead { color: var(--soft); margin-bottom: 1rem; max-width: 56rem; }
.contents ol { margin: 0 0 3.5rem; padding: 0 0 0 1.6rem; line-height: 1.9; overflow-wrap: anywhere; }
.contents .mark { display: inline-block; width: auto; padding: 0 .7rem; margin-left: .7rem; line-height: 1.5; }
a { color: var(--h0); text-underline-offset: 3px; text-decoration-thickness: 1px; }

.h0 { --hue: var(--h0); } .h1 { --hue: var(--h1); } .h2 { --hue: var(--h2); }
.h3 { --hue: var(--h3); } .h4 { --hue: var(--h4); } .h5 { --hue: var(--h5); }
.t0, .t1, .t2, .t3 { --c: var(--hue); }
@supports (color: color-mix(in oklab, red, blue)) {
  .t1 { --c: color-mix(in oklab, var(--hue) var(--t1), var(--card)); }
  .t2 { --c: color-mix(in oklab, var(--hue) var(--t2), var(--card)); }
  .t3 { --c: color-mix(in oklab, var(--hue) var(--t3), var(--card)); }
}
.key { flex: none; display: inline-block; width: 18px; height: 4px; border-radius: 2px; background: var(--c); }

.verdicts { list-style: none; margin: 1.6rem 0 0; padding: 0; border-top: 1px solid var(--faint); }
.verdicts li { display: flex; align-items: baseline; gap: .8rem; padding: .6rem 0;
  border-bottom: 1px solid var(--faint); }
.verdicts .key { align-self: center; }
.sentence { min-width: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.mark { flex: none; width: 7.4rem; text-align: center; font-size: .8rem; line-height: 1.6; border-radius: 99px; }
.mark.good { color: var(--good); background: var(--good-paper); }
.mark.bad { color: var(--bad); background: var(--bad-paper); }
.mark.odd { color: var(--odd); background: var(--odd-paper); }
.mark.plain { color: var(--soft); background: var(--rule); }

.window { display: block; width: 100%; height: auto; }
.narrow, .item.phone { display: none; }
svg text { font-size: 12px; fill: var(--soft); font-variant-numeric: tabular-nums; }
.grid line { stroke: var(--rule); } .grid .axis { stroke: var(--soft); stroke-opacity: .6; }
.turns line { stroke: var(--rule); } .turns .labelled { stroke: var(--faint); }
line.budget { stroke: var(--ink); stroke-opacity: .75; stroke-width: 1.2; stroke-dasharray: 2 4;
  stroke-linecap: round; }
.budgets text { fill: var(--ink); paint-order: stroke; stroke: var(--paper); stroke-width: 4px;
  stroke-linejoin: round; }
path.line, line.line { fill: none; stroke: var(--c, var(--soft)); stroke-width: 1.6; stroke-linejoin: round; }
.line.dense { stroke-width: .8; stroke-opacity: .4; }
line.line:not(.dense) { stroke-width: 2.5; stroke-linecap: round; }
.dot { fill: var(--c); }
.leader { fill: none; stroke: var(--c); stroke-width: 1; stroke-opacity: .7; }
.run text { fill: var(--ink); }
.compaction { fill: var(--c, var(--soft)); stroke: var(--paper); stroke-width: 1.5; }
.over { fill: var(--paper); stroke: var(--bad); stroke-width: 2; }
.bands rect { fill: transparent; }
.bands rect:hover { fill: var(--ink); fill-opacity: .06; }

.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.6rem; margin: .6rem 0 0; color: var(--soft);
  font-size: .875rem; }
p.legend { margin: 0 0 1.1rem; }
.item { display: inline-flex; align-items: center; gap: .5rem; }
.sample { flex: none; width: 24px; height: 12px; overflow: visible; }
.kept { fill: var(--kept); } .left-out { fill: var(--left-out); } .summarised { fill: var(--summarised); }

.records { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 440px), 1fr));
  gap: 1.8rem 2.2rem; }
.records figcaption, summary { display: flex; align-items: center; gap: .55rem; min-width: 0; }
.records figcaption { margin-bottom: .45rem; }
figcaption b, summary b { font-weight: 600; min-width: 0; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.of { flex: none; font-variant-numeric: tabular-nums; }
.end { flex: none; margin-left: auto; color: var(--soft); font-size: .875rem; font-variant-numeric: tabular-nums; }
.plot { border-bottom: 1px solid var(--soft); border-left: 1px solid var(--faint);
  background: linear-gradient(var(--rule), var(--rule)) top / 100% 1px no-repeat; }
.plot svg { display: block; width: 100%; height: 150px; }
.ends { display: flex; justify-content: space-between; color: var(--soft); font-size: .8rem; margin-top: .2rem;
  font-variant-numeric: tabular-nums; }

.scroll { overflow: auto; max-height: 34rem; border: 1px solid var(--faint); border-radius: 10px;
  background: var(--card); }
section > .scroll { margin-top: .9rem; max-height: none; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .42rem .5rem; text-align: right; white-space: nowrap; font-weight: 400; }
td:last-child, th:last-child { padding-right: 1rem; }
thead th { position: sticky; top: 0; background: var(--card); color: var(--soft); white-space: normal;
  vertical-align: bottom;
  line-height: 1.3; border-bottom: 1px solid var(--faint); }
tbody th { text-align: left; padding-left: 1rem; }
thead th:first-child, thead .word, td.word { text-align: left; }
thead th:first-child { padding-left: 1rem; }
td.word, th.word { padding-left: .8rem; }
tbody tr + tr > * { border-top: 1px solid var(--rule); }
details tbody tr:not(.first) > th { color: var(--soft); }
tbody tr.first > * { border-top-color: var(--faint); }
tbody tr:hover > * { background: var(--rule); }
th .key { vertical-align: middle; margin-right: .55rem; }
td.bad { color: var(--bad); font-weight: 600; } td.odd { color: var(--odd); }
details { border-bottom: 1px solid var(--faint); }
section > h2 + details { margin-top: .7rem; border-top: 1px solid var(--faint); }
summary { padding: .7rem 0; cursor: pointer; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary::before { content: ""; flex: none; width: .42rem; height: .42rem; margin: 0 .3rem 0 .15rem;
  border: solid var(--soft); border-width: 0 1.6px 1.6px 0; transform: rotate(-45deg); }
details[open] > summary::before { transform: rotate(45deg); }
details > .lead, details > .scroll { margin-bottom: 1rem; }
:focus-visible { outline: 2px solid var(--h0); outline-offset: 2px; border-radius: 4px; }
.skipped { margin: .5rem 0 0; padding-left: 1.2rem; color: var(--soft); overflow-wrap: anywhere; }
footer { margin-top: 4rem; color: var(--soft); font-size: .875rem; }

@media (max-width: 640px) {
  body { padding: 2rem 1rem 1.5rem; }
  h1 { font-size: 1.45rem; }
  .wide { display: none; } .narrow { display: block; } .item.phone { display: inline-flex; }
  svg.narrow text { font-size: 11px; }
  .verdicts li { flex-wrap: wrap; gap: .3rem .7rem; }
  .sentence { flex-basis: 100%; }
  .legend { flex-direction: column; }
}
@media (prefers-reduced-motion: no-preference) { summary::before { transition: transform .12s; } }
@media print { .scroll { max-height: none; } }
"""
