import { useState } from "preact/hooks";
import { call, get, id, jobID, path } from "./api";
import type { Finding, RuleSummary, Scheduler } from "./api";
import * as f from "./format";
import type { Style } from "./format";
import { link, setQuery, useLoaded } from "./state";
import type { Identity, Loaded } from "./state";
import { A, Ask, Bars, Fault, Section, Table, Verdict } from "./ui";

const words = (t = "") => t.replace(/_/g, " ");

interface Page {
  findings?: Finding[];
  rules?: RuleSummary[];
}

// whole reads all pages of findings, at most 20,000 findings.
async function whole(parent: string, state: string): Promise<Page> {
  const out: Page & { nextPageToken?: string } = { findings: [] };
  do {
    const query = new URLSearchParams({ pageSize: "1000", ...(state && { state }),
      ...(out.nextPageToken && { pageToken: out.nextPageToken }) });
    const next = await get<Page & { nextPageToken?: string }>(`${parent}?${query}`);
    out.findings!.push(...(next.findings ?? []));
    out.rules ??= next.rules;
    out.nextPageToken = next.nextPageToken;
  } while (out.nextPageToken && out.findings!.length < 20_000);
  return out;
}

const day = 86400e3;

const acts = {
  acknowledge: { method: "AcknowledgeFinding", title: "Acknowledge", text: "It is true, and seen to." },
  snooze: { method: "SnoozeFinding", title: "Snooze for a day", text: "It is silent for a day: no notice, no count of open ones." },
  markFalsePositive: { method: "MarkFalsePositive", title: "Mark as wrong", text: "It is wrong: who tunes the rule reads why." },
};

// FindingsPage is what rules found of a scheduler, by wasted GPU-hours.
export function FindingsPage(p: { schedulers: Loaded<Scheduler[]>; url: URL; who: Identity; style: Style }) {
  const all = p.schedulers.data ?? [];
  const name = /^[a-z0-9-]+$/.exec(p.url.searchParams.get("scheduler") ?? "")?.[0] || id(all[0]?.name);
  const state = p.url.searchParams.get("state") === "all" ? "" : "OPEN";
  const d = useLoaded<Page>(`${name} ${state}`, async () => name ? whole(`${path(`schedulers/${name}`)}/findings`, state) : {});
  const [act, setAct] = useState<{ verb: keyof typeof acts; finding: Finding }>();
  const rules = [...(d.data?.rules ?? [])].sort((a, b) => (b.wastedGpuHours ?? 0) - (a.wastedGpuHours ?? 0));
  const rows = [...(d.data?.findings ?? [])].sort((a, b) => Number(b.state === "OPEN") - Number(a.state === "OPEN") ||
    (b.wastedGpuHours ?? 0) - (a.wastedGpuHours ?? 0));
  const open = rules.reduce((n, r) => n + Number(r.openCount ?? 0), 0);
  const wasted = rules.reduce((n, r) => n + (r.wastedGpuHours ?? 0), 0);
  const verbs = (Object.keys(acts) as (keyof typeof acts)[]).filter((v) => p.who.may(acts[v].method));
  const perform = async (reason: string) => {
    if (!act) return;
    const body = act.verb === "snooze" ? { reason, untilTime: new Date(Date.now() + day).toISOString() } : { reason };
    await call("POST", path(act.finding.name, act.verb), body);
    d.again();
  };
  if (!p.schedulers.data) return <Fault failure={p.schedulers.failure} />;
  if (!all.length) return <Verdict tone="open" title="No scheduler is registered yet" />;
  return (
    <>
      <Fault failure={d.failure} />
      <Verdict tone={open ? "open" : "good"} title={!d.data ? "…" : open
        ? `${open} open ${open === 1 ? "finding wastes" : "findings waste"} ${f.number(wasted)} GPU-hours` : "No finding is open"}>
        <p class="filters">
          <label>Scheduler <select value={name} onChange={(e) => setQuery("scheduler", e.currentTarget.value)}>
            {all.map((s) => <option key={s.name} value={id(s.name)}>{s.displayName || id(s.name)}</option>)}
          </select></label>
          <label>State <select value={state ? "" : "all"} onChange={(e) => setQuery("state", e.currentTarget.value)}>
            <option value="">open</option><option value="all">open and closed</option>
          </select></label>
        </p>
      </Verdict>
      <Section title="By rule">
        {wasted > 0 && <Bars title="wasted GPU-hours of open findings" kind="observed" rows={rules.filter((r) => Number(r.openCount ?? 0)).slice(0, 12)
          .map((r) => ({ name: words(r.rule), value: r.wastedGpuHours ?? 0, text: f.number(r.wastedGpuHours ?? 0) }))} />}
        <Table caption="Findings by rule" rows={rules} empty="No rule has found anything." columns={[
          { name: "Rule", text: true, cell: (r) => words(r.rule) },
          { name: "Wasted GPU-hours, of open ones", kind: "observed", cell: (r) => f.number(r.wastedGpuHours ?? 0) },
          { name: "Open", cell: (r) => r.openCount ?? "0" },
          { name: "In all", cell: (r) => r.totalCount ?? "0" },
          { name: "True, of those judged", cell: (r) => f.share(r.precision) },
        ]} />
      </Section>
      <Section title="Findings" hint="Open ones first, by wasted GPU-hours.">
        <Table caption="Findings" rows={rows} most={25} empty="None." columns={[
          { name: "Entity", text: true, cell: (r) => <>{r.entityKind} <Of name={name} kind={r.entityKind} entity={r.entity} job={r.jobId} />
            <span class="what soft">{words(r.rule)}</span></> },
          { name: "What, and what to do", text: true, cell: (r) => <>{r.words}<span class="what soft">{(r.evidence ?? [])
            .map((e) => `${words(e.what)} ${f.number(e.value ?? 0)} (limit ${f.number(e.threshold ?? 0)}${e.unit ? " " + e.unit : ""})`).join("; ")}</span>
            {r.affected?.length ? <span class="what">Pay for it: {r.affected.map((who, i) => {
              const at = who.indexOf("/"), kind = who.slice(0, at), entity = who.slice(at + 1);
              return <>{i > 0 && ", "}{kind} <Of name={name} kind={kind} entity={entity} job={kind === "job" ? entity : ""} /></>;
            })}</span> : null}</> },
          { name: "Wasted GPU-hours", kind: "observed", cell: (r) => f.number(r.wastedGpuHours ?? 0) },
          { name: "Since", cell: (r) => r.beginTime ? <A href={around(name, r)}>{f.instant(r.beginTime, p.style)}</A> : "–" },
          { name: "State", text: true, cell: (r) => standing(r) },
          ...verbs.length ? [{ name: "Acts", text: true, cell: (r: Finding) => (
            <span class="acts">{verbs.filter((v) => v !== "snooze" || r.state === "OPEN").map((v) => (
              <button key={v} type="button" class="small" onClick={() => setAct({ verb: v, finding: r })}
                aria-label={`${acts[v].title}: ${r.entityKind} ${r.entity}`}>{acts[v].title}</button>
            ))}</span>
          ) }] : [],
        ]} />
      </Section>
      {act && (
        <Ask title={`${acts[act.verb].title}: ${act.finding.entityKind} ${act.finding.entity}?`} act={acts[act.verb].title}
          required={act.verb === "markFalsePositive"} close={() => setAct(undefined)} done={perform}>
          <p>{acts[act.verb].text}</p>
        </Ask>
      )}
    </>
  );
}

// Of is the name of an entity, which leads to its job, or to its node or tenant among the jobs.
function Of(p: { name: string; kind?: string; entity?: string; job?: string }) {
  const query: Record<string, string> = p.job ? { job: jobID(p.job) } : ["node", "tenant", "user"].includes(p.kind ?? "") && p.entity
    ? { [p.kind!]: p.entity } : {};
  return Object.keys(query).length ? <A href={link(`/schedulers/${p.name}/jobs`, query)}>{p.entity}</A> : <>{p.entity}</>;
}

// around is the timeline of a finding's time.
function around(name: string, r: Finding): string {
  const begin = Date.parse(r.beginTime ?? ""), end = Math.max(begin, Date.parse(r.closeTime ?? r.updateTime ?? r.beginTime ?? ""));
  const room = Math.max((end - begin) / 4, 30 * 60e3);
  const at = (v: number) => new Date(v).toISOString();
  return link(`/schedulers/${name}/timeline`, { rows: r.entityKind === "node" ? "nodes" : "", from: at(begin - room), to: at(end + room) });
}

function standing(r: Finding): string {
  const marks = [r.acknowledged && "acknowledged", r.falsePositive && "said to be wrong", r.snoozed && "snoozed"].filter(Boolean);
  return [(r.state ?? "").toLowerCase(), ...marks].join(", ");
}
