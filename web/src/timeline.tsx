// The timeline of a scheduler's cluster: what jobs hold and wait for, by tenants or nodes and parts of a time.

import type { JSX, TargetedKeyboardEvent, TargetedMouseEvent } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { get, id, path } from "./api";
import type { Time } from "./api";
import * as f from "./format";
import type { Style } from "./format";
import { go, link, longPeriod, setQuery, useLoaded } from "./state";
import { A, Chart, Fact, Facts, Fault, From, Section, Table, ticks } from "./ui";

interface Row {
  first?: string;
  last?: string;
  memberCount?: number;
  gpus?: number;
  busyGpus?: number[];
  waitingGpus?: number[];
  runningJobs?: number[];
  waitingJobs?: number[];
}

interface Mark {
  name: string;
  startTime: Time;
  endTime?: Time;
  words?: string;
}

interface Timeline {
  startTime: Time;
  endTime: Time;
  knownTime: Time;
  bucketDuration: string;
  rows?: Row[];
  jobCount?: string;
  placedShare?: number;
  configurations?: Mark[];
  findings?: Mark[];
}

interface Load {
  schedulerTime?: Time;
  totalGpus?: number;
  busyGpus?: number;
  waitingGpus?: number;
  runningJobs?: number;
  waitingJobs?: number;
  longestWaitDuration?: string;
  nodeCount?: number;
  closedNodeCount?: number;
  receiveTime?: Time;
  clockSkew?: string;
  sampleTime?: Time;
  acknowledgeTime?: Time;
}

interface Band {
  low?: number;
  middle?: number;
  high?: number;
}

interface Forecast {
  points?: { schedulerTime: Time; busyGpus: Band; waitingGpus: Band; waitingJobs: Band }[];
  futures?: number;
  noFuturesReason?: string;
  limitedReason?: string;
}

interface Props {
  name: string;
  url: URL;
  style: Style;
}

const hour = 3600e3;
const spans: [string, number][] = [["1 h", hour], ["6 h", 6 * hour], ["1 d", 24 * hour], ["7 d", 168 * hour], ["28 d", 672 * hour]];
const buckets = 96;

export const span = (d: string | undefined) => (d === undefined ? undefined : parseFloat(d));

const label = (r: Row, nodes: boolean) => nodes
  ? r.first === r.last ? r.first || "–" : `${r.first} to ${r.last} (${r.memberCount})`
  : !r.last && (r.memberCount ?? 1) > 1 ? `${f.plural(r.memberCount ?? 0, "other tenant")}` : r.first || "no tenant";

// TimelinePage is a scheduler's load now, and its timeline.
export function TimelinePage(p: Props) {
  const query = p.url.searchParams;
  const nodes = query.get("rows") === "nodes";
  const [from, to, first, last] = ["from", "to", "first", "last"].map((k) => query.get(k) ?? "") as [string, string, string, string];
  const base = path(`schedulers/${p.name}`);
  const ask = new URLSearchParams({ rows: nodes ? "NODES" : "TENANTS", bucketCount: String(buckets), rowCount: "40" });
  for (const [k, v] of Object.entries({ startTime: from, endTime: to, firstNodeId: first, lastNodeId: last })) if (v) ask.set(k, v);
  const d = useLoaded<Timeline>(ask.toString(), () => get(`${base}:timeline?${ask}`), to ? 0 : longPeriod);
  const t = d.data;
  const move = (begin: number, end: number) => {
    const url = new URL(location.href);
    url.searchParams.set("from", new Date(begin).toISOString());
    url.searchParams.set("to", new Date(end).toISOString());
    go(url.pathname + url.search);
  };
  const [begin, end] = t ? [Date.parse(t.startTime), Date.parse(t.endTime)] : [0, 0];
  const zoom = (r: Row | undefined, bucket: number) => {
    const step = (end - begin) / buckets, width = Math.max((end - begin) / 4, 60e3);
    const middle = begin + (bucket + 0.5) * step;
    const url = new URL(location.href);
    url.searchParams.set("from", new Date(middle - width / 2).toISOString());
    url.searchParams.set("to", new Date(middle + width / 2).toISOString());
    if (nodes && r && (r.memberCount ?? 1) > 1) {
      url.searchParams.set("first", r.first ?? "");
      url.searchParams.set("last", r.last ?? "");
    }
    go(url.pathname + url.search);
  };
  return (
    <>
      <Now name={p.name} style={p.style} />
      <Section title="Timeline" hint="Darker cells hold more of the row's GPUs; the bar below a cell is GPUs that jobs wait for. Enter or a click looks closer.">
        <p class="filters">
          <label>Rows <select value={nodes ? "nodes" : ""} onChange={(e) => setQuery("rows", e.currentTarget.value)}>
            <option value="">tenants</option><option value="nodes">nodes</option>
          </select></label>
          {spans.map(([text, width]) => <button key={text} type="button" class="small" disabled={!t}
            aria-pressed={Math.abs(end - begin - width) < 1000} onClick={() => move(end - width, end)}>{text}</button>)}
          <button type="button" class="small" disabled={!t} onClick={() => move(begin - (end - begin) / 2, end - (end - begin) / 2)}>Earlier</button>
          <button type="button" class="small" disabled={!t} onClick={() => move(begin + (end - begin) / 2, end + (end - begin) / 2)}>Later</button>
          {(from || first) && <A href={link(p.url.pathname, nodes ? { rows: "nodes" } : {})}>The latest day</A>}
        </p>
        <Fault failure={d.failure} />
        {t && (t.rows?.length
          ? <Grid t={t} nodes={nodes} style={p.style} zoom={zoom} />
          : <p class="soft">{nodes && t.jobCount ? "The events do not say on which nodes jobs run." : "No job was there in this time."}</p>)}
        {t && <p class="soft">
          {f.plural(Number(t.jobCount ?? 0), "job")} from {f.instant(t.startTime, p.style)} to {f.instant(t.endTime, p.style)} ({f.zoneName(p.style)});
          events until {f.instant(t.knownTime, p.style)}.{" "}
          {nodes && (t.placedShare ?? 0) < 0.995 && `Events name the nodes of ${f.share(t.placedShare ?? 0)} of the GPU-time. `}
          <A href={link(`/schedulers/${p.name}/jobs`, { from: t.startTime, to: t.endTime })}>The jobs of this time</A>
        </p>}
      </Section>
      {t && <Section title="Marks">
        <Table caption="Marks" rows={[...(t.configurations ?? []).map((m) => ({ ...m, kind: "configuration" })),
          ...(t.findings ?? []).map((m) => ({ ...m, kind: "finding" }))]} most={20}
          empty="No configuration took effect in this time, and no finding was open." columns={[
          { name: "What", text: true, cell: (m) => m.kind === "configuration"
            ? <A href={link("/" + m.name)}>{m.words}</A>
            : <A href={link("/findings", { scheduler: p.name, state: "all" })}>{found(m)}</A> },
          { name: "From", cell: (m) => f.instant(m.startTime, p.style) },
          { name: "To", cell: (m) => m.endTime ? f.instant(m.endTime, p.style) : "–" },
        ]} />
      </Section>}
    </>
  );
}

// Now is the load at present, with its forecast and the freshness of what it rests on.
function Now(p: { name: string; style: Style }) {
  const base = path(`schedulers/${p.name}`);
  const now = useLoaded<Load>("load " + p.name, () => get(base + "/load"));
  const l = now.data;
  return (
    <Section title="Now">
      <Fault failure={now.failure} />
      {l && <Facts>
        <Fact name="GPUs held" kind="observed">{f.count(l.busyGpus)} of {f.count(l.totalGpus)}</Fact>
        <Fact name="GPUs waited for" kind="observed">{f.count(l.waitingGpus)}</Fact>
        <Fact name="Jobs running, waiting" kind="observed">{f.count(l.runningJobs)}, {f.count(l.waitingJobs)}</Fact>
        <Fact name="Longest wait" kind="observed">{f.seconds(span(l.longestWaitDuration) ?? (l.waitingJobs ? 0 : undefined), p.style.unit)}</Fact>
        <Fact name="Nodes; down or draining">{f.count(l.nodeCount)}; {f.count(l.closedNodeCount)}</Fact>
        <Fact name="Event time">{f.instant(l.schedulerTime, p.style)}</Fact>
        <Fact name="Last events">{l.receiveTime ? `${f.ago(l.receiveTime)}, ${skew(l.clockSkew, p.style)}` : "none since the service started"}</Fact>
        <Fact name="Last sample of GPUs">{l.sampleTime ? f.instant(l.sampleTime, p.style) : "none"}</Fact>
        <Fact name="Last acknowledgement">{l.acknowledgeTime ? f.ago(l.acknowledgeTime) : "none"}</Fact>
      </Facts>}
      <Ahead name={p.name} style={p.style} />
    </Section>
  );
}

// Ahead is the load that is simulated for the next hours.
export function Ahead(p: { name: string; style: Style }) {
  const ahead = useLoaded<Forecast>("ahead " + p.name, () => get(path(`schedulers/${p.name}`) + "/load:forecast"), longPeriod);
  const points = ahead.data?.points ?? [];
  const of = (band: "busyGpus" | "waitingGpus") => points.map((q) => ({
    x: Date.parse(q.schedulerTime), y: q[band].middle ?? 0, low: q[band].low ?? 0, high: q[band].high ?? 0,
  }));
  return (
    <>
      <Fault failure={ahead.failure} />
      {ahead.data?.noFuturesReason && <p class="soft">No forecast of the load: {ahead.data.noFuturesReason}.</p>}
      {ahead.data?.limitedReason && <p class="soft">The forecast is bounded: {ahead.data.limitedReason}.</p>}
      {points.length > 0 && <Chart title="Load of the next 12 hours" kind="simulated" xName={`Event time (${f.zoneName(p.style)})`}
        x={(v) => f.instant(v, p.style).slice(5, 16)} y={(v) => f.number(v)} series={[
          { name: "GPUs held", color: "c4", points: of("busyGpus") },
          { name: "GPUs waited for", color: "c7", dash: "6 4", points: of("waitingGpus") },
        ]} />}
    </>
  );
}

function skew(d: string | undefined, style: Style): string {
  const s = span(d) ?? 0;
  if (Math.abs(s) < 2) return "of that time";
  return `${f.seconds(Math.abs(s), style.unit)} ${s < 0 ? "old then" : "ahead of the service's clock"}`;
}

const rowHeight = 18, gap = 2, strip = 16, axis = 24;

// Grid draws the cells; the pointer and the arrow keys read them, and a table has the rows.
function Grid(p: { t: Timeline; nodes: boolean; style: Style; zoom: (r: Row | undefined, bucket: number) => void }): JSX.Element {
  const { t } = p;
  const rows = t.rows ?? [];
  const box = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState<[number, number]>();
  const [open, setOpen] = useState(false);
  const reading = useId();
  const dark = useDark();
  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    const watch = new ResizeObserver(() => setWidth(Math.floor(el.clientWidth)));
    watch.observe(el);
    setWidth(Math.floor(el.clientWidth));
    return () => watch.disconnect();
  }, []);
  const names = rows.map((r) => label(r, p.nodes));
  const left = Math.min(Math.round(width * 0.3), 12 + 8 * Math.max(...names.map((n) => n.length)));
  const top = t.configurations?.length ? strip : 0; // for the numbers of revisions
  const height = top + rows.length * rowHeight + axis;
  const n = rows[0]?.busyGpus?.length ?? 0;
  const begin = Date.parse(t.startTime), end = Date.parse(t.endTime);
  const cell = (width - left) / n;
  useLayoutEffect(() => {
    const c = canvas.current, g = c?.getContext("2d");
    if (!c || !g || width <= 0) return;
    const scale = devicePixelRatio || 1;
    c.width = width * scale;
    c.height = height * scale;
    g.setTransform(scale, 0, 0, scale, 0, 0);
    const css = getComputedStyle(c);
    const color = (name: string) => css.getPropertyValue("--" + name).trim();
    const [busy, waiting, bad, ink, soft, line] = ["c4", "c7", "bad", "ink", "soft", "grid"].map(color) as [string, string, string, string, string, string];
    g.font = "12px system-ui, sans-serif";
    rows.forEach((r, i) => {
      const y = top + i * rowHeight, most = r.gpus || Math.max(...(r.busyGpus ?? []), 1e-9);
      const queue = Math.max(...(r.waitingGpus ?? []), 1e-9);
      g.fillStyle = ink;
      g.fillText(cut(g, names[i] ?? "", left - 8), 0, y + 13);
      g.fillStyle = line;
      g.fillRect(left, y, width - left, rowHeight - gap);
      for (let k = 0; k < n; k++) {
        const share = Math.min((r.busyGpus?.[k] ?? 0) / most, 1);
        if (share > 0) {
          g.globalAlpha = 0.12 + 0.88 * share;
          g.fillStyle = busy;
          g.fillRect(left + k * cell, y, cell + 0.3, rowHeight - gap);
        }
        const asked = (r.waitingGpus?.[k] ?? 0) / queue;
        g.globalAlpha = 1;
        if (asked > 0) {
          const tall = Math.max(2, Math.round(asked * 6));
          g.fillStyle = waiting;
          g.fillRect(left + k * cell, y + rowHeight - gap - tall, cell + 0.3, tall);
        }
      }
    });
    const X = (v: number) => left + ((v - begin) / (end - begin)) * (width - left);
    let free = left; // of other texts, in the line that is written
    const write = (text: string, x: number, y: number) => {
      const wide = g.measureText(text).width, from = Math.min(Math.max(x - wide / 2, left), width - wide);
      if (from < free) return;
      g.fillText(text, from, y);
      free = from + wide + 8;
    };
    g.fillStyle = ink;
    for (const m of t.configurations ?? []) {
      g.fillRect(X(Date.parse(m.startTime)) - 1, top - 3, 2, rows.length * rowHeight + 3);
      write(id(m.name), X(Date.parse(m.startTime)), top - 5);
    }
    for (const m of t.findings ?? []) {
      const from = Math.max(Date.parse(m.startTime), begin), to = Math.min(m.endTime ? Date.parse(m.endTime) : end, end);
      g.fillStyle = bad;
      g.fillRect(X(from), height - axis + 1, Math.max(2, X(to) - X(from)), 3);
    }
    g.fillStyle = soft;
    free = left;
    for (const v of ticks(begin / 1000, end / 1000, Math.max(1, (width - left) / 110), true)) {
      g.fillRect(X(v * 1000), height - axis + 4, 1, 4);
      write(f.instant(v * 1000, p.style).slice(5, 16), X(v * 1000), height - 4);
    }
    if (at) {
      g.strokeStyle = ink;
      g.lineWidth = 2;
      g.strokeRect(left + at[1] * cell, top + at[0] * rowHeight, Math.max(cell, 3), rowHeight - gap);
    }
  });
  const place = (e: TargetedMouseEvent<HTMLCanvasElement>): [number, number] | undefined => {
    const r = e.currentTarget.getBoundingClientRect();
    const row = Math.floor((e.clientY - r.top - top) / rowHeight), bucket = Math.floor((e.clientX - r.left - left) / cell);
    return row >= 0 && row < rows.length && bucket >= 0 && bucket < n ? [row, bucket] : undefined;
  };
  const key = (e: TargetedKeyboardEvent<HTMLCanvasElement>) => {
    const [i, k] = at ?? [0, n];
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [i, k - 1], ArrowRight: [i, k + 1], ArrowUp: [i - 1, k], ArrowDown: [i + 1, k], Home: [i, 0], End: [i, n - 1],
    };
    const to = steps[e.key];
    if (e.key === "Enter" && at) p.zoom(rows[at[0]], at[1]);
    else if (to) setAt([Math.max(0, Math.min(rows.length - 1, to[0])), Math.max(0, Math.min(n - 1, to[1]))]);
    else return;
    e.preventDefault();
  };
  const r = at && rows[at[0]];
  const keys: [string, number, number, string][] = [["c4", 14, 10, "GPUs held"],
    ...p.nodes ? [] : [["c7", 14, 5, "GPUs waited for"] as [string, number, number, string]],
    ...t.configurations?.length ? [["ink", 2, 10, "a configuration takes effect, with its revision"] as [string, number, number, string]] : [],
    ...t.findings?.length ? [["bad", 14, 3, "a finding is open"] as [string, number, number, string]] : []];
  const marked = at ? marksIn(t, begin + ((end - begin) * at[1]) / n, begin + ((end - begin) * (at[1] + 1)) / n) : [];
  const sum = (xs: number[] = []) => xs.reduce((a, b) => a + b, 0) / (xs.length || 1);
  return (
    <figure class="timeline" ref={box} data-rows={rows.length} data-cells={rows.length * n} data-dark={dark}>
      <figcaption><strong>GPUs by {p.nodes ? "node" : "tenant"}</strong> <From kind="observed" />
        <span class="keys">{keys.map(([color, wide, tall, text]) => (
          <span><svg width="14" height="10" aria-hidden="true"><rect x={7 - wide / 2} y={10 - tall} width={wide} height={tall}
            fill={`var(--${color})`} /></svg> {text}</span>
        ))}</span>
      </figcaption>
      {width > 0 && <canvas ref={canvas} style={{ width: width + "px", height: height + "px" }} role="img" tabIndex={0}
        aria-describedby={reading} aria-label={`GPUs by ${p.nodes ? "node" : "tenant"}: ${f.plural(rows.length, "row")} of ${n} parts of ` +
          `${f.seconds(span(t.bucketDuration), p.style.unit)}. Arrow keys read values, Enter looks closer; the table below has the rows.`}
        onPointerMove={(e) => setAt(place(e))} onPointerLeave={() => setAt(undefined)} onBlur={() => setAt(undefined)}
        onClick={(e) => {
          const c = place(e);
          if (c) p.zoom(rows[c[0]], c[1]);
        }} onKeyDown={key} />}
      <p class="read" id={reading} aria-live="polite">{r && at ? `${names[at[0]]}, from ${f.instant(begin + (at[1] * (end - begin)) / n, p.style)}: ` +
        `${f.number(r.busyGpus?.[at[1]] ?? 0)} GPUs held${r.gpus ? ` of ${r.gpus}` : ""} by ${f.plural(r.runningJobs?.[at[1]] ?? 0, "job")}` +
        (p.nodes ? "" : `, ${f.number(r.waitingGpus?.[at[1]] ?? 0)} waited for by ${r.waitingJobs?.[at[1]] ?? 0}`) +
        marked.map((text) => "; " + text).join("") : "\u00a0"}</p>
      <details onToggle={(e) => setOpen(e.currentTarget.open)}>
        <summary>Table of GPUs by {p.nodes ? "node" : "tenant"}</summary>
        {open && <Table caption="GPUs by row" rows={rows} most={40} columns={[
          { name: p.nodes ? "Node" : "Tenant", text: true, cell: (r) => label(r, p.nodes) },
          { name: "GPUs", cell: (r) => r.gpus || "–" },
          { name: "Held, mean", kind: "observed", cell: (r) => f.number(sum(r.busyGpus)) },
          { name: "Held, most", cell: (r) => f.number(Math.max(...(r.busyGpus ?? [0]))) },
          ...p.nodes ? [] : [
            { name: "Waited for, mean", cell: (r: Row) => f.number(sum(r.waitingGpus)) },
            { name: "Waited for, most", cell: (r: Row) => f.number(Math.max(...(r.waitingGpus ?? [0]))) },
          ],
        ]} />}
      </details>
    </figure>
  );
}

// found is a finding's rule in words, and its entity.
const found = (m: Mark) => (m.words ?? "").replace(/^\w+/, (rule) => rule.replace(/_/g, " "));

// marksIn is what began in a part of the time, and which findings were open in it.
function marksIn(t: Timeline, from: number, to: number): string[] {
  const began = (m: Mark) => Date.parse(m.startTime) >= from && Date.parse(m.startTime) < to;
  const open = (m: Mark) => Date.parse(m.startTime) < to && (!m.endTime || Date.parse(m.endTime) > from);
  const findings = [...new Set((t.findings ?? []).filter(open).map(found))];
  return [...(t.configurations ?? []).filter(began).map((m) => `revision ${id(m.name)} takes effect`),
    ...findings.length ? [`open: ${findings.slice(0, 3).join(", ")}${findings.length > 3 ? ` and ${findings.length - 3} more` : ""}`] : []];
}

// cut shortens a text to a width, with a mark.
function cut(g: CanvasRenderingContext2D, text: string, width: number): string {
  if (g.measureText(text).width <= width) return text;
  let n = text.length;
  while (n > 1 && g.measureText(text.slice(0, n) + "…").width > width) n--;
  return text.slice(0, n) + "…";
}

// useDark follows the reader's colours, in which a canvas has to be drawn again.
function useDark(): boolean {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [dark, set] = useState(query.matches);
  useEffect(() => {
    const tell = () => set(query.matches);
    query.addEventListener("change", tell);
    return () => query.removeEventListener("change", tell);
  }, []);
  return dark;
}
