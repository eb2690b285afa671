const f = data.formula, model = evaluator(f), base = data.base;
let now = base.slice(), held = {};
const tell = v => { const a = Math.abs(v); return a !== 0 && (a >= 1e5 || a < 1e-3) ? v.toExponential(2) : String(+v.toPrecision(4)); };
const make = (parent, tag, text) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; parent.appendChild(e); return e; };
const row = (table, ...cells) => { const r = make(table, "tr"); return cells.map(c => make(r, "td", c)); };
const inputs = element.querySelector(".inputs"), metrics = element.querySelector(".metrics"), objectives = element.querySelector(".objectives");
const redraw = [];

// slider over the range in the rows, of logarithms where the model takes them.
const slider = (cell, c, value, changed) => {
  const to = x => c.log ? Math.log(x) : x, from = y => c.log ? Math.exp(y) : y;
  const s = make(cell, "input");
  s.type = "range"; s.min = Math.min(to(c.least), to(value)); s.max = Math.max(to(c.most), to(value)); s.step = "any"; s.value = to(value);
  s.setAttribute("aria-label", c.name);
  s.addEventListener("input", () => { const v = from(+s.value); changed(c.whole ? Math.round(v) : v); });
  return { put: v => { s.value = to(v); }, element: s };
};
const tip = (name, text) => document.querySelectorAll("#graph .node").forEach(n => {
  if (n.getAttribute("aria-label") !== name) return;
  const t = document.createElementNS("http://www.w3.org/2000/svg", "title");
  t.textContent = text;
  n.appendChild(t);
});

f.columns.forEach((c, i) => {
  if (c.tier !== "config" && c.tier !== "context") return;
  const [name, control, value, was] = row(inputs, c.name, undefined, "", "");
  name.title = c.tier;
  let put;
  if (c.levels) {
    const s = make(control, "select");
    s.setAttribute("aria-label", c.name);
    c.levels.forEach((l, k) => { make(s, "option", l).value = k; });
    s.addEventListener("change", () => { now[i] = +s.value; show(); });
    put = v => { s.value = v; };
  } else put = slider(control, c, now[i], v => { now[i] = v; show(); }).put;
  const text = v => c.levels ? c.levels[v] : tell(v);
  redraw.push(() => { put(now[i]); value.textContent = c.levels ? "" : text(now[i]); was.textContent = now[i] === base[i] ? "" : "was " + text(base[i]); });
});
f.nodes.forEach(n => {
  const c = f.columns[n.column];
  tip(c.name, n.text);
  if (c.tier !== "metric") return;
  const [, before, after, hold, control] = row(metrics, c.name, "", "", undefined, undefined);
  const box = make(hold, "input");
  box.type = "checkbox";
  box.setAttribute("aria-label", "hold " + c.name);
  const s = slider(control, { ...c, log: c.log && c.least > 0, whole: false }, Math.max(c.least, base[n.column]), v => { if (box.checked) { held[n.column] = v; show(); } });
  s.element.disabled = true;
  box.addEventListener("change", () => {
    s.element.disabled = !box.checked;
    if (box.checked) { held[n.column] = model.propagate(now, held, 0)[n.column]; s.put(held[n.column]); } else delete held[n.column];
    show();
  });
  redraw.push(() => {
    before.textContent = tell(model.propagate(base, {}, 0)[n.column]);
    after.textContent = tell(model.propagate(now, held, 0)[n.column]);
    if (!(n.column in held)) { box.checked = false; s.element.disabled = true; }
  });
});
f.objectives.forEach(o => {
  const c = f.columns[o.direct.column];
  const [, before, after, change, interval, note] = row(objectives, c.name, "", "", "", "", "");
  redraw.push(() => {
    const a = model.predict(o, base, {}, Object.keys(held).length > 0), b = model.predict(o, now, held);
    before.textContent = tell(a.mean); after.textContent = tell(b.mean);
    change.textContent = (b.mean >= a.mean ? "+" : "") + (100 * (b.mean / a.mean - 1)).toFixed(1) + " %";
    interval.textContent = tell(b.low) + " to " + tell(b.high);
    note.textContent = b.identified ? "" : "not identified: a hidden cause may be behind it";
  });
});
for (const e of data.effects) for (const x of e.effects) tip(x.parameter, "effect on " + e.objective + ": " + tell(x.ace) + " (90 %: " + tell(x.low) + " to " + tell(x.high) + ")" + (x.inert ? ", inert" : ""));
element.querySelector("button").addEventListener("click", () => { now = base.slice(); held = {}; show(); });
function show() { redraw.forEach(r => r()); }
show();
