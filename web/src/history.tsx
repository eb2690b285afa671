import { useEffect, useState } from "preact/hooks";
import { get, id, list, path } from "./api";
import type { AuditRecord, Configuration, Explanation, Round, Scheduler } from "./api";
import { actorName, changesOf, did, revisionOf } from "./audit";
import * as f from "./format";
import type { Style } from "./format";
import { changes, objectiveOf, reported } from "./overview";
import { Candidates, Effects, originWords, orNothing, reviewWords, stateWords } from "./proposal";
import { link, longPeriod, setQuery, useLoaded, useWatch } from "./state";
import type { Identity } from "./state";
import { A, Chart, Command, Fact, Facts, Fault, Section, Table, Verdict } from "./ui";

// Entry is a decision in the time line: a round, with the record of what it led to, or another record, or a revision of
// which the service has no record.
interface Entry {
  at: string; // by the service's clock
  kind: "round" | "change" | "answer";
  actor: string;
  round?: Round;
  record?: AuditRecord;
  revision?: Configuration;
}

const kinds = { round: "rounds", change: "changes", answer: "answers of instances" };

const most = 1000;

interface Data {
  entries: Entry[];
  whole: boolean; // nothing older is left out
}

// load reads the newest of each list. An instant bounds it, so that older ones come where a reader asks for them.
async function load(name: string, from: string, until: string, audits: boolean): Promise<Data> {
  const parent = path("schedulers/" + name);
  const filter = [from && `create_time >= "${from}"`, until && `create_time < "${until}"`].filter(Boolean).join(" AND ");
  const query = (more: Record<string, string> = {}) => "?" + new URLSearchParams({ ...more, ...(filter ? { filter } : {}) });
  const [revisions, rounds, audit] = await Promise.all([
    list<Configuration>(parent + "/configurations" + query(), "configurations", most),
    list<Round>(parent + "/rounds" + query(), "rounds", most),
    audits ? list<AuditRecord>("/v1/auditRecords" + query({ resource: "schedulers/" + name }), "auditRecords", most) : [],
  ]);
  return { entries: merged(revisions, rounds, audit), whole: [revisions, rounds, audit].every((l) => l.length < most) };
}

// merged is one time line of three lists, newest first.
function merged(revisions: Configuration[], rounds: Round[], audit: AuditRecord[]): Entry[] {
  const made = new Map(audit.flatMap((r) => revisionOf(r) ? [[revisionOf(r), r] as const] : []));
  const of = new Map(revisions.map((c) => [c.revision, c]));
  const told = new Set<AuditRecord>();
  const out: Entry[] = rounds.map((round) => {
    const record = round.revision ? made.get(round.revision) : undefined;
    if (record) told.add(record);
    return { at: round.createTime ?? "", kind: "round", actor: actorName(record?.actor) || "tuning", round, record,
      revision: of.get(round.revision ?? "") };
  });
  for (const record of audit) {
    if (told.has(record)) continue;
    out.push({ at: record.createTime ?? "", kind: record.verb === "AcknowledgeConfiguration" || record.verb === "Rollout" ? "answer" : "change",
      actor: actorName(record.actor), record, revision: of.get(revisionOf(record)) });
  }
  const known = new Set(out.map((e) => e.revision?.revision));
  for (const revision of revisions) {
    if (!known.has(revision.revision)) out.push({ at: revision.createTime ?? "", kind: "change", actor: "", revision });
  }
  return out.sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
}

// dayOf is the instant at which a day begins in the reader's zone, empty where the text is no day; `more` days later.
function dayOf(text: string, style: Style, more = 0): string {
  const [, y, m, d] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text) ?? [];
  if (!y) return "";
  const parts = [Number(y), Number(m) - 1, Number(d) + more] as const;
  const at = style.zone ? new Date(Date.UTC(...parts)) : new Date(...parts);
  return Number.isFinite(at.getTime()) ? at.toISOString() : "";
}

// HistoryPage is every decision about a scheduler and every change of it in one time line, and one decision as it was.
export function HistoryPage(p: { name: string; url: URL; who: Identity; style: Style }) {
  const q = (key: string) => p.url.searchParams.get(key) ?? "";
  const from = dayOf(q("from"), p.style), until = dayOf(q("until"), p.style, 1);
  const kind = q("kind") in kinds ? q("kind") as keyof typeof kinds : "", actor = q("actor");
  const number = /^\d+$/.exec(q("round"))?.[0] ?? "";
  const now = useLoaded(p.name, () => get<Scheduler>(path("schedulers/" + p.name)));
  const d = useLoaded(`history ${p.name} ${from} ${until}`, () => load(p.name, from, until, p.who.may("ListAuditRecords")), longPeriod);
  useWatch("schedulers/" + p.name, now.again);
  useEffect(d.again, [changes(now.data)]);
  const failure = now.failure ?? d.failure;
  if (!now.data || !d.data) return failure ? <Fault failure={failure} /> : <p class="soft">…</p>;
  const s = now.data, all = d.data.entries;
  const rows = all.filter((e) => (!kind || e.kind === kind) && (!actor || e.actor === actor));
  const actors = [...new Set([...all.map((e) => e.actor), actor])].filter(Boolean).sort();
  const rounds = all.filter((e) => e.kind === "round");
  const led = rounds.filter((e) => e.round?.revision).length;
  return (
    <>
      <Fault failure={failure} />
      <Verdict tone="open" title={all.length ? `${f.plural(rounds.length, "round")}, ${led} of which led to a revision, and ${f.plural(all.length - rounds.length, "other record")}`
        : "Nothing happened in this time"}>
        {!p.who.may("ListAuditRecords") && <p class="soft">Your role, {p.who.role}, may not read audit records.</p>}
        {!d.data.whole && <p>These are the newest of each kind: choose days to see older ones.</p>}
        <p class="filters">
          <label>Kind <select value={kind} onChange={(e) => setQuery("kind", e.currentTarget.value)}>
            <option value="">all</option>{Object.entries(kinds).map(([k, words]) => <option key={k} value={k}>{words}</option>)}
          </select></label>
          <label>Who <select value={actor} onChange={(e) => setQuery("actor", e.currentTarget.value)}>
            <option value="">all</option>{actors.map((a) => <option key={a} value={a}>{a}</option>)}
          </select></label>
          <label>From <input type="date" value={q("from")} onChange={(e) => setQuery("from", e.currentTarget.value)} /></label>
          <label>Until <input type="date" value={q("until")} onChange={(e) => setQuery("until", e.currentTarget.value)} /></label>
        </p>
      </Verdict>
      {number && <Decision key={number} scheduler={s} number={number} who={p.who} style={p.style} />}
      <Section title="Decisions and changes" hint={`Newest first, by the service's clock (${f.zoneName(p.style)}). Records are chained: ` +
        "'autosched admin audit verify' checks them."}>
        <Chart title="Records by day" kind="observed" xName={`Day (${f.zoneName(p.style)})`} x={(v) => f.instant(v, p.style).slice(0, 10)} y={(v) => f.number(v)}
          series={[{ name: "rounds", color: "c4", points: byDay(rows.filter((e) => e.kind === "round"), rows, p.style) },
            { name: "changes and answers", color: "c7", dash: "6 4", points: byDay(rows.filter((e) => e.kind !== "round"), rows, p.style) }]} />
        <Table caption="Decisions and changes" rows={rows} most={30} empty="None matches." columns={[
          { name: "When", text: true, cell: (e) => f.instant(e.at, p.style) },
          { name: "Who", text: true, cell: (e) => e.actor || "not recorded" },
          { name: "What", text: true, cell: (e) => <What entry={e} name={p.name} style={p.style} /> },
          { name: "Revision", cell: (e) => {
            const n = e.round?.revision || e.revision?.revision || (e.record?.revisionAfter !== e.record?.revisionBefore ? e.record?.revisionAfter : "");
            return n && n !== "0" ? <A href={link(`/schedulers/${p.name}/configurations/${n}`)}>{n}</A> : "–";
          } },
          { name: "Record", cell: (e) => e.record?.sequence ?? "–" },
        ]} />
      </Section>
    </>
  );
}

// byDay counts entries by the days from the first to the last of all.
function byDay(some: Entry[], all: Entry[], style: Style) {
  const day = (e: Entry) => f.instant(e.at, style).slice(0, 10);
  const counts = new Map<string, number>();
  for (const e of some) if (e.at) counts.set(day(e), (counts.get(day(e)) ?? 0) + 1);
  const days = all.filter((e) => e.at).map(day);
  const first = days.at(-1), last = days[0];
  const out: { x: number; y: number }[] = [];
  if (!first || !last) return out;
  for (let k = 0; k < 4000; k++) { // a row for each day, those without entries too
    const at = dayOf(first, style, k);
    const name = f.instant(at, style).slice(0, 10);
    if (name > last) break;
    out.push({ x: Date.parse(at), y: counts.get(name) ?? 0 });
  }
  return out;
}

function What(p: { entry: Entry; name: string; style: Style }) {
  const { round: r, record, revision: c } = p.entry;
  const now = c && <>Revision {c.revision} {stateWords(c.state)}. </>;
  if (r) {
    return (
      <>
        <A href={link(`/schedulers/${p.name}/history`, { round: id(r.name) })}>Round {id(r.name)}</A>{r.urgent ? ", between rounds" : ""}: {
          r.error || r.outcome || "it did not end"}
        <span class="what soft">{now}For {f.instant(r.schedulerTime, p.style)} of the scheduler's time.</span>
      </>
    );
  }
  if (!record) return <>{originWords(c?.origin)}<span class="what soft">{now}{c?.reason}</span></>;
  return (
    <>
      {did(record.verb)}{record.reason && `: ${record.reason}`}
      <span class="what soft">{now}{changesOf(record, p.style).slice(0, 6).join("; ")}</span>
    </>
  );
}

// Decision is a round as it was: what it knew, what it chose and what followed.
function Decision(p: { scheduler: Scheduler; number: string; who: Identity; style: Style }) {
  const s = p.scheduler, name = `${s.name}/rounds/${p.number}`, metric = objectiveOf(s), unit = p.style.unit;
  const d = useLoaded(name, async () => {
    const round = await get<Round>(path(name));
    const chosen = round.revision && round.revision !== "0"
      ? await orNothing(get<Configuration>(path(`${s.name}/configurations/${round.revision}`))) : undefined;
    return { round, chosen };
  }, 0);
  const [asked, ask] = useState(false);
  const x = useLoaded<Explanation | undefined>(`explain ${asked ? name : ""}`, async () =>
    asked ? get<Explanation>(path(name, "explain")) : undefined, 0);
  if (!d.data) return <Section title={`Round ${p.number}`}><Fault failure={d.failure} /></Section>;
  const { round: r, chosen: c } = d.data;
  const futures = r.incumbentObjectives ?? [];
  const settings = Object.entries(r.settings?.settings ?? {}).map(([k, v]) => `${k} ${spoken(k, v, p.style)}`).join(", ");
  const observed = c?.reportedMetrics ?? [];
  return (
    <>
      <Section title={`Round ${p.number}, as it was decided`}>
        <div class="choices">
          <div>
            <h3>What was known</h3>
            <Facts>
              <Fact name="For">{f.instant(r.schedulerTime, p.style)} of the scheduler's time{r.urgent ? ", between rounds" : ""}</Fact>
              <Fact name="Events" kind="observed">{f.count(r.eventCount ?? 0)}</Fact>
              <Fact name="In force" kind="observed">{r.incumbentRevision && r.incumbentRevision !== "0"
                ? <A href={link(`/schedulers/${id(s.name)}/configurations/${r.incumbentRevision}`)}>revision {r.incumbentRevision}</A>
                : "the registered defaults"}</Fact>
              {futures.length > 0 && <Fact name={`${f.metricName(metric)} if nothing changes`} kind="simulated">
                {f.quantity(metric, f.mean(futures), unit)}, {f.quantity(metric, Math.min(...futures), unit)} to {
                  f.quantity(metric, Math.max(...futures), unit)} over {futures.length} futures</Fact>}
              {settings && <Fact name="Decided by">{settings}</Fact>}
              <Fact name="Digest of all that">{(r.inputDigest ?? "").slice(0, 16) || "–"}</Fact>
            </Facts>
          </div>
          <div>
            <h3>What was chosen</h3>
            <Facts>
              <Fact name="Outcome" kind="simulated">{r.error || r.outcome || "it did not end"}</Fact>
              {r.reason && <Fact name="Why">{r.reason}</Fact>}
              <Fact name="Search">{r.search || "none"}{r.searchReason ? `, ${r.searchReason}` : ""}: {
                r.candidates?.length ?? 0} configurations in {f.seconds(parseFloat(r.duration ?? ""), unit)}</Fact>
              {r.controllableRatio ? <Fact name="The part that settings can influence" kind="simulated">
                {f.gain(r.controllableRatio)}</Fact> : null}
            </Facts>
          </div>
          <div>
            <h3>What followed</h3>
            <Facts>
              {!c && <Fact name="Revision">{r.revision && r.revision !== "0" ? `revision ${r.revision} is not kept any more`
                : "none: what ran stayed"}</Fact>}
              {c && <Fact name="Revision"><A href={link(`/schedulers/${id(s.name)}/configurations/${c.revision}`)}>revision {c.revision}</A> {
                stateWords(c.state)}</Fact>}
              {c?.review && <Fact name="Decided">{reviewWords(c.review)}</Fact>}
              {observed.map((m) => <Fact key={m.metricId} name={`${f.metricName(m.metricId)} under it`} kind="observed">{reported(m, p.style)}
                {m.previous ? `; before: ${reported(m.previous, p.style)}` : ""}</Fact>)}
              {c && !observed.length && <Fact name="Observed">nothing: the scheduler reported no metrics under it</Fact>}
              {c?.incident?.reason && <Fact name="Incident">{c.incident.reason}</Fact>}
            </Facts>
          </div>
        </div>
        {!r.error && p.who.may("ExplainConfiguration") && !asked && (
          <p class="acts"><button type="button" onClick={() => ask(true)}>Simulate its futures again</button></p>
        )}
        {asked && !x.data && !x.failure && <p class="soft" role="status">The futures of the round are simulated again…</p>}
        <Fault failure={x.failure} />
        {x.data?.from && x.data.to && <Effects from={x.data.from} to={x.data.to} metric={metric} style={p.style} />}
        {x.data?.limits?.length ? <ul>{x.data.limits.map((t) => <li>{t}</li>)}</ul> : null}
        <p>The same decision again, bit for bit, from a copy of the service's folder:</p>
        <Command text={`autosched admin replay ${id(s.name)} ${p.number} --dir COPY`} />
      </Section>
      {r.candidates?.length ? <Candidates round={r} scheduler={s} style={p.style} /> : null}
    </>
  );
}

// spoken is a setting of a round; durations are in nanoseconds.
function spoken(key: string, v: unknown, style: Style): string {
  if (typeof v === "number") return /horizon|interval/.test(key) ? f.seconds(v / 1e9, style.unit) : f.number(v, 6);
  return typeof v === "object" ? JSON.stringify(v) : String(v);
}
