import { useEffect, useState } from "preact/hooks";
import { defaultsOf, get, id, list, path, specsOf } from "./api";
import type { Configuration, Park, ReportedMetric, Round, RuleSummary, Scheduler, Time } from "./api";
import * as f from "./format";
import type { Style } from "./format";
import { link, longPeriod, useLoaded } from "./state";
import { Ahead } from "./timeline";
import type { Identity, Loaded } from "./state";
import { A, Chart, Command, Fact, Facts, Fault, From, Section, Verdict } from "./ui";
import type { Tone } from "./ui";

// objectiveOf is the metric whose values rounds list, or "objective" for a weighted sum.
export function objectiveOf(s: Scheduler): string {
  const o = s.spec.objective;
  const name = o?.metricId || (o?.goal ?? "").split(" ")[0] || "avg_jct";
  return /^[a-z0-9_]+$/.test(name) ? name : "objective";
}

interface Task {
  tone: Tone;
  text: string;
  href: string;
  link: string;
}

// tasks are what waits for a person, the urgent ones first.
export function tasks(s: Scheduler): Task[] {
  const out: Task[] = [];
  const name = id(s.name), here = "/schedulers/" + name;
  const st = s.status ?? {};
  if (st.degraded) out.push({ tone: "bad", text: `${name} is degraded: ${st.degraded}`, href: here, link: "Look at it" });
  if (st.lastError) out.push({ tone: "bad", text: `${name}: the last round failed: ${st.lastError}`, href: here, link: "Look at it" });
  const worse = st.lastIncident?.worseRevision;
  if (worse && worse === id(s.currentConfiguration)) {
    out.push({ tone: "bad", text: `${name}: revision ${worse} does worse than promised: ${st.lastIncident?.reason ?? ""}`,
      href: `${here}/configurations/${worse}`, link: "Decide" });
  }
  const waits = id(st.proposedConfiguration);
  if (waits) {
    out.push({ tone: "open", text: `${name}: revision ${waits} waits for a decision`,
      href: `${here}/configurations/${waits}`, link: "Decide" });
  }
  return out;
}

export function Overview(p: { schedulers: Loaded<Scheduler[]>; who: Identity; style: Style }) {
  const [most, setMost] = useState(8);
  const all = p.schedulers.data;
  if (!all) return <Fault failure={p.schedulers.failure} />;
  if (!all.length) return <FirstVisit />;
  const todo = all.flatMap(tasks).sort((a, b) => Number(b.tone === "bad") - Number(a.tone === "bad"));
  const bad = todo.filter((t) => t.tone === "bad").length;
  const title = bad ? f.plural(bad, "thing needs attention", "things need attention")
    : todo.length ? f.plural(todo.length, "proposal waits for a decision", "proposals wait for a decision")
    : "All is well, and nothing waits for you";
  const urgent = (s: Scheduler) => tasks(s).reduce((n, t) => n + (t.tone === "bad" ? 100 : 1), 0);
  const order = [...all].sort((a, b) => urgent(b) - urgent(a));
  return (
    <>
      <Verdict tone={bad ? "bad" : todo.length ? "open" : "good"} title={title}>
        {todo.length > 0 && <ul class="todo">{todo.map((t) => (
          <li class={t.tone}>{t.text} <A href={link(t.href)}>{t.link}<span class="away">: {t.text}</span></A></li>
        ))}</ul>}
      </Verdict>
      {order.slice(0, most).map((s) => <Card key={s.name} scheduler={s} who={p.who} style={p.style} />)}
      {order.length > most && (
        <p><button type="button" onClick={() => setMost(most + 8)}>Show more of {order.length} schedulers</button></p>
      )}
    </>
  );
}

function FirstVisit() {
  return (
    <>
      <Verdict tone="open" title="No scheduler is registered yet">
        <p>Three commands fill this page. It shows what they do as they do it.</p>
      </Verdict>
      <Section title="An emulated cluster, to look around" hint="It replays a synthetic trace and takes what you approve.">
        <Command text="autosched scheduler emulate --id demo --trace sample --nodes 20 --gpus-per-node 8 --mode recommend" />
      </Section>
      <Section title="A scheduler of your own" hint="Registered for recommendations: nothing changes unless you approve it.">
        <Command text="autosched scheduler register --id prod --builtin tiresias --nodes 20 --gpus-per-node 8" />
      </Section>
      <Section title="Its events, and its configuration file" hint="An adapter sends the first and writes the second.">
        <Command text="autosched scheduler adapter file --settings adapter.yaml" />
      </Section>
    </>
  );
}

export interface Details {
  current?: Configuration;
  rounds: Round[];
  rules: RuleSummary[];
  parked: Park[]; // proposals
}

// changes is another text when a scheduler's lists have something new.
export const changes = (s?: Scheduler) => [s?.etag, s?.state, s?.currentConfiguration, s?.status?.proposedConfiguration,
  s?.status?.roundCount, s?.status?.instances?.map((i) => i.reportedRevision)].join(" ");

// details are what a scheduler's card shows besides the scheduler.
export async function details(s: Scheduler): Promise<Details> {
  const [current, rounds, findings, parked] = await Promise.all([
    s.currentConfiguration ? get<Configuration>(path(s.currentConfiguration)) : undefined,
    list<Round>(path(s.name) + "/rounds", "rounds", 100),
    get<{ rules?: RuleSummary[] }>(path(s.name) + "/findings?pageSize=1"),
    list<Park>(path(s.name) + "/configurations:listParked?" + new URLSearchParams({ filter: "proposal = true" }), "parkedConfigurations"),
  ]);
  return { current, rounds, rules: findings.rules ?? [], parked };
}

// Badges are a scheduler's mode, and what keeps it from being tuned.
export function Badges(p: { scheduler: Scheduler }) {
  const s = p.scheduler;
  const frozen = s.freeze && (!s.freeze.expireTime || (s.status?.eventTime ?? "") < s.freeze.expireTime);
  const pinned = s.pin && (!s.pin.expireTime || (s.status?.eventTime ?? "") < s.pin.expireTime);
  const by = (x: { reason?: string; actor?: string }) => `${x.reason ?? ""}${x.actor ? ", by " + x.actor : ""}`;
  return (
    <span class="badges">
      <span class="pill">{s.spec.mode === "AUTO" ? "changes by itself" : "recommends only"}</span>
      {s.state === "PAUSED" && <span class="badge">PAUSED{s.pause?.reason && ": " + by(s.pause)}</span>}
      {frozen && s.freeze && <span class="badge">FROZEN: {by(s.freeze)}</span>}
      {pinned && s.pin && <span class="badge">PINNED: {by(s.pin)}</span>}
      {s.status?.degraded && <span class="badge alarm">DEGRADED</span>}
      {s.status?.deciding && <span class="pill">deciding</span>}
    </span>
  );
}

// Load is what a cluster holds and waits for.
interface Load {
  totalGpus?: number;
  busyGpus?: number;
  waitingGpus?: number;
  waitingJobs?: number;
}

function Card(p: { scheduler: Scheduler; who: Identity; style: Style }) {
  const s = p.scheduler, name = id(s.name), st = s.status ?? {};
  const d = useLoaded(s.name, () => details(s), longPeriod);
  useEffect(d.again, [changes(s)]);
  const load = useLoaded("load of " + s.name, () => get<Load>(path(s.name) + "/load")).data;
  const c = d.data?.current;
  const metric = objectiveOf(s);
  const open = (d.data?.rules ?? []).filter((r) => Number(r.openCount ?? 0))
    .sort((a, b) => (b.wastedGpuHours ?? 0) - (a.wastedGpuHours ?? 0));
  const wasted = open.reduce((n, r) => n + (r.wastedGpuHours ?? 0), 0);
  return (
    <section class="card" aria-labelledby={"card-" + name}>
      <header>
        <h2 id={"card-" + name}><A href={link("/schedulers/" + name)}>{s.displayName || name}</A></h2>
        <span class="soft">{s.spec.schedulerType}{s.spec.cluster?.nodes
          ? `, ${count(s)} GPUs` : ""}</span>
        <Badges scheduler={s} />
      </header>
      <Fault failure={d.failure} />
      <div class="halves">
        <Facts>
          <Fact name="Load and queue now" kind="observed" wide>{load ? <>{f.count(load.busyGpus)} of {f.count(load.totalGpus)} GPUs held; {
            f.plural(load.waitingJobs ?? 0, "job waits", "jobs wait")} for {f.plural(load.waitingGpus ?? 0, "GPU")} (<A
            href={link(`/schedulers/${name}/timeline`)}>timeline</A>)</> : "…"}</Fact>
          <Fact name="In force" kind="observed" wide>{c ? <InForce scheduler={s} current={c} style={p.style} /> : "…"}</Fact>
          <Fact name="What tuning gained" wide>{c ? <>{p.who.may("GetTuningGain") && <Saved name={s.name} current={c} style={p.style} />}
            {c.origin !== "DEFAULT" && <Gain current={c} metric={metric} style={p.style} />}</> : "…"}</Fact>
          <Fact name="Findings, by wasted GPU-hours" kind="observed" wide>
            {!d.data ? "…" : open.length ? (
              <A href={link("/findings", { scheduler: name })}>
                {open.reduce((n, r) => n + Number(r.openCount), 0)} open, {f.number(wasted)} GPU-h: {open.slice(0, 3)
                  .map((r) => `${r.rule.replace(/_/g, " ")} ${f.number(r.wastedGpuHours ?? 0)}`).join(", ")}
              </A>
            ) : "none open"}
          </Fact>
          <Fact name="Last round" wide>{st.lastDecision || (s.spec.schedulerType === "external"
            ? "studies tune it, rounds do not" : "none decided since the service started")}</Fact>
          {d.data?.parked.length ? <Fact name="Parked, to be decided later" wide>{d.data.parked.map((k, i) => <>{i ? "; " : ""}<A
            href={link(`/schedulers/${name}/configurations/${id(k.configuration)}`)}>revision {id(k.configuration)}</A>{
            k.reason && `: ${k.reason}`}</>)}</Fact> : null}
          {st.hold && <Fact name="Why tuning changes nothing now" wide>{st.hold}</Fact>}
          {st.watching && <Fact name="The configuration in force" kind="simulated" wide>{st.watching}</Fact>}
          <Fact name="Events until" kind="observed">{f.instant(st.eventTime, p.style)}{near(st.eventTime)}</Fact>
          <Fact name="Events" kind="observed">{f.count(st.eventCount ?? 0)}</Fact>
        </Facts>
        <div>
          <Ahead name={name} style={p.style} />
          <Forecast rounds={d.data?.rounds} metric={metric} style={p.style} />
        </div>
      </div>
    </section>
  );
}

const count = (s: Scheduler) => f.count((s.spec.cluster?.nodes ?? 0) * (s.spec.cluster?.gpusPerNode ?? 0));

// near is how long an instant is past, where it is of a cluster that lives by the same clock.
function near(t?: string): string {
  return t && Math.abs(Date.now() - Date.parse(t)) < 30 * 86400e3 ? ` (${f.ago(t)})` : "";
}

function InForce(p: { scheduler: Scheduler; current: Configuration; style: Style }) {
  const { scheduler: s, current: c } = p;
  const since = c.acknowledgement?.appliedTime ?? s.status?.instances?.find((i) => i.reportedRevision === c.revision)?.appliedTime;
  const here = `/schedulers/${id(s.name)}/configurations/${c.revision}`;
  const specs = specsOf(s);
  const other = f.changed(defaultsOf(s), c.parameters, s.spec.parameters).filter((k) => c.parameters?.[k] !== undefined);
  return (
    <>
      <A href={link(here)}>revision {c.revision}</A>
      {c.state === "ROLLED_OUT" ? ` since ${f.instant(since ?? c.updateTime, p.style)}` : " is on offer and not in force yet"}
      <br />
      <span class="soft">{other.length
        ? other.slice(0, 6).map((k) => `${k} ${f.value(c.parameters?.[k], specs.get(k))}`).join("; ") +
          (other.length > 6 ? `; ${other.length - 6} more` : "")
        : "the registered defaults"}</span>
    </>
  );
}

interface Band {
  low?: number;
  middle?: number;
  high?: number;
}

interface TuningGain {
  revision?: string;
  noGainReason?: string;
  startTime?: Time;
  endTime?: Time;
  jobCount?: number;
  jobHours?: number;
  delayHours?: number;
  replayedDelayHours?: Band;
  defaultDelayHours?: Band;
  savedHours?: Band;
}

// Saved is the delay of jobs as observed, beside that of a replay of the same time with the registered defaults.
function Saved(p: { name: string; current: Configuration; style: Style }) {
  const d = useLoaded(`gain of ${p.name} ${p.current.revision} ${p.current.state}`, () => get<TuningGain>(path(p.name, "tuningGain")), longPeriod), g = d.data;
  if (!g) return d.failure ? <Fault failure={d.failure} /> : <span class="soft" role="status">What came is replayed with the registered defaults…<br /></span>;
  if (!g.savedHours) return <span class="soft">nothing is compared: {g.noGainReason}<br /></span>;
  const jobs = g.jobCount ?? 0, q = (hours = 0) => f.seconds(Math.round((hours * 3600e3) / (jobs || 1)) / 1000, p.style.unit);
  const { low = 0, middle = 0, high = 0 } = g.savedHours, unclear = low <= 0 && high >= 0;
  const band = (b: Band = {}) => `${q(b.middle)} (${q(b.low)} to ${q(b.high)})`;
  const change = g.defaultDelayHours?.middle && !unclear ? `, ${f.percent(-middle / g.defaultDelayHours.middle)}` : "";
  return (
    <>
      <From kind="simulated" /> <span class={unclear ? "same-t" : middle > 0 ? "good-t" : "bad-t"}>{
        unclear ? "no clear change of the delay of jobs" : middle > 0 ? "jobs are delayed less" : "jobs are delayed more"}</span>:{" "}
      {q(middle)} saved per job ({q(low)} to {q(high)}){change}
      <br />
      <From kind="observed" /> <span class="soft">delay per job {q(g.delayHours)}, of {f.plural(jobs, "job")} since {f.instant(g.startTime, p.style)}, under revision {g.revision}</span>
      <br />
      <From kind="simulated" /> <span class="soft">{band(g.replayedDelayHours)}; with the registered defaults {band(g.defaultDelayHours)}</span>
      <br />
    </>
  );
}

// Gain is what a revision changed: as reported, or else as simulated before it was adopted.
function Gain(p: { current: Configuration; metric: string; style: Style }) {
  const c = p.current, e = c.evidence;
  const m = c.reportedMetrics?.find((r) => r.metricId === p.metric) ?? c.reportedMetrics?.[0];
  return (
    <>
      {m?.previous ? <><span class="tag">observed</span> {reported(m, p.style)}, revision {m.previous.configurationRevision
        }: {reported(m.previous, p.style)}</>
        : <span class="soft">not observed: {m ? "no earlier revision has reports" : "the scheduler reports no metrics"}</span>}
      <br />
      {e?.controllableRatio ? (
        <><span class="tag">simulated</span> the part of the {f.metricName(p.metric)} that settings can influence: {f.gain(e.controllableRatio)}
          {e.ratioLow && e.ratioHigh ? ` (95 %: ${f.gains(e.ratioLow, e.ratioHigh)})` : ""}</>
      ) : <span class="soft">not simulated: no round found this revision</span>}
    </>
  );
}

// reported is the mean of a metric under a revision, with its interval.
export function reported(m: ReportedMetric, style: Style): string {
  const q = (v?: number) => f.quantity(m.metricId, v, style.unit);
  return `${f.metricName(m.metricId)} ${q(m.mean ?? 0)}` +
    (m.meanLow !== undefined ? ` (95 %: ${q(m.meanLow)} to ${q(m.meanHigh)})` : "");
}

// Forecast shows what rounds expected of what ran, and of the best that they found.
export function Forecast(p: { rounds?: Round[]; metric: string; style: Style }) {
  if (!p.rounds) return <p class="soft">…</p>;
  const rounds = p.rounds.filter((r) => r.schedulerTime && r.incumbentObjectives?.length).reverse();
  if (!rounds.length) return <p class="soft">No round has been decided yet: there is no forecast.</p>;
  const of = (r: Round, xs: number[] = []) => ({
    x: Date.parse(r.schedulerTime!), y: f.mean(xs) ?? 0, low: Math.min(...xs), high: Math.max(...xs),
  });
  const notes = rounds.flatMap((r, i) => i && r.incumbentRevision !== rounds[i - 1]!.incumbentRevision
    ? [{ x: Date.parse(r.schedulerTime!), text: `revision ${r.incumbentRevision ?? 0} in force` }] : []);
  return (
    <Chart title={`Forecast of the ${f.metricName(p.metric)}, by round`} kind="simulated" time={f.isTime(p.metric)} xName={`Round (${f.zoneName(p.style)})`}
      series={[
        { name: "if nothing changes (least to most over futures)", color: "c4",
          points: rounds.map((r) => of(r, r.incumbentObjectives)) },
        { name: "best configuration found", color: "c5", dash: "6 3",
          points: rounds.filter((r) => r.predictedObjectives?.length).map((r) => {
            const { x, y } = of(r, r.predictedObjectives);
            return { x, y };
          }) },
      ]}
      notes={notes} x={(v) => f.instant(v, p.style).slice(0, 16)} y={(v) => f.quantity(p.metric, v, p.style.unit)} />
  );
}
