// The jobs of a scheduler, one job, and its tenants.

import { get, id, list, path } from "./api";
import type { Time } from "./api";
import * as f from "./format";
import type { Style } from "./format";
import { link, longPeriod, setQuery, useLoaded } from "./state";
import { span } from "./timeline";
import { A, Bars, Fact, Facts, Fault, From, Section, Table, Verdict } from "./ui";

interface Spell {
  startTime: Time;
  endTime?: Time;
  gpus?: number;
  placement?: { nodeId: string; gpus?: number }[];
  lostDuration?: string;
}

interface Job {
  name: string;
  details: { jobId: string; user?: string; tenant?: string; key?: string; model?: string; milliGpus?: string; endStatus?: string };
  state: string;
  submitTime: Time;
  startTime?: Time;
  endTime?: Time;
  waitDuration?: string;
  runDuration?: string;
  attainedService?: string;
  preemptionCount?: number;
  heldGpus?: number;
  spells?: Spell[];
}

interface Instants {
  futures?: number;
  lowTime?: Time;
  middleTime?: Time;
  highTime?: Time;
}

interface Explained {
  job: Job;
  waits?: { cause: string; duration: string; share?: number; simulated?: boolean; detail?: string }[];
  instantCount?: number;
  passedCount?: number;
  simulatedInstantCount?: number;
  noModelReason?: string;
  start?: Instants;
  end?: Instants;
  schedulerTime?: Time;
  horizonTime?: Time;
  futures?: number;
  noFuturesReason?: string;
  limitedReason?: string;
  usage?: { startTime: Time; endTime: Time; sampleCount: number; busy?: number; memoryMib?: number; powerWatts?: number; partial?: boolean };
}

interface Tenant {
  tenant?: string;
  quotaGpus?: number;
  gpuHours?: number;
  share?: number;
  waitingGpuHours?: number;
  jobCount?: number;
  startedCount?: number;
  meanWaitDuration?: string;
  p95WaitDuration?: string;
  preemptionCount?: number;
  meanRestartWaitDuration?: string;
  busyGpus?: number;
}

interface Props {
  name: string;
  url: URL;
  style: Style;
}

const gpus = (j: Job) => f.number(Number(j.details.milliGpus ?? 0) / 1000);
const states: Record<string, string> = { WAITING: "waits", RUNNING: "runs", ENDED: "ended", MISSING: "missing" };
const standing = (j: Job) => j.state === "ENDED" && j.details.endStatus
  ? j.details.endStatus.toLowerCase().replace(/_/g, " ") : states[j.state] ?? j.state;

const causes: Record<string, string> = {
  HELD: "It may not start before an instant",
  QUOTA: "The quota of its tenant had no room",
  BUSY: "Fewer GPUs were free than it asks for",
  FRAGMENTED: "Enough GPUs were free, but not on the fewest nodes that can hold it",
  BEHIND_OTHERS: "There was room, and jobs ahead of it waited",
  UNKNOWN: "There was room: the scheduler's reason is not reported",
  LIMIT: "A limit of its user, account or QOS",
  RESERVED: "It would have delayed a job of a higher priority that these GPUs were reserved for",
  SET_APART: "The nodes were set apart by an advance reservation",
  DEPTH: "The scheduler's cycles looked at fewer jobs",
  CYCLE: "The scheduler's next cycle, which started it, had not come",
};

// JobsPage lists jobs, or shows the one that the query names.
export function JobsPage(p: Props) {
  const job = p.url.searchParams.get("job");
  return job && /^[A-Za-z0-9._~-]+$/.test(job) ? <JobPage {...p} job={job} /> : <Jobs {...p} />;
}

const mostJobs = 200;

function Jobs(p: Props) {
  const q = (k: string) => p.url.searchParams.get(k) ?? "";
  const ask = new URLSearchParams({ pageSize: String(mostJobs) });
  for (const [k, v] of Object.entries({ startTime: q("from"), endTime: q("to"), tenant: q("tenant"), user: q("user"), nodeId: q("node") })) {
    if (v) ask.set(k, v);
  }
  if (/^[A-Z]+$/.test(q("state"))) ask.set("filter", `state = ${q("state")}`);
  const d = useLoaded<{ jobs?: Job[]; nextPageToken?: string }>(ask.toString(), () => get(path(`schedulers/${p.name}`) + "/jobs?" + ask));
  const jobs = d.data?.jobs ?? [];
  return (
    <>
      <p class="filters">
        <label>State <select value={q("state")} onChange={(e) => setQuery("state", e.currentTarget.value)}>
          <option value="">all</option>
          {Object.entries(states).map(([k, v]) => <option key={k} value={k}>{v}</option>)}
        </select></label>
        {["tenant", "user", "node"].map((k) => <label key={k}>{k[0]!.toUpperCase() + k.slice(1)} <input value={q(k)} size={10}
          onChange={(e) => setQuery(k, e.currentTarget.value)} /></label>)}
        {(q("from") || q("to")) && <A href={link(p.url.pathname)}>Of any time</A>}
      </p>
      <Fault failure={d.failure} />
      {d.data && <Section title="Jobs" hint={`The latest submitted first${d.data.nextPageToken ? `, ${mostJobs} of more` : ""}.` +
        (q("from") ? ` There from ${f.instant(q("from"), p.style)} to ${f.instant(q("to"), p.style)}.` : "")}>
        <Table caption="Jobs" rows={jobs} most={50} empty="No job is known that fits." columns={[
          { name: "Job", text: true, cell: (j) => <A href={link(p.url.pathname, { job: id(j.name) })}>{j.details.jobId}</A> },
          { name: "State", text: true, cell: standing },
          { name: "GPUs", cell: gpus },
          { name: "Tenant", text: true, cell: (j) => j.details.tenant || "–" },
          { name: "User", text: true, cell: (j) => j.details.user || "–" },
          { name: "Submitted", cell: (j) => f.instant(j.submitTime, p.style) },
          { name: "Waited", kind: "observed", cell: (j) => f.seconds(span(j.waitDuration), p.style.unit) },
          { name: "Ran", cell: (j) => f.seconds(span(j.runDuration), p.style.unit) },
        ]} />
      </Section>}
    </>
  );
}

function JobPage(p: Props & { job: string }) {
  const name = `schedulers/${p.name}/jobs/${p.job}`;
  const now = useLoaded<Job>(name, () => get(path(name)), longPeriod);
  const d = useLoaded<Explained>(name + ":explain", () => get(path(name, "explain")), longPeriod);
  const j = now.data;
  if (!j) return <Fault failure={now.failure} />;
  const x = d.data;
  const within = (i: Instants | undefined) => !i ? undefined : !i.futures
    ? `in none of ${x?.futures} futures until ${f.instant(x?.horizonTime, p.style)}`
    : `${f.instant(i.lowTime, p.style)} to ${f.instant(i.highTime, p.style)}, in the middle ${f.instant(i.middleTime, p.style)}` +
      (i.futures < (x?.futures ?? 0) ? `; in ${i.futures} of ${x?.futures} futures` : "");
  const total = (span(j.waitDuration) ?? 0) + (span(j.runDuration) ?? 0);
  const title = j.state === "WAITING" ? `It waits, for ${f.seconds(span(j.waitDuration), p.style.unit)} so far`
    : j.state === "RUNNING" ? `It runs on ${f.plural(j.heldGpus ?? 0, "GPU")}` : j.state === "MISSING" ? "A snapshot lacks it: its end is not known"
      : `It ended: ${standing(j)}`;
  return (
    <>
      <p><A href={link(p.url.pathname)}>All jobs</A></p>
      <Verdict tone={j.state === "WAITING" ? "open" : j.details.endStatus && j.details.endStatus !== "COMPLETED" ? "bad" : "good"} title={title}>
        {x?.start && <p>It starts {within(x.start)} <From kind="simulated" /></p>}
        {x?.end && <p>It ends {within(x.end)} <From kind="simulated" /></p>}
        {x?.noFuturesReason && <p class="soft">When it starts and ends is not simulated: {x.noFuturesReason}.</p>}
        {x?.limitedReason && <p class="soft">The simulation is bounded: {x.limitedReason}.</p>}
      </Verdict>
      <Section title="The job">
        <Facts>
          <Fact name="Id" wide>{j.details.jobId}</Fact>
          <Fact name="GPUs asked for">{gpus(j)}</Fact>
          <Fact name="Tenant">{j.details.tenant || "–"}</Fact>
          <Fact name="User">{j.details.user || "–"}</Fact>
          <Fact name="Submitted">{f.instant(j.submitTime, p.style)}</Fact>
          <Fact name="Started">{f.instant(j.startTime, p.style)}</Fact>
          <Fact name="Ended">{f.instant(j.endTime, p.style)}</Fact>
          <Fact name="Waited, ran" kind="observed">{f.seconds(span(j.waitDuration), p.style.unit)}, {f.seconds(span(j.runDuration), p.style.unit)}</Fact>
          <Fact name="GPU-hours" kind="observed">{f.number((span(j.attainedService) ?? 0) / 3600)}</Fact>
          <Fact name="Stopped">{f.plural(j.preemptionCount ?? 0, "time")}</Fact>
        </Facts>
        <Fault failure={now.failure ?? d.failure} />
      </Section>
      <Section title="Why it waited" hint={x?.instantCount ? `From events, at ${f.plural(x.instantCount, "instant")} of its waiting; the first reason that held counts.` +
        (x.simulatedInstantCount ? ` Where there was room, the scheduler was simulated at ${f.plural(x.simulatedInstantCount, "instant")}.` : "") +
        (x.noModelReason ? ` Where there was room, the scheduler was not simulated: ${x.noModelReason}.` : "") +
        (x.passedCount ? ` ${f.plural(x.passedCount, "job")} submitted later started meanwhile.` : "") : undefined}>
        {!x ? <p class="soft">Being worked out.</p> : <Table caption="Why it waited" rows={x.waits ?? []} empty="It did not wait." columns={[
          { name: "Reason", text: true, cell: (w) => <>{causes[w.cause] ?? w.cause}{w.detail && `: ${w.detail}`} <From kind={w.simulated ? "simulated" : "observed"} /></> },
          { name: "For", cell: (w) => f.seconds(span(w.duration), p.style.unit) },
          { name: "Share", cell: (w) => f.share(w.share ?? 0) },
        ]} />}
      </Section>
      <Section title="When it ran">
        <Table caption="Times with GPUs" rows={j.spells ?? []} most={20} empty={total ? "It has not run." : "It has only just come."} columns={[
          { name: "From", text: true, cell: (s) => f.instant(s.startTime, p.style) },
          { name: "To", cell: (s) => s.endTime ? f.instant(s.endTime, p.style) : "now" },
          { name: "GPUs", cell: (s) => s.gpus ?? 0 },
          { name: "Nodes", text: true, cell: (s) => s.placement?.map((n) => `${n.nodeId} (${n.gpus ?? 0})`).join(", ") || "not reported" },
        ]} />
      </Section>
      <Section title="What it uses">
        {x?.usage ? <Facts>
          <Fact name="GPUs in use, mean" kind="observed">{f.share(x.usage.busy)}</Fact>
          <Fact name="Memory of a GPU, mean" kind="observed">{x.usage.memoryMib === undefined ? "–" : f.number(x.usage.memoryMib / 1024) + "\u00a0GiB"}</Fact>
          <Fact name="Power of a GPU, mean" kind="observed">{x.usage.powerWatts === undefined ? "–" : f.number(x.usage.powerWatts) + "\u00a0W"}</Fact>
          <Fact name="Samples">{f.count(x.usage.sampleCount)}{x.usage.partial ? ", of its last seven days" : ""}</Fact>
        </Facts> : <p class="soft">No sample of GPUs names the job.</p>}
      </Section>
    </>
  );
}

// TenantsPage is what each tenant got.
export function TenantsPage(p: Props) {
  const days = [1, 7, 28].find((n) => String(n) === p.url.searchParams.get("days")) ?? 7;
  const d = useLoaded<Tenant[]>(`${p.name} ${days}`, async () => {
    const now = await get<{ schedulerTime?: Time }>(path(`schedulers/${p.name}`) + "/load");
    const from = now.schedulerTime && new Date(Date.parse(now.schedulerTime) - days * 86400e3).toISOString();
    return list<Tenant>(path(`schedulers/${p.name}`) + "/tenants" + (from ? "?startTime=" + encodeURIComponent(from) : ""), "tenants");
  }, longPeriod);
  const rows = d.data ?? [];
  return (
    <>
      <p class="filters"><label>The last <select value={String(days)} onChange={(e) => setQuery("days", e.currentTarget.value)}>
        <option value="1">day</option><option value="7">week</option><option value="28">28 days</option>
      </select></label></p>
      <Fault failure={d.failure} />
      {d.data && rows.length > 0 && <Section title="Shares" hint="Of the GPU-hours that were held.">
        <Bars title="shares" kind="observed" rows={rows.slice(0, 12).map((r) => ({ name: r.tenant || "no tenant", value: r.share ?? 0,
          text: f.share(r.share ?? 0) }))} />
      </Section>}
      {d.data && <Section title="Tenants">
        <Table caption="Tenants" rows={rows} most={50} empty="No job was there in this time." columns={[
          { name: "Tenant", text: true, cell: (r) => <A href={link(`/schedulers/${p.name}/jobs`, r.tenant ? { tenant: r.tenant } : {})}>{r.tenant || "no tenant"}</A> },
          { name: "Share", kind: "observed", cell: (r) => f.share(r.share ?? 0) },
          { name: "GPU-hours", cell: (r) => f.number(r.gpuHours ?? 0) },
          { name: "GPU-hours waited for", cell: (r) => f.number(r.waitingGpuHours ?? 0) },
          { name: "GPUs at the end, of quota", cell: (r) => f.count(r.busyGpus) + (r.quotaGpus ? ` of ${f.count(r.quotaGpus)}` : "") },
          { name: "Jobs, started", cell: (r) => `${f.count(r.jobCount)}, ${f.count(r.startedCount)}` },
          { name: "Wait for the first start, mean", cell: (r) => f.seconds(span(r.meanWaitDuration), p.style.unit) },
          { name: "p95", cell: (r) => f.seconds(span(r.p95WaitDuration), p.style.unit) },
          { name: "Stopped", cell: (r) => f.count(r.preemptionCount) },
          { name: "Wait after that, mean", cell: (r) => f.seconds(span(r.meanRestartWaitDuration), p.style.unit) },
        ]} />
      </Section>}
    </>
  );
}
