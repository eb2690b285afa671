// Audit records in words.

import { id } from "./api";
import type { AuditRecord } from "./api";
import * as f from "./format";
import type { Style } from "./format";

type Json = null | boolean | number | string | Json[] | { [k: string]: Json };

// deeds are the verbs of records; another verb is a method of the API, whose name has the words.
const deeds: Record<string, string> = {
  Adopt: "a round's decision took effect",
  Alarm: "found that the revision does worse than promised",
  Revert: "went back from a revision that did worse",
  Rollout: "brought what instances say up to date",
  SetClock: "the first events set the clock",
  SkipRounds: "passed over rounds that were due long ago",
  Purge: "removed the scheduler for good",
  CreateScheduler: "registered the scheduler",
  UpdateScheduler: "changed the scheduler's settings",
  PauseTuning: "paused tuning",
  ResumeTuning: "resumed tuning",
  FreezeTuning: "froze the configuration",
  UnfreezeTuning: "ended the freeze",
  RollbackConfiguration: "rolled back",
  TriggerRound: "asked for a round",
  AcknowledgeConfiguration: "said what an instance runs",
  ForgetInstance: "forgot an instance",
  MarkFalsePositive: "marked a finding as wrong",
};

// did is what a record's actor did.
export const did = (verb = "") => deeds[verb] ??
  verb.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase().replace(/^(\w+?)(e?) /, (_, stem: string) => `${past(stem)} `);

const irregular: Record<string, string> = { pin: "pinned", unpin: "unpinned", propos: "proposed", run: "ran", cancel: "cancelled" };

const past = (stem: string) => irregular[stem] ?? stem + "ed";

// actorName is who made a change.
export const actorName = (actor = "") => actor.includes("/findings/") ? "a finding" : actor;

// internal are fields that only the service needs.
const internal = /^(id|uid|created|updated|last|round|probation|zero|params|rules|configurations\/\d+\.sha256)$/;

// changesOf says what a record changed, a text for each field.
export function changesOf(r: AuditRecord, style: Style): string[] {
  return (r.fields ?? []).filter((q) => !internal.test(q.name ?? "") || r.verb === "SetClock").flatMap((q) => {
    const name = q.name ?? "", before = parsed(q.before), after = parsed(q.after);
    const [, revision, part] = /^configurations\/(\d+)\.(\w+)$/.exec(name) ?? [];
    if (revision) return [ofRevision(revision, part!, before, after)];
    if (name.startsWith("operations/")) return [`a round between rounds is ${said(after ?? "over", style).toLowerCase()}`];
    if (name === "paused") return [after ? "tuning is paused" : "tuning goes on"];
    if (name === "served") return [`on offer: ${arrow(`revision ${before ?? 0}`, `revision ${after ?? 0}`)}`];
    if (name === "acknowledged") return [`in force: ${arrow(`revision ${before ?? 0}`, `revision ${after ?? 0}`)}`];
    if (name === "instances") return instances(before, after);
    if (name === "zero") return [`the clock begins at ${said(after, style)}`];
    const label = name.replace(/^(policy|spec)\./, "").replace(/[._]/g, " ");
    return [`${label}: ${before === undefined ? said(after, style, name) : arrow(said(before, style, name), said(after, style, name))}`];
  });
}

const arrow = (from: string, to: string) => `${from} → ${to}`;

// parsed is a field's value; a text that was shortened is no JSON, and stays a text.
function parsed(text?: string): Json | undefined {
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text.slice(0, 60) + "…";
  }
}

function ofRevision(revision: string, part: string, before?: Json, after?: Json): string {
  const text = (v?: Json) => String(v ?? "").replace(/_/g, " ");
  const object = after && typeof after === "object" && !Array.isArray(after) ? after : {};
  switch (part) {
    case "origin": return `revision ${revision} is new: ${text(after)}`;
    case "state": return before === undefined ? `revision ${revision}: ${text(after)}`
      : `revision ${revision}: ${arrow(text(before), text(after))}`;
    case "acknowledgement": return `revision ${revision} was ${text(object.state)}` +
      (object.instance ? ` by ${text(object.instance)}` : "") + (object.error ? `: ${text(object.error)}` : "");
    case "incident": return `revision ${revision}: ${text(object.reason) || "an incident"}`;
  }
  return `revision ${revision}, ${part.replace(/_/g, " ")}: ${text(after)}`;
}

function instances(before?: Json, after?: Json): string[] {
  const of = (v?: Json) => new Map((Array.isArray(v) ? v : []).map((i) => {
    const o = i as { id?: string; revision?: number };
    return [o.id ?? "", o.revision ?? 0] as const;
  }));
  const was = of(before), is = of(after);
  const out = [...is].filter(([k, v]) => was.get(k) !== v).map(([k, v]) => `${k || "the instance"} answered for revision ${v}`);
  out.push(...[...was.keys()].filter((k) => !is.has(k)).map((k) => `${k || "the instance"} is gone`));
  return out.length ? out : ["an instance answered again"];
}

// spans are the fields that are durations, which records have in nanoseconds.
const spans = /(interval|lateness|deadline|horizon|cooldown|window|delay|period)$/;

// said is a value for people.
function said(v: Json | undefined, style: Style, name = ""): string {
  if (v === undefined || v === null) return "–";
  if (typeof v === "boolean") return v ? "yes" : "no";
  if (typeof v === "number") return spans.test(name) && v >= 1e6 ? f.seconds(v / 1e9, style.unit) : f.number(v, 6);
  if (typeof v === "string") return /^\d{4}-\d\d-\d\dT/.test(v) ? v.startsWith("0001") ? "never" : f.instant(v, style) : v || "–";
  if (Array.isArray(v)) {
    return v.length <= 3 ? v.map((x) => said(x, style, name)).join("; ") || "none" : `${v.length} entries`;
  }
  return Object.entries(v).slice(0, 5).map(([k, x]) => `${k.replace(/_/g, " ")} ${said(x, style, k)}`).join(", ") || "none";
}

// revisionOf is the revision that a record made, if it made one.
export const revisionOf = (r: AuditRecord) =>
  r.fields?.map((q) => /^configurations\/(\d+)\.origin$/.exec(q.name ?? "")?.[1]).find(Boolean) ?? "";

// findingOf is the id of the finding that made a record.
export const findingOf = (r: AuditRecord) => r.actor?.includes("/findings/") ? id(r.actor) : "";
