// Texts of numbers, values and instants. Units and time zone are the reader's choice, which the URL holds.

import type { ParameterSpec, Time, Value, Values } from "./api";

export type Unit = "auto" | "s" | "min" | "h";

// Style is how numbers and instants are shown.
export interface Style {
  unit: Unit;
  zone: string; // UTC, or empty for the browser's own
}

const missing = "–";

const numbers = new Map<number, Intl.NumberFormat>();

// number has `digits` significant digits.
export function number(v: number | undefined, digits = 3): string {
  if (v === undefined || !Number.isFinite(v)) return missing;
  let f = numbers.get(digits);
  if (!f) {
    f = new Intl.NumberFormat("en", { maximumSignificantDigits: digits, useGrouping: false });
    numbers.set(digits, f);
  }
  return f.format(v);
}

// count is a whole number with thin spaces.
export const count = (v: number | string = 0) => String(v).replace(/\B(?=(\d{3})+$)/g, "\u202f");

// plural is a number of things.
export const plural = (n: number, one: string, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

const sizes: Record<Unit, number> = { auto: 1, s: 1, min: 60, h: 3600 };

// seconds is a span of time.
export function seconds(v: number | undefined, unit: Unit): string {
  if (v === undefined || !Number.isFinite(v)) return missing;
  if (unit !== "auto") return number(v / sizes[unit], 4) + "\u00a0" + unit;
  const abs = Math.abs(v);
  const sign = v < 0 ? "-" : "";
  if (abs < 60) return number(v) + "\u00a0s";
  const parts = (big: number, bigName: string, small: number, smallName: string) => {
    const whole = Math.round(abs / small);
    const rest = whole % (big / small);
    return `${sign}${Math.floor(whole / (big / small))}\u00a0${bigName}` + (rest ? ` ${rest}\u00a0${smallName}` : "");
  };
  if (abs < 3600) return parts(60, "min", 1, "s");
  if (abs < 86400 * 2) return parts(3600, "h", 60, "min");
  return parts(86400, "d", 3600, "h");
}

// percent is a share as a percentage, with its sign.
export function percent(share: number | undefined): string {
  if (share === undefined || !Number.isFinite(share)) return missing;
  const v = share * 100;
  const digits = Math.abs(v) < 0.095 ? 2 : Math.abs(v) < 9.95 ? 1 : 0;
  return (v > 0 ? "+" : "") + v.toFixed(digits) + "\u00a0%";
}

// share is a part of a whole, from 0 to 1, as a percentage.
export const share = (part: number | undefined): string =>
  part === undefined || !Number.isFinite(part) ? missing : Math.round(part * 1000) / 10 + "\u00a0%";

// gain is the change of a metric by its ratio, before over after; gains are the two ends of its interval.
export const gain = (ratio: number | undefined): string => percent(ratio ? 1 / ratio - 1 : undefined);
export const gains = (low: number, high: number): string => `${gain(high)} to ${gain(low)}`;

// quantity is a value of a metric of the simulator or of a scheduler: seconds where its name says so.
export function quantity(metric: string, v: number | undefined, unit: Unit): string {
  return isTime(metric) ? seconds(v, unit) : number(v, 4) + (metric === "slowdown" && v !== undefined ? "\u00a0×" : "");
}

// isTime says whether a metric is a span of time in seconds: avg_queue and restart_s_per_job, not queue_length or jobs_per_s.
export const isTime = (metric: string) =>
  /(^|_)((jct|queue|wait|makespan)(_(avg|mean|max|p\d+))?$|(s|seconds)(_|$))/.test(metric) && !/_per_(s|seconds)(_|$)/.test(metric);

const metrics: Record<string, string> = {
  avg_jct: "average JCT",
  p95_jct: "p95 JCT",
  p99_jct: "p99 JCT",
  avg_queue: "mean wait",
  avg_queue_s: "mean wait",
  restart_s_per_job: "time lost to restarts, per job",
  slowdown: "slowdown",
  preemptions_per_job: "preemptions per job",
};

// metricName is a metric for people.
export const metricName = (m: string) => metrics[m] ?? m.replace(/_/g, " ");

// value is a parameter's value.
export function value(v: Value | undefined, spec?: ParameterSpec): string {
  if (v === undefined || v === null) return missing;
  if (Array.isArray(v)) return v.map((x) => value(x, spec)).join(", ");
  if (typeof v === "number") {
    const special = spec?.specialValues?.find((s) => (s.value ?? 0) === v)?.displayName;
    if (special) return special;
    const time = spec?.durationValueSpec || spec?.arraySpec?.durationValueSpec;
    return time ? seconds(v, "auto") : number(v, 6);
  }
  return typeof v === "object" ? JSON.stringify(v) : String(v);
}

// changed lists the parameters whose values differ, in the order of the space.
export function changed(from: Values = {}, to: Values = {}, specs: ParameterSpec[] = []): string[] {
  const ids = [...new Set([...specs.map((s) => s.parameterId), ...Object.keys(from), ...Object.keys(to)])];
  return ids.filter((k) => JSON.stringify(from[k]) !== JSON.stringify(to[k]));
}

// instant is a time in the style's zone, to the second.
export function instant(t: Time | number | undefined, style: Style): string {
  if (t === undefined || t === "") return missing;
  return new Intl.DateTimeFormat("sv-SE", {
    timeZone: style.zone || undefined, year: "numeric", month: "2-digit", day: "2-digit",
    hour: "2-digit", minute: "2-digit", second: "2-digit",
  }).format(new Date(t));
}

// zoneName is the zone that instants are in.
export const zoneName = (style: Style) => style.zone || Intl.DateTimeFormat().resolvedOptions().timeZone;

// ago is how long a time is past, in words.
export function ago(t: Time | undefined, now = Date.now()): string {
  if (!t) return missing;
  const s = (now - Date.parse(t)) / 1000;
  if (s < 0) return "in " + seconds(-s, "auto");
  return s < 60 ? "less than a minute ago" : seconds(s < 3600 ? Math.floor(s / 60) * 60 : s, "auto") + " ago";
}

// mean of numbers; undefined for none.
export const mean = (xs: number[] = []) => xs.length ? xs.reduce((a, b) => a + b, 0) / xs.length : undefined;
