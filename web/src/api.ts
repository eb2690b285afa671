// The API as JSON: the messages of api/autosched/v1 as protojson writes them. Fields may be absent where they have
// their zero value, and 64-bit numbers are texts.

export type Value = null | boolean | number | string | Value[] | { [k: string]: Value };
export type Values = Record<string, Value>;
export type Time = string; // RFC 3339

export interface ParameterSpec {
  parameterId: string;
  defaultValue?: Value;
  unit?: string;
  description?: string;
  specialValues?: { value?: number; displayName?: string }[];
  categoricalValueSpec?: { values?: string[] };
  ordinalValueSpec?: { values?: string[] };
  booleanValueSpec?: object;
  integerValueSpec?: Range;
  doubleValueSpec?: Range;
  durationValueSpec?: Range;
  arraySpec?: { integerValueSpec?: Range; doubleValueSpec?: Range; durationValueSpec?: Range; maxLength?: number };
}

export interface Range {
  minValue?: number | string;
  maxValue?: number | string;
}

export interface Incident {
  schedulerTime?: Time;
  worseRevision?: string;
  reason?: string;
}

export interface ReportedMetric {
  metricId: string;
  configurationRevision?: string;
  mean?: number;
  meanLow?: number;
  meanHigh?: number;
  endTime?: Time;
  previous?: ReportedMetric;
}

export interface Scheduler {
  name: string;
  displayName?: string;
  state?: string;
  etag?: string;
  currentConfiguration?: string;
  spec: {
    mode?: string;
    schedulerType?: string;
    objective?: { metricId?: string; goal?: string };
    cluster?: { nodes?: number; gpusPerNode?: number };
    parameters?: ParameterSpec[];
  };
  freeze?: { reason?: string; actor?: string; createTime?: Time; expireTime?: Time };
  pin?: { configuration?: string; reason?: string; actor?: string; createTime?: Time; expireTime?: Time };
  pause?: { reason?: string; actor?: string; createTime?: Time };
  status?: {
    eventTime?: Time;
    eventCount?: string;
    roundCount?: string;
    lastDecision?: string;
    lastError?: string;
    fidelity?: string;
    watching?: string;
    lastIncident?: Incident;
    hold?: string;
    deciding?: boolean;
    proposedConfiguration?: string;
    degraded?: string;
    instances?: Instance[];
    reportedMetrics?: ReportedMetric[];
  };
}

export interface Instance {
  instanceId?: string;
  condition?: string;
  reason?: string;
  desiredRevision?: string;
  reportedRevision?: string;
  appliedTime?: Time;
}

export interface Configuration {
  name: string;
  revision: string;
  state?: string;
  origin?: string;
  parameters?: Values;
  contentHash?: string;
  etag?: string;
  createTime?: Time;
  updateTime?: Time;
  reason?: string;
  evidence?: {
    schedulerTime?: Time;
    controllableRatio?: number;
    ratioLow?: number;
    ratioHigh?: number;
    incumbentRevision?: string;
    search?: string;
    searchReason?: string;
    fidelity?: string;
    roundName?: string;
  };
  acknowledgement?: { state?: string; error?: string; appliedTime?: Time };
  incident?: Incident;
  review?: { approved?: boolean; parked?: boolean; actor?: string; reason?: string; createTime?: Time };
  reportedMetrics?: ReportedMetric[];
  nativeText?: string;
}

export interface Candidate {
  origin?: string;
  parameters?: Values;
  controllableRatio?: number;
  objectives?: number[];
  error?: string;
  outcome?: string;
}

export interface Round {
  name: string;
  schedulerTime?: Time;
  createTime?: Time;
  duration?: string;
  urgent?: boolean;
  outcome?: string;
  revision?: string;
  error?: string;
  incumbentRevision?: string;
  reason?: string;
  controllableRatio?: number;
  predictedObjectives?: number[];
  incumbentObjectives?: number[];
  search?: string;
  searchReason?: string;
  candidates?: Candidate[];
  settings?: { settings?: Record<string, unknown> };
  inputDigest?: string;
  eventCount?: string;
}

export interface Outlook {
  parameters?: Values;
  objectives?: number[];
  objective?: number;
  metrics?: Record<string, number>;
  metricsInFutures?: Record<string, { values?: number[] }>;
}

export interface Group {
  kind: string;
  group?: string;
  jobCount?: number;
  meanWaitBefore?: number;
  meanWaitAfter?: number;
  p95WaitBefore?: number;
  p95WaitAfter?: number;
  slowerJobCount?: number;
  loses?: boolean;
}

export interface Park {
  configuration?: string;
  proposal?: boolean;
  contentHash?: string;
  actor?: string;
  reason?: string;
  createTime?: Time;
  expireTime?: Time;
}

export interface Explanation {
  groups?: Group[];
  summary?: string;
  round?: string;
  from?: Outlook;
  to?: Outlook;
  controllableRatio?: number;
  ratioLow?: number;
  ratioHigh?: number;
  parameterContributions?: {
    parameterId: string;
    from?: Value;
    to?: Value;
    deltaObjective?: number;
  }[];
  limits?: string[];
}

export interface ParameterChange {
  parameterId: string;
  from?: Value;
  to?: Value;
  constraintId?: string;
}

export interface WhatIf {
  groups?: Group[];
  schedulerTime?: Time;
  incumbent?: Outlook;
  candidate?: Outlook;
  controllableRatio?: number;
  ratioLow?: number;
  ratioHigh?: number;
  limits?: string[];
  futures?: number;
  incumbentRevision?: string;
  causalPrediction?: {
    reliability?: { reliable?: boolean; reason?: string };
    ratio?: number;
    ratioLow?: number;
    ratioHigh?: number;
    extrapolationReason?: string;
  };
}

export interface Mark {
  actor?: string;
  createTime?: Time;
  reason?: string;
  untilTime?: Time;
}

export interface Finding {
  name: string;
  rule: string;
  entityKind?: string;
  entity?: string;
  state?: string;
  jobId?: string;
  beginTime?: Time;
  closeTime?: Time;
  updateTime?: Time;
  wastedGpuHours?: number;
  affected?: string[]; // kind/name
  evidence?: { what?: string; value?: number; threshold?: number; unit?: string }[];
  words?: string;
  acknowledged?: Mark;
  snoozed?: Mark;
  falsePositive?: Mark;
}

export interface RuleSummary {
  rule: string;
  totalCount?: string;
  openCount?: string;
  precision?: number;
  wastedGpuHours?: number;
}

export interface AuditRecord {
  sequence: string;
  createTime?: Time;
  actor?: string;
  verb?: string;
  resource?: string;
  revisionBefore?: string;
  revisionAfter?: string;
  reason?: string;
  fields?: { name?: string; before?: string; after?: string }[];
}

// Failure is an answer other than a success, or none.
export class Failure extends Error {
  constructor(readonly status: number, message: string, readonly reason = "") {
    super(message);
  }
}

let lost: Date | undefined;
const listeners = new Set<() => void>();

// lostSince is when calls began to fail for lack of an answer; undefined while the service answers.
export const lostSince = () => lost;

// onConnection calls f whenever lostSince changes, until the returned function is called.
export function onConnection(f: () => void): () => void {
  listeners.add(f);
  return () => listeners.delete(f);
}

function connected(ok: boolean) {
  if (ok === !lost) return;
  lost = ok ? undefined : new Date();
  listeners.forEach((f) => f());
}

// call calls a method of the API. reason goes to the audit log.
export async function call<T>(method: string, path: string, body?: object, reason = ""): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body) headers["Content-Type"] = "application/json";
  if (reason) headers["Autosched-Reason-Bin"] = base64(reason);
  let answer: Response;
  try {
    answer = await fetch(path, {
      method, headers, body: body && JSON.stringify(body), credentials: "same-origin", redirect: "error",
    });
  } catch {
    connected(false);
    throw new Failure(0, "the service does not answer");
  }
  connected(answer.status < 502 || answer.status > 504);
  const text = await answer.text();
  let json: { error?: { message?: string; details?: { reason?: string }[] } } = {};
  try {
    json = text ? JSON.parse(text) : {};
  } catch {
    // not of the API: a proxy's page
  }
  if (!answer.ok) {
    throw new Failure(answer.status, json.error?.message || answer.statusText || `HTTP ${answer.status}`,
      json.error?.details?.find((d) => d.reason)?.reason);
  }
  return json as T;
}

export const get = <T>(path: string) => call<T>("GET", path);

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

// list reads all pages of a list, at most `most` items.
export async function list<T>(path: string, field: string, most = 1000): Promise<T[]> {
  const out: T[] = [];
  let token = "";
  do {
    const query = new URLSearchParams({ pageSize: String(Math.min(most - out.length, 1000)) });
    if (token) query.set("pageToken", token);
    const page = await get<Record<string, unknown>>(path + (path.includes("?") ? "&" : "?") + query);
    out.push(...((page[field] as T[] | undefined) ?? []));
    token = (page.nextPageToken as string | undefined) ?? "";
  } while (token && out.length < most);
  return out;
}

// id is the last part of a resource's name.
export const id = (name = "") => name.slice(name.lastIndexOf("/") + 1);

// jobID is a job's id as names of resources have it.
export function jobID(text: string): string {
  const dots = /^\.+$/.test(text);
  return [...new TextEncoder().encode(text)].map((b) => {
    const c = String.fromCharCode(b);
    return /[A-Za-z0-9_-]/.test(c) || c === "." && !dots ? c : "~" + b.toString(16).toUpperCase().padStart(2, "0");
  }).join("");
}

// path is the URL of a resource in the API, with custom verbs.
export const path = (name: string, verb = "") =>
  "/v1/" + name.split("/").map(encodeURIComponent).join("/") + (verb && ":" + verb);

// specsOf are a scheduler's parameters by id, and defaultsOf their values by default.
export const specsOf = (s: Scheduler) => new Map((s.spec.parameters ?? []).map((q) => [q.parameterId, q]));
export const defaultsOf = (s: Scheduler): Values =>
  Object.fromEntries((s.spec.parameters ?? []).map((q) => [q.parameterId, q.defaultValue ?? null]));
