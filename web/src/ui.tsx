// Parts of pages, in the design of the reports (internal/chart's style sheet).

import type { ComponentChildren, TargetedKeyboardEvent, TargetedMouseEvent, TargetedPointerEvent } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Failure } from "./api";
import { go } from "./state";

export type Nodes = ComponentChildren;

// A is a link within the dashboard.
export function A(p: { href: string; children: Nodes; class?: string; current?: boolean }) {
  const click = (e: TargetedMouseEvent<HTMLAnchorElement>) => {
    if (e.ctrlKey || e.metaKey || e.shiftKey || e.button) return;
    e.preventDefault();
    go(p.href);
  };
  return <a class={p.class} href={p.href} aria-current={p.current ? "page" : undefined} onClick={click}>{p.children}</a>;
}

// Kind says where a number comes from.
export type Kind = "observed" | "simulated" | "predicted";

const kinds: Record<Kind, string> = {
  observed: "as schedulers reported it",
  simulated: "measured in a simulation",
  predicted: "expected by a model, neither simulated nor observed",
};

export const From = (p: { kind: Kind }) => <span class="tag" title={kinds[p.kind]}>{p.kind}</span>;

// Facts is a list of names with values.
export function Facts(p: { children: Nodes }) {
  return <dl class="facts">{p.children}</dl>;
}

export function Fact(p: { name: string; kind?: Kind; children: Nodes; wide?: boolean }) {
  return (
    <div class={p.wide ? "wide" : undefined}>
      <dt>{p.name}{p.kind && <> <From kind={p.kind} /></>}</dt>
      <dd>{p.children}</dd>
    </div>
  );
}

export type Tone = "good" | "bad" | "open";

// Verdict is a page's answer in words.
export function Verdict(p: { tone: Tone; title: string; children?: Nodes }) {
  return <div class={"verdict " + p.tone}><h2>{p.title}</h2>{p.children}</div>;
}

export function Section(p: { title: string; hint?: Nodes; children: Nodes; id?: string }) {
  const label = useId();
  return (
    <section aria-labelledby={label} id={p.id}>
      <h2 id={label}>{p.title}</h2>
      {p.hint && <p class="hint">{p.hint}</p>}
      {p.children}
    </section>
  );
}

// Column is a column of a table; text columns are on the left.
export interface Column<T> {
  name: string;
  text?: boolean;
  kind?: Kind;
  cell: (row: T) => Nodes;
}

// Table shows at most `most` rows until the reader asks for more. On a narrow screen rows are stacked.
export function Table<T>(p: { caption: string; columns: Column<T>[]; rows: T[]; most?: number; empty?: string }) {
  const step = p.most ?? 50;
  const [most, set] = useState(step);
  if (!p.rows.length) return <p class="soft">{p.empty ?? "None."}</p>;
  const [head, ...rest] = p.columns;
  const left = (c: Column<T>) => (c.text ? "l wrap" : undefined);
  return (
    <>
      <div class="scroll">
        <table class="versus">
          <caption class="away">{p.caption}</caption>
          <thead>
            <tr>{p.columns.map((c) => (
              <th scope="col" class={c.text ? "l" : undefined}>{c.name}{c.kind && <> <From kind={c.kind} /></>}</th>
            ))}</tr>
          </thead>
          <tbody>
            {p.rows.slice(0, most).map((r) => (
              <tr>
                <th scope="row" class="wrap">{head?.cell(r)}</th>
                {rest.map((c) => <td class={left(c)} data-l={c.name}>{c.cell(r)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {p.rows.length > most && (
        <p><button type="button" onClick={() => set(most + 4 * step)}>Show more of {p.rows.length}</button></p>
      )}
    </>
  );
}

// Fault says that something is not known, and why.
export const Fault = (p: { failure?: Failure }) =>
  p.failure ? <p class="fault" role="alert">{p.failure.message}</p> : null;

// Point is a value with the band around it.
export interface Point {
  x: number;
  y: number;
  low?: number;
  high?: number;
}

export interface Series {
  name: string;
  color: "c4" | "c5" | "c7" | "c2" | "c0";
  dash?: string;
  kind?: Kind; // other than the chart's
  points: Point[];
}

export interface Note {
  x: number;
  text: string;
}

interface ChartProps {
  title: string;
  kind: Kind;
  series: Series[];
  notes?: Note[];
  x: (v: number) => string;
  y: (v: number) => string;
  xName: string;
  time?: boolean; // y in seconds
  dots?: boolean; // points without a line between them
}

// Row is the points of the series at an x.
interface Row {
  x: number;
  points: (Point | undefined)[];
}

const height = 190, right = 14, top = 12, bottom = 26;

const spans = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000];

// ticks are round values between two, about `want` of them; round spans of seconds where the values are times.
export function ticks(low: number, high: number, want: number, time = false): number[] {
  const raw = (high - low) / want || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const steps = time && raw > 1 ? spans : [1, 2, 5, 10].map((m) => m * power);
  const step = steps.find((s) => s >= raw) ?? Math.ceil(raw / 864000) * 864000;
  const out: number[] = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) out.push(v);
  return out;
}

// Chart draws series over x; the arrow keys and the pointer read values off, and a table has them all.
export function Chart(p: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState<number>();
  const [open, setOpen] = useState(false);
  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    const watch = new ResizeObserver(() => setWidth(Math.floor(el.clientWidth)));
    watch.observe(el);
    setWidth(Math.floor(el.clientWidth));
    return () => watch.disconnect();
  }, []);
  const all = p.series.flatMap((s) => s.points);
  const xs = [...new Set(all.map((q) => q.x))].sort((a, b) => a - b);
  const first = xs[0], last = xs.at(-1);
  if (first === undefined || last === undefined) return <p class="soft">Nothing to draw yet.</p>;
  const ys = all.flatMap((q) => [q.y, q.low ?? q.y, q.high ?? q.y]);
  let low = Math.min(...ys), high = Math.max(...ys);
  if (low > 0 && low < high / 2) low = 0;
  if (high === low) [low, high] = [low - Math.abs(low) / 2 - 0.5, high + Math.abs(high) / 2 + 0.5];
  const room = (high - low) * 0.06;
  low = low === 0 ? 0 : low - room;
  high += room;
  const grid = ticks(low, high, 4, p.time);
  const left = 14 + 7 * Math.max(...grid.map((v) => p.y(v).length));
  const wide = Math.max(width - left - right, 10), tall = height - top - bottom;
  const X = (v: number) => left + (last === first ? wide / 2 : ((v - first) / (last - first)) * wide);
  const Y = (v: number) => top + (1 - (v - low) / (high - low)) * tall;
  const line = (points: Point[]) => points.map((q, i) => `${i ? "L" : "M"}${X(q.x).toFixed(1)} ${Y(q.y).toFixed(1)}`).join("");
  const band = (points: Point[]) => {
    const b = points.filter((q) => q.low !== undefined && q.high !== undefined);
    if (b.length < 2) return "";
    const edge = (qs: Point[], f: (q: Point) => number) => qs.map((q) => `${X(q.x).toFixed(1)} ${Y(f(q)).toFixed(1)}`).join("L");
    return `M${edge(b, (q) => q.high!)}L${edge([...b].reverse(), (q) => q.low!)}Z`;
  };
  const reading = (q: Point) => p.y(q.y) + (q.low !== undefined && q.high !== undefined ? ` (${p.y(q.low)} to ${p.y(q.high)})` : "");
  const labels = last === first ? [first] : wide > 620 && !p.dots ? [first, (first + last) / 2, last] : [first, last];
  const nearest = (v: number) => xs.reduce((a, b) => (Math.abs(b - v) < Math.abs(a - v) ? b : a));
  const move = (e: TargetedPointerEvent<SVGSVGElement>) => {
    const px = e.clientX - e.currentTarget.getBoundingClientRect().left;
    setAt(nearest(first + ((px - left) / wide) * (last - first)));
  };
  const key = (e: TargetedKeyboardEvent<SVGSVGElement>) => {
    const i = at === undefined ? xs.length : xs.indexOf(at);
    const to = ({ ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: xs.length - 1 } as Record<string, number>)[e.key];
    if (to === undefined) return;
    e.preventDefault();
    setAt(xs[Math.max(0, Math.min(xs.length - 1, to))]);
  };
  const read = at === undefined ? undefined : p.series.flatMap((s) => {
    const q = s.points.find((o) => o.x === at);
    return q ? [`${s.name} ${reading(q)}`] : [];
  });
  const rows = (): Row[] => xs.map((x) => ({ x, points: p.series.map((s) => s.points.find((q) => q.x === x)) })).reverse();
  return (
    <figure class="chart" ref={box}>
      <figcaption>
        <strong>{p.title}</strong> <From kind={p.kind} />
        <span class="keys">{p.series.map((s) => (
          <span><svg class="sw" aria-hidden="true"><line x1="0" y1="5" x2="26" y2="5" stroke={`var(--${s.color})`}
            stroke-width="3" stroke-dasharray={s.dash} /></svg>{s.name}{s.kind && <> <From kind={s.kind} /></>}</span>
        ))}</span>
      </figcaption>
      {width > 0 && (
        <svg width={width} height={height} role="img" {...{ tabindex: 0 }} onPointerMove={move} onKeyDown={key}
          onPointerLeave={() => setAt(undefined)} onBlur={() => setAt(undefined)}
          aria-label={`${p.title}, ${p.kind}: ${p.series.map((s) => s.name).join(", ")} from ${p.x(first)} to ${p.x(last)}. ` +
            "Arrow keys read values; the table below has them all."}>
          {grid.map((v) => (
            <g>
              <line x1={left} x2={width - right} y1={Y(v)} y2={Y(v)} stroke="var(--grid)" />
              <text x={left - 7} y={Y(v) + 4} text-anchor="end">{p.y(v)}</text>
            </g>
          ))}
          {labels.map((v, i) => (
            <text x={X(v)} y={height - 6}
              text-anchor={last === first ? "middle" : i === 0 ? "start" : i === labels.length - 1 ? "end" : "middle"}>{p.x(v)}</text>
          ))}
          {p.notes?.filter((n) => n.x >= first && n.x <= last).map((n) => (
            <line class="note" x1={X(n.x)} x2={X(n.x)} y1={top} y2={height - bottom}><title>{n.text}</title></line>
          ))}
          {p.series.map((s) => <path d={band(s.points)} fill={`var(--${s.color})`} opacity="0.16" />)}
          {p.series.map((s, i) => p.dots || s.points.length === 1
            ? s.points.map((q) => i ? <circle cx={X(q.x)} cy={Y(q.y)} r="4" fill={`var(--${s.color})`} />
              : <circle cx={X(q.x)} cy={Y(q.y)} r="7" fill="none" stroke={`var(--${s.color})`} stroke-width="2" />)
            : <path d={line(s.points)} fill="none" stroke={`var(--${s.color})`} stroke-width="2" stroke-dasharray={s.dash}
              stroke-linejoin="round" />)}
          {at !== undefined && <line x1={X(at)} x2={X(at)} y1={top} y2={height - bottom} stroke="var(--soft)" />}
        </svg>
      )}
      <p class="read" aria-live="polite">{read ? `${p.x(at!)}: ${read.join("; ")}` : "\u00a0"}</p>
      <details onToggle={(e) => setOpen(e.currentTarget.open)}>
        <summary>Table of {p.title}</summary>
        {open && <Table caption={p.title} rows={rows()} most={20} columns={[
          { name: p.xName, text: true, cell: (r) => p.x(r.x) },
          ...p.series.map((s, i) => ({ name: s.name, cell: (r: Row) => r.points[i] ? reading(r.points[i]) : "–" })),
        ]} />}
      </details>
    </figure>
  );
}

// Bars is a chart of a value by name; the table beside it has the values.
export function Bars(p: { title: string; kind?: Kind; rows: { name: string; value: number; text: string; tone?: Tone }[] }) {
  const [open, setOpen] = useState(true);
  const most = Math.max(...p.rows.map((r) => r.value), 1e-9);
  if (!p.rows.length) return null;
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Chart of {p.title}{p.kind && <> <From kind={p.kind} /></>}</summary>
      <ul class="bars">{p.rows.map((r) => (
        <li key={r.name}><span class="what">{r.name}</span>
          <svg width="100%" height="14" aria-hidden="true"><rect width={`${(r.value / most) * 100}%`} height="14"
            fill={r.tone ? `var(--${r.tone})` : "var(--c4)"} /></svg>
          <span>{r.text}</span></li>
      ))}</ul>
    </details>
  );
}

// Command is a line for a shell, which breaks between words, with a button that copies it.
export function Command(p: { text: string }) {
  const [copied, set] = useState(false);
  const copy = () => navigator.clipboard?.writeText(p.text).then(() => set(true), () => set(false));
  return (
    <div class="command">
      <code>{p.text.split(" ").map((word) => <><span>{word}</span> </>)}</code>
      {"clipboard" in navigator && <button type="button" class="small" onClick={copy}
        aria-label={"Copy " + p.text}>{copied ? "Copied" : "Copy"}</button>}
    </div>
  );
}

// Ask is a dialog that wants a reason before an act. It closes when the act succeeded.
export function Ask(p: {
  title: string; act: string; tone?: Tone; required?: boolean; children?: Nodes;
  done: (reason: string) => Promise<void>; close: () => void;
}) {
  const box = useRef<HTMLDialogElement>(null);
  const label = useId(), field = useId();
  const [reason, setReason] = useState("");
  const [fault, setFault] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => box.current?.showModal(), []);
  const submit = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    try {
      await p.done(reason.trim());
      p.close();
    } catch (e) {
      setFault(e instanceof Error ? e.message : String(e));
      setBusy(false);
    }
  };
  return (
    <dialog ref={box} aria-labelledby={label} onClose={p.close}>
      <form onSubmit={submit}>
        <h2 id={label}>{p.title}</h2>
        {p.children}
        <label for={field}>Reason{p.required ? "" : " (optional)"}, for people and the audit log</label>
        <textarea id={field} rows={3} maxLength={120} required={p.required} value={reason}
          onInput={(e) => setReason(e.currentTarget.value)} />
        {fault && <p class="fault" role="alert">{fault}</p>}
        <p class="acts">
          <button type="submit" class={p.tone === "bad" ? "danger" : "main"} disabled={busy}>{p.act}</button>
          <button type="button" onClick={() => box.current?.close()}>Cancel</button>
        </p>
      </form>
    </dialog>
  );
}
