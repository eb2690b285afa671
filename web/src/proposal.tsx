import { useState } from "preact/hooks";
import { call, defaultsOf, Failure, get, id, list, path, specsOf } from "./api";
import type { Configuration, Explanation, Group, Park, Round, Scheduler } from "./api";
import * as f from "./format";
import type { Style } from "./format";
import { objectiveOf, reported } from "./overview";
import { link, useLoaded, useWatch } from "./state";
import type { Identity } from "./state";
import { A, Ask, Chart, Command, Fact, Facts, Fault, From, Section, Table, Verdict } from "./ui";
import type { Tone } from "./ui";

interface Data {
  scheduler: Scheduler;
  revision: Configuration;
  incumbent?: Configuration; // what it is compared with
  round?: Round;
  park?: Park; // why its values are not offered
  earlier: Configuration[]; // what rounds found before, and was in force
}

// orNothing turns an answer that there is nothing into undefined.
export async function orNothing<T>(p: Promise<T>): Promise<T | undefined> {
  try {
    return await p;
  } catch (e) {
    if (e instanceof Failure && (e.status === 404 || e.status === 403)) return undefined;
    throw e;
  }
}

async function load(name: string, revision: string): Promise<Data> {
  const parent = "schedulers/" + name;
  const [scheduler, c] = await Promise.all([
    get<Scheduler>(path(parent)), get<Configuration>(path(`${parent}/configurations/${revision}`)),
  ]);
  const before = c.evidence?.incumbentRevision || (c.name !== scheduler.currentConfiguration ? id(scheduler.currentConfiguration) : "");
  const [incumbent, round, parked, earlier] = await Promise.all([
    before && before !== "0" ? orNothing(get<Configuration>(path(`${parent}/configurations/${before}`))) : undefined,
    c.evidence?.roundName ? orNothing(get<Round>(path(c.evidence.roundName))) : undefined,
    orNothing(get<{ parkedConfigurations?: Park[] }>(path(parent) + "/configurations:listParked?pageSize=1000")),
    promises(parent, Number(revision)),
  ]);
  return { scheduler, revision: c, incumbent, round, earlier,
    park: parked?.parkedConfigurations?.find((k) => k.contentHash === c.contentHash) };
}

// promises are the newest revisions before one that rounds found and that were in force, with what came under them.
export async function promises(parent: string, before = Infinity): Promise<Configuration[]> {
  const all = await list<Configuration>(path(parent) + "/configurations?" +
    new URLSearchParams({ filter: "origin = TUNED" }), "configurations", 200);
  const kept = all.filter((c) => Number(c.revision) < before && (c.acknowledgement?.appliedTime || c.incident || c.state === "ROLLED_OUT"));
  return Promise.all(kept.slice(0, 8).map((c) => get<Configuration>(path(c.name))));
}

const states: Record<string, { tone: Tone; words: string }> = {
  PROPOSED: { tone: "open", words: "waits for a decision" },
  PARKED: { tone: "open", words: "is parked: it waits for no decision" },
  PUBLISHED: { tone: "open", words: "is on offer and not in force yet" },
  ROLLED_OUT: { tone: "good", words: "is in force" },
  SUPERSEDED: { tone: "open", words: "was replaced by a later one" },
  REJECTED: { tone: "bad", words: "was rejected, and its values are parked" },
  LOST: { tone: "bad", words: "is damaged in the service's store" },
};

export const stateWords = (state = "") => states[state]?.words ?? state.toLowerCase();

const origins: Record<string, string> = {
  DEFAULT: "the registered defaults", TUNED: "a tuning round found it", RESTORED: "an earlier revision again",
  REVERTED: "the last good values again, after a worse revision", PROJECTED: "the nearest values in a new space",
  PINNED: "pinned by an operator", MANUAL: "proposed by an operator", STUDY: "a trial of a study",
};

export const originWords = (origin = "") => origins[origin] ?? origin.toLowerCase();

// reviewWords says how an operator decided about a proposal, and who did.
export const reviewWords = (r: NonNullable<Configuration["review"]>) =>
  `${r.approved ? "Approved" : r.parked ? "Parked" : "Rejected"} by ${r.actor || "an operator"}${r.reason ? `: ${r.reason}` : ""}`;

type Act = "approve" | "park" | "reject" | "rollback" | "unpark";

export function RevisionPage(p: { name: string; number: string; who: Identity; style: Style }) {
  const d = useLoaded(`${p.name}/${p.number}`, () => load(p.name, p.number));
  useWatch("schedulers/" + p.name, d.again);
  const [act, setAct] = useState<Act>();
  const [done, setDone] = useState("");
  if (!d.data) return d.failure ? <Fault failure={d.failure} /> : <p class="soft">…</p>;
  const { scheduler: s, revision: c, incumbent, round, park } = d.data;
  const state = states[c.state ?? ""] ?? { tone: "open" as Tone, words: "" };
  const base = "autosched scheduler config";
  const current = c.name === s.currentConfiguration, undecided = c.state === "PROPOSED" || c.state === "PARKED";
  // A dialog that closes leaves another one open.
  const closed = (which: Act) => setAct((now) => now === which ? undefined : now);
  const perform = async (reason: string) => {
    if (act === "approve") {
      await call("POST", path(c.name, "approve"), { etag: c.etag }, reason);
      setDone(`Revision ${c.revision} is approved: the service offers it.`);
    } else if (act === "reject") {
      await call("POST", path(c.name, "reject"), { etag: c.etag, reason }, reason);
      setDone(`Revision ${c.revision} is rejected: its values are parked.`);
    } else if (act === "park") {
      await call("POST", path(c.name, "park"), { etag: c.etag, reason }, reason);
      setDone(`Revision ${c.revision} is parked.`);
    } else if (act === "unpark") {
      const now = await call<Configuration>("POST", path(c.name, "unpark"), { etag: c.etag }, reason);
      setDone(now.state === "PROPOSED" ? `Revision ${now.revision} waits again.` : "The values may be offered again.");
    } else {
      const to = await call<Configuration>("POST", path(s.name) + "/configurations:rollback", { fromRevision: c.revision }, reason);
      setDone(`Rolled back: the service offers revision ${to.revision}.`);
    }
    d.again();
  };
  return (
    <>
      <Fault failure={d.failure} />
      <Verdict tone={state.tone} title={`Revision ${c.revision} of ${p.name} ${state.words}`}>
        {c.reason && <p>{c.evidence && <From kind="simulated" />} {c.reason}</p>}
        {c.incident?.reason && <p class="bad-t">{c.incident.reason}</p>}
        {c.review && <p>{reviewWords(c.review)} ({f.instant(c.review.createTime, p.style)})</p>}
        <p role="status">{done}</p>
        {undecided && (
          <>
            <div class="choices">
              <div>
                <h3>Approve</h3>
                <p>The service offers it to {p.name}{instances(s)}. A roll-back brings {incumbent
                  ? `revision ${incumbent.revision}` : "the former values"} back.</p>
                <Command text={`${base} approve ${p.name} --revision ${c.revision}`} />
                {p.who.may("ApproveConfiguration") && <button type="button" class="main" onClick={() => setAct("approve")}>Approve…</button>}
              </div>
              <div>
                <h3>Do nothing</h3>
                <p>{incumbent ? `Revision ${incumbent.revision}` : "What runs"} stays in force. The next round decides anew,
                  and may replace this proposal.</p>
                {round && <p><From kind="simulated" /> {f.metricName(objectiveOf(s))} {f.quantity(objectiveOf(s),
                  f.mean(round.incumbentObjectives), p.style.unit)} if nothing changes</p>}
              </div>
              {c.state === "PROPOSED" ? (
                <div>
                  <h3>Park</h3>
                  <p>It waits for no decision, and no round proposes the same. It can be approved or rejected until another
                    configuration is offered.</p>
                  <Command text={`${base} park ${p.name} --revision ${c.revision} --reason WHY`} />
                  {p.who.may("ParkConfiguration") && <button type="button" onClick={() => setAct("park")}>Park…</button>}
                </div>
              ) : (
                <div>
                  <h3>Unpark</h3>
                  <p>It waits for a decision again.</p>
                  <Command text={`${base} unpark ${p.name} --revision ${c.revision}`} />
                  {p.who.may("UnparkConfiguration") && <button type="button" onClick={() => setAct("unpark")}>Unpark…</button>}
                </div>
              )}
              <div>
                <h3>Reject</h3>
                <p>Its values are parked: no round offers them until they are unparked.</p>
                <Command text={`${base} reject ${p.name} --revision ${c.revision} --reason WHY`} />
                {p.who.may("RejectConfiguration") && <button type="button" class="danger" onClick={() => setAct("reject")}>Reject…</button>}
              </div>
            </div>
            {!p.who.may("ApproveConfiguration") && <p class="soft">Your role, {p.who.role}, may look and not decide.</p>}
          </>
        )}
        {park && !undecided && (
          <>
            <p>Its values are parked{park.actor ? ` by ${park.actor}` : ""}{park.reason ? `: ${park.reason}` : ""}{park.expireTime
              ? `, until ${f.instant(park.expireTime, p.style)} of the scheduler's time` : ", until they are unparked"}{park.proposal
              ? <>, with <A href={link(`/schedulers/${p.name}/configurations/${id(park.configuration)}`)}>revision {id(park.configuration)}</A></> : ""}.</p>
            <Command text={`${base} unpark ${p.name} --revision ${c.revision}`} />
            {p.who.may("UnparkConfiguration") && <button type="button" onClick={() => setAct("unpark")}>Unpark…</button>}
          </>
        )}
        {current && c.origin !== "DEFAULT" && (
          <>
            <Command text={`${base} rollback ${p.name} --from-revision ${c.revision}`} />
            {p.who.may("RollbackConfiguration") && <button type="button" class="danger" onClick={() => setAct("rollback")}>Roll back…</button>}
          </>
        )}
      </Verdict>
      {act === "approve" && (
        <Ask title={`Approve revision ${c.revision} of ${p.name}?`} act="Approve" close={() => closed("approve")} done={perform}>
          <p>{f.changed(incumbent?.parameters, c.parameters, s.spec.parameters).length} parameters change.</p>
        </Ask>
      )}
      {act === "reject" && (
        <Ask title={`Reject revision ${c.revision} of ${p.name}?`} act="Reject" tone="bad" required close={() => closed("reject")} done={perform} />
      )}
      {act === "park" && (
        <Ask title={`Park revision ${c.revision} of ${p.name}?`} act="Park" required close={() => closed("park")} done={perform} />
      )}
      {act === "unpark" && (
        <Ask title={`Unpark the values of revision ${c.revision} of ${p.name}?`} act="Unpark" close={() => closed("unpark")} done={perform}>
          <p>{c.state === "PARKED" ? "It waits for a decision again." : "Rounds may offer them again."} They are not offered by this.</p>
        </Ask>
      )}
      {act === "rollback" && (
        <Ask title={`Roll back revision ${c.revision} of ${p.name}?`} act="Roll back" tone="bad" close={() => closed("rollback")} done={perform}>
          <p>The last other values that the scheduler applied are offered again, under a new revision.</p>
        </Ask>
      )}
      <Evidence data={d.data} may={p.who.may} style={p.style} />
    </>
  );
}

function instances(s: Scheduler): string {
  const n = s.status?.instances?.length ?? 0;
  return n === 0 ? ", of which no instance has reported yet" : n === 1 ? " and its instance" : `, which has ${n} instances`;
}

function Evidence(p: { data: Data; may: (m: string) => boolean; style: Style }) {
  const { scheduler: s, revision: c, incumbent, round } = p.data;
  const explains = Boolean(c.evidence?.roundName) && p.may("ExplainConfiguration");
  const x = useLoaded(c.name + explains, async () => explains ? get<Explanation>(path(c.name, "explain")) : undefined, 0);
  const metric = objectiveOf(s), unit = p.style.unit;
  const specs = specsOf(s);
  const before = incumbent?.parameters ?? defaultsOf(s);
  const rows = f.changed(before, c.parameters, s.spec.parameters);
  const parts = new Map((x.data?.parameterContributions ?? []).map((q) => [q.parameterId, q]));
  const e = c.evidence;
  const futures = (round?.incumbentObjectives ?? []).map((v, i) => ({ x: i + 1, from: v, to: round?.predictedObjectives?.[i] }))
    .filter((q): q is { x: number; from: number; to: number } => q.to !== undefined);
  const own = round?.revision === c.revision; // the futures are of these very values
  const better = futures.filter((q) => q.to < q.from).length;
  const from = incumbent ? `revision ${incumbent.revision}` : "the defaults";
  const against = [
    ...(x.data?.limits ?? []),
    ...(e?.ratioLow !== undefined && e.ratioLow < 1 && e.ratioHigh
      ? [`The 95 % interval includes no change: ${f.gains(e.ratioLow, e.ratioHigh)}.`] : []),
    ...(own && better < futures.length ? [`No better in ${futures.length - better} of ${futures.length} futures.`] : []),
    ...(s.status?.hold && c.state === "PROPOSED" ? [s.status.hold] : []),
  ];
  return (
    <>
      <Section title="What changes" hint={`From ${from} to revision ${c.revision}: ${originWords(c.origin)}.`}>
        <Table caption="Parameters that differ" rows={rows} most={100} empty="No parameter differs." columns={[
          { name: "Parameter", text: true, cell: (k) => <><code>{k}</code>
            <span class="what soft">{specs.get(k)?.description}</span></> },
          { name: "Now", cell: (k) => f.value(before[k], specs.get(k)) },
          { name: "Then", cell: (k) => <strong>{f.value(c.parameters?.[k], specs.get(k))}</strong> },
          { name: "Unit", cell: (k) => specs.get(k)?.unit || "–" },
          ...(parts.size ? [{ name: `Part in the ${f.metricName(metric)}`, kind: "simulated" as const, cell: (k: string) =>
            parts.has(k) ? f.quantity(metric, parts.get(k)?.deltaObjective ?? 0, unit) : "–" }] : []),
        ]} />
        {c.nativeText && <Native from={incumbent?.nativeText} to={c.nativeText} />}
      </Section>
      {(e || c.reportedMetrics?.length) && (
        <Section title="What it does" hint={round?.schedulerTime
          ? `For ${f.instant(round.schedulerTime, p.style)} and the hours after it, in ${futures.length} simulated futures.` : undefined}>
          <Facts>
            {e?.controllableRatio ? <Fact name="The part that settings can influence" kind="simulated">
              {f.gain(e.controllableRatio)}{e.ratioLow && e.ratioHigh
                ? `, 95 %: ${f.gains(e.ratioLow, e.ratioHigh)}` : ", too few futures for an interval"}
            </Fact> : null}
            {own && futures.length > 0 && <Fact name={f.metricName(metric)} kind="simulated">
              {f.quantity(metric, f.mean(futures.map((q) => q.from)), unit)} → {f.quantity(metric, f.mean(futures.map((q) => q.to)), unit)},
              better in {better} of {futures.length} futures</Fact>}
            {c.reportedMetrics?.map((m) => (
              <Fact key={m.metricId} name={`${f.metricName(m.metricId)} under it`} kind="observed">{reported(m, p.style)}
                {m.previous ? `; before, under revision ${m.previous.configurationRevision}: ${reported(m.previous, p.style)}` : ""}</Fact>
            ))}
          </Facts>
          {explains && !x.data && !x.failure && <p class="soft" role="status">The futures of the round are simulated again…</p>}
          <Fault failure={x.failure} />
          {x.data?.from && x.data.to && <Effects from={x.data.from} to={x.data.to} metric={metric} style={p.style} />}
          {own && futures.length > 0 && (
            <Chart title={`${f.metricName(metric)} in each future`} kind="simulated" xName="Future" dots time={f.isTime(metric)}
              x={(v) => `future ${v}`} y={(v) => f.quantity(metric, v, unit)} series={[
                { name: "if nothing changes", color: "c4", points: futures.map((q) => ({ x: q.x, y: q.from })) },
                { name: `revision ${c.revision}`, color: "c5", points: futures.map((q) => ({ x: q.x, y: q.to })) },
              ]} />
          )}
        </Section>
      )}
      {x.data?.groups?.length ? <Groups groups={x.data.groups} style={p.style} /> : null}
      {(e || against.length > 0) && (
        <div class="halves">
          <Section title="Why it won">
            <p>{round?.reason || c.reason || "–"}</p>
            {(round?.search || e?.search) && <p class="soft">Search: {round?.search || e?.search}
              {e?.searchReason ? `, ${e.searchReason}` : ""}.</p>}
            {round && <p><A href={link(`/schedulers/${id(s.name)}/history`, { round: id(round.name) })}>Round {id(round.name)}</A></p>}
          </Section>
          <Section title="What speaks against it">
            {against.length ? <ul>{against.map((t) => <li>{t}</li>)}</ul> : <p>Nothing that the round measured.</p>}
            {e?.fidelity && <p class="soft">{e.fidelity}</p>}
          </Section>
        </div>
      )}
      {(e || p.data.earlier.length > 0) && <Promises earlier={p.data.earlier} name={id(s.name)} style={p.style} />}
      {round?.candidates?.length ? <Candidates round={round} scheduler={s} style={p.style} /> : null}
    </>
  );
}

// Groups are who waits longer and who waits less. The chart has the mean waits of the widths.
export function Groups(p: { groups: Group[]; style: Style }) {
  const q = (v?: number) => f.seconds(v ?? 0, p.style.unit);
  const share = (g: Group) => (g.meanWaitAfter ?? 0) - (g.meanWaitBefore ?? 0);
  const who = (g: Group) => g.kind === "all" ? "all jobs" : g.kind === "GPUs" ? `${g.group}-GPU jobs` : `${g.kind} ${g.group}`;
  const rows = [...p.groups].sort((a, b) => Number(b.kind === "all") - Number(a.kind === "all") || share(b) - share(a));
  const widths = p.groups.filter((g) => g.kind === "GPUs");
  const losers = p.groups.filter((g) => g.loses), winners = p.groups.filter((g) => g.kind !== "all" && share(g) < 0);
  return (
    <Section title="Winners and losers" hint={`${losers.length ? `Lose: ${losers.map(who).slice(0, 6).join(", ")}.` : "No group loses."} ` +
      `${f.plural(winners.length, "group waits", "groups wait")} less. A group loses if its mean wait grows by more than a tenth and a minute.`}>
      <Table caption="Waits by group" rows={rows} most={15} columns={[
        { name: "Who", text: true, cell: who },
        { name: "Jobs in a future", kind: "simulated", cell: (g) => f.number(g.jobCount ?? 0) },
        { name: "Mean wait, if nothing changes", kind: "simulated", cell: (g) => q(g.meanWaitBefore) },
        { name: "Mean wait, with it", kind: "simulated", cell: (g) => q(g.meanWaitAfter) },
        { name: "p95 wait", kind: "simulated", cell: (g) => `${q(g.p95WaitBefore)} → ${q(g.p95WaitAfter)}` },
        { name: "Slower jobs", kind: "simulated", cell: (g) => f.number(g.slowerJobCount ?? 0) },
        { name: "Outcome", text: true, cell: (g) => g.loses ? <span class="bad-t">loses</span> : share(g) < 0 ? <span class="good-t">waits less</span>
          : <span class="same-t">{share(g) > 0 ? "waits a little longer" : "the same"}</span> },
      ]} />
      {widths.length > 1 && (
        <Chart title="Mean wait by width" kind="simulated" xName="GPUs" dots time x={(v) => `${widths[v]?.group} GPUs`} y={(v) => q(v)} series={[
          { name: "if nothing changes", color: "c4", points: widths.map((g, x) => ({ x, y: g.meanWaitBefore ?? 0 })) },
          { name: "with it", color: "c5", points: widths.map((g, x) => ({ x, y: g.meanWaitAfter ?? 0 })) },
        ]} />
      )}
    </Section>
  );
}

// Promises are what rounds promised of earlier revisions, and what followed.
export function Promises(p: { earlier: Configuration[]; name: string; style: Style }) {
  const observed = (c: Configuration) => c.reportedMetrics?.filter((m) => m.previous?.mean).slice(0, 3) ?? [];
  return (
    <Section title="Earlier promises" hint="What rounds promised of revisions that were in force, and what followed. Observed means are of different times, with different jobs.">
      <Table caption="Earlier promises" rows={p.earlier} empty="No revision of a round was in force before." columns={[
        { name: "Revision", text: true, cell: (c) => <><A href={link(`/schedulers/${p.name}/configurations/${c.revision}`)}>{c.revision}</A>
          <span class="what soft">{f.instant(c.evidence?.schedulerTime, p.style)}</span></> },
        { name: "Promised", kind: "simulated", cell: (c) => c.evidence?.controllableRatio
          ? <>{f.gain(c.evidence.controllableRatio)}<span class="what soft">of what settings can influence</span></> : "–" },
        { name: "What followed", kind: "observed", text: true, cell: (c) => observed(c).length
          ? observed(c).map((m) => `${f.metricName(m.metricId)} ${f.percent((m.mean ?? 0) / m.previous!.mean! - 1)}`).join(", ")
          : "no metrics were reported" },
        { name: "Watched", kind: "simulated", text: true, cell: (c) => c.incident?.reason ? <span class="bad-t">worse than promised: {c.incident.reason}</span>
          : "not found worse" },
      ]} />
      <PromiseChart earlier={p.earlier} />
    </Section>
  );
}

// PromiseChart draws the change that rounds predicted, and that of the first metric that was reported.
function PromiseChart(p: { earlier: Configuration[] }) {
  const metric = p.earlier.flatMap((c) => c.reportedMetrics ?? []).find((m) => m.previous?.mean)?.metricId;
  const points = (y: (c: Configuration) => number | undefined) => p.earlier.flatMap((c) => {
    const v = y(c);
    return v === undefined ? [] : [{ x: Number(c.revision), y: v }];
  }).sort((a, b) => a.x - b.x);
  const promised = points((c) => c.evidence?.controllableRatio ? c.evidence.controllableRatio - 1 : undefined);
  if (!promised.length) return null;
  const came = points((c) => {
    const m = c.reportedMetrics?.find((m) => m.metricId === metric);
    return m?.mean !== undefined && m.previous?.mean ? m.mean / m.previous.mean - 1 : undefined;
  });
  return <Chart title="Promised change and what followed" kind="simulated" xName="Revision" dots x={(v) => f.count(v)} y={(v) => f.percent(v)} series={[
    { name: "promised, of what settings can influence", color: "c4", points: promised },
    ...came.length ? [{ name: `${f.metricName(metric!)} since, of before`, kind: "observed" as const, color: "c7" as const, points: came }] : [],
  ]} />;
}

// Native is the lines that change in the scheduler's own configuration file.
function Native(p: { from?: string; to: string }) {
  const lines = (text = "") => text.split("\n").map((l) => l.trimEnd()).filter(Boolean);
  const before = lines(p.from), after = lines(p.to);
  const rows = [
    ...before.filter((l) => !after.includes(l)).map((l) => ({ sign: "-", l })),
    ...after.filter((l) => !before.includes(l)).map((l) => ({ sign: "+", l })),
  ];
  return (
    <>
      <h3>In the scheduler's own file</h3>
      {rows.length ? <pre class="native" tabIndex={0}>{rows.map((r) => (
        <span class={r.sign === "+" ? "good-t" : "bad-t"}>{r.sign} {r.l}{"\n"}</span>
      ))}</pre> : <p class="soft">No line changes.</p>}
    </>
  );
}

// Effects compares the simulated metrics of two configurations.
export function Effects(p: { from: NonNullable<Explanation["from"]>; to: NonNullable<Explanation["to"]>; metric: string; style: Style }) {
  const rows = [
    { metric: p.metric, from: p.from.objective, to: p.to.objective, of: [p.from.objectives, p.to.objectives] as const },
    ...Object.keys(p.from.metricsInFutures ?? {}).sort().map((m) => ({ metric: m, from: p.from.metrics?.[m], to: p.to.metrics?.[m],
      of: [p.from.metricsInFutures?.[m]?.values, p.to.metricsInFutures?.[m]?.values] as const })),
  ];
  const q = (m: string, v?: number) => f.quantity(m, v, p.style.unit);
  const range = (m: string, values: number[] = []) => values.length > 1 &&
    <span class="what soft">{q(m, Math.min(...values))} to {q(m, Math.max(...values))}</span>;
  return (
    <Table caption="Effects on each metric" rows={rows} columns={[
      { name: "Metric", text: true, cell: (r) => f.metricName(r.metric) },
      { name: "If nothing changes", kind: "simulated", cell: (r) => <>{q(r.metric, r.from)}{range(r.metric, r.of[0])}</> },
      { name: "With it", kind: "simulated", cell: (r) => <>{q(r.metric, r.to)}{range(r.metric, r.of[1])}</> },
      { name: "Change", kind: "simulated", cell: (r) => r.from && r.to !== undefined ? <><Change share={r.to / r.from - 1} />{spread(r.of)}</> : "–" },
    ]} />
  );
}

// spread is the least and the most change over futures.
function spread([from, to]: readonly [number[] | undefined, number[] | undefined]) {
  const shares = (from ?? []).flatMap((v, i) => v && to?.[i] !== undefined ? [to[i] / v - 1] : []);
  return shares.length > 1 && <span class="what soft">{f.percent(Math.min(...shares))} to {f.percent(Math.max(...shares))} over futures</span>;
}

// Change is a change of something of which less is better.
function Change(p: { share: number }) {
  const small = Math.abs(p.share) < 0.0005;
  return <span class={small ? "same-t" : p.share < 0 ? "good-t" : "bad-t"}>
    {f.percent(p.share)} {small ? "" : p.share < 0 ? "better" : "worse"}</span>;
}

// Candidates are what a round measured.
export function Candidates(p: { round: Round; scheduler: Scheduler; style: Style }) {
  const metric = objectiveOf(p.scheduler), specs = specsOf(p.scheduler);
  const rows = [...(p.round.candidates ?? [])].sort((a, b) => (b.controllableRatio ?? 0) - (a.controllableRatio ?? 0));
  return (
    <Section title="What else was measured" hint={`By round ${id(p.round.name)}, the best first.`}>
      <Table caption="Candidates" rows={rows} most={10} columns={[
        { name: "Configuration", text: true, cell: (r) => <>{r.origin}<span class="what soft">{Object.entries(r.parameters ?? {})
          .map(([k, v]) => `${k} ${f.value(v, specs.get(k))}`).join("; ")}</span></> },
        { name: f.metricName(metric), kind: "simulated", cell: (r) => f.quantity(metric, f.mean(r.objectives), p.style.unit) },
        { name: "The part that settings can influence", kind: "simulated", cell: (r) => f.gain(r.controllableRatio) },
        { name: "Outcome", text: true, cell: (r) => r.error || r.outcome || "not adopted" },
      ]} />
    </Section>
  );
}
