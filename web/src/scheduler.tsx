import { useEffect } from "preact/hooks";
import { get, id, list, path } from "./api";
import type { Configuration, Park, Round, Scheduler, Time } from "./api";
import * as f from "./format";
import type { Style } from "./format";
import { Badges, changes, Forecast, objectiveOf, tasks } from "./overview";
import { originWords, orNothing, stateWords } from "./proposal";
import { link, longPeriod, setQuery, useLoaded, useWatch } from "./state";
import type { Identity } from "./state";
import { A, Bars, Fact, Facts, Fault, Section, Table, Verdict } from "./ui";

async function load(name: string) {
  const parent = path("schedulers/" + name);
  const [revisions, rounds, parked] = await Promise.all([
    list<Configuration>(parent + "/configurations", "configurations", 500),
    list<Round>(parent + "/rounds", "rounds", 1000),
    orNothing(list<Park>(parent + "/configurations:listParked", "parkedConfigurations")),
  ]);
  return { revisions, rounds, parked: parked ?? [] };
}

// SchedulerPage is what a scheduler runs and ran.
export function SchedulerPage(p: { name: string; url: URL; who: Identity; style: Style }) {
  const now = useLoaded(p.name, () => get<Scheduler>(path("schedulers/" + p.name)));
  const d = useLoaded("lists " + p.name, () => load(p.name), longPeriod);
  useWatch("schedulers/" + p.name, now.again);
  useEffect(d.again, [changes(now.data)]);
  const failure = now.failure ?? d.failure;
  if (!now.data || !d.data) return failure ? <Fault failure={failure} /> : <p class="soft">…</p>;
  const s = now.data, { revisions, rounds, parked } = d.data;
  const state = (p.url.searchParams.get("state") ?? "").toUpperCase();
  const known = [...new Set([...revisions.map((r) => r.state ?? ""), state])].filter(Boolean).sort();
  const todo = tasks(s), metric = objectiveOf(s), at = (t?: string) => f.instant(t, p.style);
  const to = (n?: string) => n && n !== "0"
    ? <A href={link(`/schedulers/${p.name}/configurations/${n}`)}>{n}</A> : "–";
  return (
    <>
      <Fault failure={failure} />
      <Verdict tone={todo[0]?.tone ?? "good"} title={todo[0]?.text ?? `${p.name}: nothing waits for you`}>
        {todo[0] && <p><A href={link(todo[0].href)}>{todo[0].link}</A></p>}
        <Badges scheduler={s} />
        {p.who.may("WhatIf") && <p><A href={link(`/schedulers/${p.name}/what-if`)}>What if it ran with other values?</A></p>}
      </Verdict>
      <Section title="Where it stands">
        <Facts>
          <Fact name="Scheduler">{s.spec.schedulerType}</Fact>
          <Fact name="Objective">{s.spec.objective?.goal || f.metricName(metric)}</Fact>
          <Fact name="On offer">revision {to(id(s.currentConfiguration))}</Fact>
          <Fact name="Events until" kind="observed">{at(s.status?.eventTime)}</Fact>
          {s.status?.fidelity && <Fact name="Simulation against history" wide>{s.status.fidelity}</Fact>}
        </Facts>
        <Forecast rounds={rounds.slice(0, 720)} metric={metric} style={p.style} />
      </Section>
      <Freshness scheduler={s} style={p.style} />
      <Section title="Instances" hint="What each says that it runs.">
        <Table caption="Instances" rows={s.status?.instances ?? []} empty="None has acknowledged anything." columns={[
          { name: "Instance", text: true, cell: (r) => r.instanceId || "the only one" },
          { name: "Condition", text: true, cell: (r) => `${(r.condition ?? "").toLowerCase().replace("_", " ")}${r.reason ? ": " + r.reason : ""}` },
          { name: "Runs", kind: "observed", cell: (r) => to(r.reportedRevision) },
          { name: "Should run", cell: (r) => to(r.desiredRevision) },
          { name: "Since", cell: (r) => at(r.appliedTime) },
        ]} />
      </Section>
      {parked.length > 0 && (
        <Section title="Parked" hint="Proposals that were set aside, which can be approved or rejected, and values that are not offered.">
          <Table caption="Parked" rows={parked} most={15} columns={[
            { name: "Revision", text: true, cell: (r) => to(id(r.configuration)) },
            { name: "What", text: true, cell: (r) => <>{r.proposal ? "a proposal" : "values"}<span class="what soft">{r.reason}</span></> },
            { name: "By", text: true, cell: (r) => r.actor || "–" },
            { name: "Since", cell: (r) => at(r.createTime) },
            { name: "Until", cell: (r) => r.expireTime ? at(r.expireTime) : r.proposal ? "a decision" : "they are unparked" },
          ]} />
        </Section>
      )}
      <Section title="Configurations" hint="Newest first. The values of a revision never change; a roll-back is a new one.">
        <p class="filters"><label>State <select value={state} onChange={(e) => setQuery("state", e.currentTarget.value.toLowerCase())}>
          <option value="">all</option>{known.map((k) => <option key={k} value={k}>{k.toLowerCase().replace("_", " ")}</option>)}
        </select></label></p>
        <Table caption="Configurations" rows={revisions.filter((r) => !state || r.state === state)} most={15} empty="None is in this state." columns={[
          { name: "Revision", text: true, cell: (r) => to(r.revision) },
          { name: "State", text: true, cell: (r) => stateWords(r.state) },
          { name: "Why", text: true, cell: (r) => <>{originWords(r.origin)}<span class="what soft">{r.reason}</span></> },
          { name: "Made", cell: (r) => at(r.createTime) },
        ]} />
      </Section>
      <Section title="Rounds" hint={<>Every decision, with those that changed nothing; with changes by people in the <A href={link(`/schedulers/${p.name}/history`)}>history</A>.</>}>
        <Table caption="Rounds" rows={rounds} most={15} empty="None is kept." columns={[
          { name: "Round", text: true, cell: (r) => <A href={link(`/schedulers/${p.name}/history`, { round: id(r.name) })}>{id(r.name)}</A> },
          { name: "For", cell: (r) => at(r.schedulerTime) },
          { name: "Outcome", text: true, kind: "simulated", cell: (r) => r.error || r.outcome },
          { name: "Revision", cell: (r) => to(r.revision) },
        ]} />
      </Section>
    </>
  );
}

interface Load {
  schedulerTime?: Time;
  receiveTime?: Time;
  sampleTime?: Time;
  acknowledgeTime?: Time;
}

// Freshness is how old the latest records are: of the scheduler's time against the latest event, of the service's against
// now.
function Freshness(p: { scheduler: Scheduler; style: Style }) {
  const s = p.scheduler;
  const l = useLoaded<Load>("load of " + s.name, () => get(path(s.name) + "/load")).data;
  if (!l) return null;
  const ends = (s.status?.reportedMetrics ?? []).flatMap((m) => m.endTime ? [m.endTime] : []).sort();
  const event = l.schedulerTime, now = new Date().toISOString();
  const rows = [
    { name: "Events", at: l.receiveTime, against: now, clock: "service's" },
    { name: "Samples of GPUs", at: l.sampleTime, against: event, clock: "scheduler's" },
    { name: "Metrics", at: ends.at(-1), against: event, clock: "scheduler's" },
    { name: "Acknowledgements", at: l.acknowledgeTime, against: now, clock: "service's" },
  ].map((r) => ({ ...r, lag: r.at && r.against ? Math.max(0, (Date.parse(r.against) - Date.parse(r.at)) / 1000) : undefined }));
  return (
    <Section title="Data freshness" hint={`When records last came, and how long before the latest event (${f.instant(event, p.style)}), or before now by the service's clock, that was.`}>
      <Bars title="lags" kind="observed" rows={rows.flatMap((r) => r.lag === undefined ? [] : [{ name: r.name, value: r.lag, text: f.seconds(r.lag, p.style.unit) }])} />
      <Table caption="Data freshness" rows={rows} columns={[
        { name: "Records", text: true, cell: (r) => r.name },
        { name: "Last", kind: "observed", cell: (r) => r.at ? f.instant(r.at, p.style) : "none" },
        { name: "By the clock of", text: true, cell: (r) => r.clock === "service's" ? "the service" : "the scheduler" },
        { name: "Lag", cell: (r) => f.seconds(r.lag, p.style.unit) },
      ]} />
    </Section>
  );
}
