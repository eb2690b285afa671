import { useEffect } from "preact/hooks";
import { get, id, list, path } from "./api";
import type { ParameterSpec, Time, Value, Values } from "./api";
import * as f from "./format";
import type { Style } from "./format";
import { link, longPeriod, useLoaded } from "./state";
import { A, Bars, Chart, Command, Fact, Facts, Fault, Section, Table, Verdict } from "./ui";
import type { Point } from "./ui";

interface Trial {
  name: string;
  state?: string;
  parameters?: Values;
  origin?: string;
  createTime?: Time;
  finalMeasurement?: { metrics?: Record<string, number>; elapsedDuration?: string };
  reason?: string;
}

interface Study {
  name: string;
  displayName?: string;
  state?: string;
  createTime?: Time;
  updateTime?: Time;
  usedBudget?: number;
  trialCounts?: Record<string, number>;
  bestTrial?: Trial;
  samplerChoice?: string;
  run?: { evaluator?: string; workload?: string; problem?: string };
  spec?: { metricId?: string; goal?: string; trialBudget?: number; algorithm?: string; parameters?: ParameterSpec[] };
}

const number = (t: Trial) => Number(id(t.name));

// StudiesPage lists the studies of a scheduler, or shows the one that the URL names.
export function StudiesPage(p: { name: string; url: URL; style: Style }) {
  const study = /^[a-z][a-z0-9-]*$/.exec(p.url.searchParams.get("study") ?? "")?.[0];
  return study ? <OneStudy key={study} scheduler={p.name} study={study} style={p.style} /> : <Studies name={p.name} style={p.style} />;
}

function Studies(p: { name: string; style: Style }) {
  const d = useLoaded("studies " + p.name, () => list<Study>(path("schedulers/" + p.name) + "/studies", "studies", 1000));
  const rows = d.data ?? [], active = rows.filter((s) => s.state === "ACTIVE").length;
  if (!d.data) return d.failure ? <Fault failure={d.failure} /> : <p class="soft">…</p>;
  return (
    <>
      <Fault failure={d.failure} />
      <Verdict tone={active ? "good" : "open"} title={!rows.length ? "No study searches this scheduler"
        : `${f.plural(rows.length, "study", "studies")}, ${active} active`}>
        {!rows.length && <Command text={`autosched study create ${p.name}/first --metric wait --budget 50`} />}
      </Verdict>
      <Section title="Studies" hint="Clients or evaluators measure the configurations that a study suggests.">
        <Bars title="the budget used" rows={rows.slice(0, 12).map((s) => ({ name: s.displayName || id(s.name),
          value: (s.usedBudget ?? 0) / (s.spec?.trialBudget ?? 100), text: f.share((s.usedBudget ?? 0) / (s.spec?.trialBudget ?? 100)) }))} />
        <Table caption="Studies" rows={rows} columns={[
          { name: "Study", text: true, cell: (s) => <A href={link(`/schedulers/${p.name}/studies`, { study: id(s.name) })}>{s.displayName || id(s.name)}</A> },
          { name: "State", text: true, cell: (s) => (s.state ?? "").toLowerCase() },
          { name: "Trials", cell: (s) => `${s.trialCounts?.SUCCEEDED ?? 0} measured` },
          { name: "Budget used", cell: (s) => `${s.usedBudget ?? 0} of ${s.spec?.trialBudget ?? 100}` },
          { name: "Best", kind: "observed", cell: (s) => best(s, p.style) },
          { name: "Changed", cell: (s) => f.instant(s.updateTime, p.style) },
        ]} />
      </Section>
    </>
  );
}

const best = (s: Study, style: Style) => {
  const metric = s.spec?.metricId ?? "", v = s.bestTrial?.finalMeasurement?.metrics?.[metric];
  return v === undefined ? "–" : `${f.metricName(metric)} ${f.quantity(metric, v, style.unit)}`;
};

function OneStudy(p: { scheduler: string; study: string; style: Style }) {
  const name = `schedulers/${p.scheduler}/studies/${p.study}`;
  const now = useLoaded(name, () => get<Study>(path(name)));
  const d = useLoaded("trials " + name, () => list<Trial>(path(name) + "/trials", "trials", 10_000), longPeriod);
  useEffect(d.again, [JSON.stringify(now.data?.trialCounts)]);
  const failure = now.failure ?? d.failure, s = now.data;
  if (!s || !d.data) return failure ? <Fault failure={failure} /> : <p class="soft">…</p>;
  const metric = s.spec?.metricId ?? "", maximize = s.spec?.goal === "MAXIMIZE";
  const trials = [...d.data].sort((a, b) => number(a) - number(b));
  const valueOf = (t: Trial) => t.state === "SUCCEEDED" ? t.finalMeasurement?.metrics?.[metric] : undefined;
  const measured = trials.flatMap((t) => {
    const y = valueOf(t);
    return y === undefined ? [] : [{ x: number(t), y, trial: t }];
  });
  const specs = new Map((s.spec?.parameters ?? []).map((q) => [q.parameterId, q]));
  const shares = importances(measured, s.spec?.parameters ?? [], maximize);
  const q = (v?: number) => f.quantity(metric, v, p.style.unit);
  const counts = Object.entries(s.trialCounts ?? {}).map(([k, n]) => `${n} ${k.toLowerCase()}`).join(", ");
  const order = maximize ? -1 : 1;
  const ranked = [...trials].sort((a, b) => order * ((valueOf(a) ?? order * Infinity) - (valueOf(b) ?? order * Infinity)) || number(a) - number(b));
  return (
    <>
      <Fault failure={failure} />
      <Verdict tone={s.run?.problem ? "bad" : s.state === "ACTIVE" ? "good" : "open"}
        title={`${p.study} is ${(s.state ?? "").toLowerCase()}: ${s.bestTrial ? `best so far ${best(s, p.style)}` : "nothing is measured yet"}`}>
        {s.run?.problem && <p class="bad-t">{s.run.problem}</p>}
        <p><A href={link(`/schedulers/${p.scheduler}/studies`)}>All studies of {p.scheduler}</A></p>
        {s.bestTrial && <Command text={`autosched study propose ${p.scheduler}/${p.study} --trial ${id(s.bestTrial.name)}`} />}
      </Verdict>
      <Section title="Where it stands">
        <Facts>
          <Fact name="Metric">{f.metricName(metric)}, to be {maximize ? "large" : "small"}</Fact>
          <Fact name="Budget">{s.usedBudget ?? 0} of {f.plural(s.spec?.trialBudget ?? 100, "trial")}</Fact>
          <Fact name="Trials">{counts || "none"}</Fact>
          {s.samplerChoice && <Fact name="Sampler" wide>{s.samplerChoice}</Fact>}
        </Facts>
        <Chart title={`${f.metricName(metric)} by trial`} kind="observed" xName="Trial" time={f.isTime(metric)} x={(v) => `trial ${Math.round(v)}`} y={q} series={[
          { name: measured.length > buckets ? "mean of neighbours (least to most)" : "each trial", color: "c4", points: thinned(measured) },
          { name: "best so far", color: "c5", dash: "6 3", points: bestSoFar(measured, maximize) },
        ]} />
      </Section>
      <Section title="Importances" hint={`The share of the variance of ${f.metricName(metric)} that a parameter explains alone, by groups of ` +
        "its values; the shares do not add up to 1."}>
        <Table caption="Importances" rows={shares} empty="It takes 10 measured trials." columns={[
          { name: "Parameter", text: true, cell: (r) => <><code>{r.id}</code><span class="what soft">{specs.get(r.id)?.description}</span></> },
          { name: "Explains", kind: "observed", text: true, cell: (r) => <svg class="bar" width="120" height="12" aria-hidden="true">
            <rect width={Math.max(1, 120 * r.share)} height="12" fill="var(--c4)" /></svg> },
          { name: "Share", cell: (r) => Math.round(100 * r.share) + "\u00a0%" },
          { name: "Best values", text: true, cell: (r) => r.best },
        ]} />
      </Section>
      <Section title="Trials" hint="The best first.">
        <Table caption="Trials" rows={ranked} most={25} columns={[
          { name: "Trial", text: true, cell: (t) => id(t.name) },
          { name: f.metricName(metric), kind: "observed", cell: (t) => q(valueOf(t)) },
          { name: "State", text: true, cell: (t) => `${(t.state ?? "").toLowerCase()}${t.reason ? ": " + t.reason : ""}` },
          { name: "Configuration", text: true, cell: (t) => <>{t.origin}<span class="what soft">{Object.entries(t.parameters ?? {})
            .map(([k, v]) => `${k} ${f.value(v, specs.get(k))}`).join("; ")}</span></> },
        ]} />
      </Section>
    </>
  );
}

// buckets bounds the points of a chart.
const buckets = 240;

// thinned has the mean of neighbouring points, with their least and most, where there are too many to draw.
function thinned(points: Point[]): Point[] {
  const size = Math.ceil(points.length / buckets);
  if (size <= 1) return points.map(({ x, y }) => ({ x, y }));
  const out: Point[] = [];
  for (let i = 0; i < points.length; i += size) {
    const some = points.slice(i, i + size), ys = some.map((q) => q.y);
    out.push({ x: some[0]!.x, y: f.mean(ys)!, low: Math.min(...ys), high: Math.max(...ys) });
  }
  return out;
}

// bestSoFar has a point at each x that thinned has, so that one reading has both.
function bestSoFar(points: Point[], maximize: boolean): Point[] {
  const size = Math.max(1, Math.ceil(points.length / buckets));
  let y = maximize ? -Infinity : Infinity;
  return points.flatMap((q, i) => {
    y = maximize ? Math.max(y, q.y) : Math.min(y, q.y);
    return i % size && i < points.length - 1 ? [] : [{ x: q.x, y }];
  });
}

interface Share {
  id: string;
  share: number;
  best: string;
}

// importances are the shares of the variance between groups of a parameter's values, corrected for the number of groups
// (epsilon squared), the largest first.
function importances(points: { y: number; trial: Trial }[], specs: ParameterSpec[], maximize: boolean): Share[] {
  const n = points.length;
  if (n < 10) return [];
  const all = f.mean(points.map((q) => q.y))!;
  const total = points.reduce((sum, q) => sum + (q.y - all) ** 2, 0);
  return specs.map((spec) => {
    const values = points.map((q) => q.trial.parameters?.[spec.parameterId]);
    const groupOf = grouping(values, spec);
    const groups = new Map<string, number[]>();
    points.forEach((q, i) => {
      const key = groupOf(values[i]);
      const g = groups.get(key);
      if (g) g.push(q.y);
      else groups.set(key, [q.y]);
    });
    const within = [...groups.values()].reduce((sum, ys) => {
      const m = f.mean(ys)!;
      return sum + ys.reduce((s, y) => s + (y - m) ** 2, 0);
    }, 0);
    const share = total && n > groups.size ? Math.max(0, 1 - (within / total) * ((n - 1) / (n - groups.size))) : 0;
    const sorted = [...groups].sort((a, b) => (maximize ? -1 : 1) * (f.mean(a[1])! - f.mean(b[1])!));
    return { id: spec.parameterId, share, best: share ? sorted[0]![0] : "–" };
  }).sort((a, b) => b.share - a.share);
}

// grouping names the group of a value: itself, or one of five ranges of equal counts where there are more than eight.
function grouping(values: (Value | undefined)[], spec: ParameterSpec): (v: Value | undefined) => string {
  const text = (v: Value | undefined) => f.value(v, spec);
  const first = (v: Value | undefined) => Array.isArray(v) ? v[0] : v;
  const numbers = values.map(first).filter((v): v is number => typeof v === "number").sort((a, b) => a - b);
  if (new Set(values.map(text)).size <= 8 || numbers.length < values.length / 2) return text;
  const edges = [0, 1, 2, 3, 4, 5].map((k) => numbers[Math.min(numbers.length - 1, Math.floor((k * numbers.length) / 5))]!);
  return (v) => {
    const x = first(v);
    if (typeof x !== "number") return text(v);
    const k = Math.max(0, Math.min(4, edges.findIndex((e) => x < e) < 0 ? 4 : edges.findIndex((e) => x < e) - 1));
    return `${text(edges[k])} to ${text(edges[k + 1])}`;
  };
}
