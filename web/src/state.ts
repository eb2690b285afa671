// The state of a page: its path and query, the reader's choices and what the service says.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Failure, list, lostSince, onConnection, path } from "./api";
import type { Scheduler } from "./api";
import type { Style, Unit } from "./format";

const moved = new Set<() => void>();
addEventListener("popstate", () => moved.forEach((f) => f()));

// go moves to a URL of the dashboard.
export function go(url: string, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", url);
  moved.forEach((f) => f());
}

// useURL is the page's URL, which follows go and the browser's buttons.
export function useURL(): URL {
  const [href, set] = useState(location.href);
  useEffect(() => {
    const f = () => set(location.href);
    moved.add(f);
    return () => void moved.delete(f);
  }, []);
  return new URL(href);
}

// link is a path with the present query's choices; empty values are left out.
export function link(to: string, more: Record<string, string> = {}): string {
  const query = new URLSearchParams();
  for (const key of ["unit", "tz"]) {
    const v = new URL(location.href).searchParams.get(key);
    if (v) query.set(key, v);
  }
  for (const [k, v] of Object.entries(more)) if (v) query.set(k, v);
  const text = query.toString();
  return to + (text && "?" + text);
}

// setQuery changes a part of the query; an empty value removes it.
export function setQuery(key: string, v: string) {
  const url = new URL(location.href);
  if (v) url.searchParams.set(key, v);
  else url.searchParams.delete(key);
  go(url.pathname + url.search, true);
}

// styleOf reads how numbers and instants are shown.
export function styleOf(url: URL): Style {
  const unit = url.searchParams.get("unit") ?? "";
  return {
    unit: (["s", "min", "h"].includes(unit) ? unit : "auto") as Unit,
    zone: url.searchParams.get("tz") === "local" ? "" : "UTC",
  };
}

// useLost is since when the service has not answered.
export function useLost(): Date | undefined {
  const [, set] = useState(0);
  useEffect(() => onConnection(() => set((n) => n + 1)), []);
  return lostSince();
}

// Loaded is what a page shows: data of the last answer, and why there is none newer.
export interface Loaded<T> {
  data?: T;
  failure?: Failure;
  again: () => void;
}

// period is how often a page asks again for what no stream tells, and longPeriod for lists, whose changes show elsewhere.
const period = 5000;
export const longPeriod = 60_000;

// useLoaded loads at once, when `key` changes, when `again` is called, and every so often while the page is visible;
// never again if `every` is 0. It keeps the data while a call fails.
export function useLoaded<T>(key: string, load: () => Promise<T>, every = period): Loaded<T> {
  const [state, set] = useState<{ key: string; data?: T; failure?: Failure }>({ key });
  const latest = useRef(load);
  latest.current = load;
  const run = useRef(() => {});
  useEffect(() => {
    let ended = false, busy = false, wanted = false, timer = 0;
    const turn = async () => {
      clearTimeout(timer);
      if (busy) return void (wanted = true);
      busy = true;
      try {
        const data = await latest.current();
        if (!ended) set({ key, data });
      } catch (e) {
        const failure = e instanceof Failure ? e : new Failure(0, String(e));
        if (!ended) set((s) => ({ key, data: s.key === key ? s.data : undefined, failure }));
      }
      busy = false;
      if (ended) return;
      if (wanted) {
        wanted = false;
        return void turn();
      }
      if (lostSince()) timer = window.setTimeout(turn, period);
      else if (every) timer = window.setTimeout(turn, every);
    };
    const visible = () => {
      if (document.hidden) clearTimeout(timer);
      else if (every) void turn();
    };
    run.current = () => void turn();
    document.addEventListener("visibilitychange", visible);
    void turn();
    return () => {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", visible);
    };
  }, [key, every]);
  return { ...(state.key === key ? state : {}), again: useCallback(() => run.current(), []) };
}

// useWatch calls f when the service offers a scheduler another configuration, pauses or resumes it. The browser connects
// again by itself where the connection ended, and a timer where the service refused it. A hidden page watches nothing:
// browsers have few connections to a host.
export function useWatch(scheduler: string, f: () => void) {
  const latest = useRef(f);
  latest.current = f;
  useEffect(() => {
    if (!scheduler) return;
    let source: EventSource | undefined, timer = 0;
    const tell = () => latest.current();
    const open = () => {
      clearTimeout(timer);
      source?.close();
      if (document.hidden) return;
      source = new EventSource(path(scheduler) + "/configurations:watch");
      for (const event of ["configuration", "paused", "resumed"]) source.addEventListener(event, tell);
      source.onerror = () => {
        tell();
        if (source?.readyState === EventSource.CLOSED) timer = window.setTimeout(open, period);
      };
    };
    open();
    document.addEventListener("visibilitychange", open);
    return () => {
      document.removeEventListener("visibilitychange", open);
      clearTimeout(timer);
      source?.close();
    };
  }, [scheduler]);
}

// Identity is who looks at the page and what they may do.
export interface Identity {
  name: string;
  role: string;
  session: boolean; // by a cookie, which signing out ends
  may: (method: string) => boolean;
}

export const listSchedulers = () => list<Scheduler>("/v1/schedulers", "schedulers");
