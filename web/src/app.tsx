import { render } from "preact";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, Failure, get } from "./api";
import type { Style } from "./format";
import * as f from "./format";
import { DoctorPage } from "./doctor";
import { EnergyPage } from "./energy";
import { FindingsPage } from "./findings";
import { ForecastPage } from "./forecast";
import { HistoryPage } from "./history";
import { JobsPage, TenantsPage } from "./job";
import { Overview } from "./overview";
import { RevisionPage } from "./proposal";
import { SchedulerPage } from "./scheduler";
import { go, link, listSchedulers, setQuery, styleOf, useLoaded, useLost, useURL } from "./state";
import type { Identity } from "./state";
import { TimelinePage } from "./timeline";
import { A, Fault, Verdict } from "./ui";
import { StudiesPage } from "./studies";
import { WhatIfPage } from "./whatif";

interface PageProps {
  name: string;
  url: URL;
  who: Identity;
  style: Style;
}

// pages are a scheduler's, by the part of the path after its name.
const pages: Record<string, { title: string; of: (p: PageProps) => JSX.Element; may?: string }> = {
  "": { title: "State", of: SchedulerPage },
  history: { title: "History", of: HistoryPage },
  timeline: { title: "Timeline", of: TimelinePage, may: "GetTimeline" },
  jobs: { title: "Jobs", of: JobsPage, may: "ListJobs" },
  tenants: { title: "Tenants", of: TenantsPage, may: "ListTenants" },
  forecast: { title: "Forecasts", of: ForecastPage, may: "GetForecastQuality" },
  energy: { title: "Energy", of: EnergyPage, may: "GetEnergy" },
  "what-if": { title: "What if", of: WhatIfPage, may: "WhatIf" },
  studies: { title: "Studies", of: StudiesPage },
};

async function identify(): Promise<Identity> {
  const who = await get<{ name?: string; role?: string; credential?: string; methods?: string[] }>("/session");
  const methods = new Set(who.methods);
  return { name: who.name ?? "", role: who.role ?? "", session: who.credential === "session", may: (m) => methods.has(m) };
}

// decoded is a part of a path; it stays as it is where it is no UTF-8.
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function App() {
  const url = useURL();
  const who = useLoaded("who", identify);
  if (!who.data) return who.failure?.status === 401 || who.failure?.status === 403 ? <SignIn done={who.again} why={who.failure} />
    : <main id="main"><Fault failure={who.failure} /></main>;
  if (who.failure?.status === 401) return <SignIn done={who.again} ended />;
  return <Dashboard url={url} who={who.data} />;
}

function Dashboard(p: { url: URL; who: Identity }) {
  const { url, who } = p;
  const style = styleOf(url);
  const schedulers = useLoaded("schedulers", listSchedulers);
  const parts = url.pathname.split("/").filter(Boolean).map(decoded);
  const [kind, name = "", sub = "", number = ""] = parts;
  const named = kind === "schedulers" && /^[a-z0-9-]+$/.test(name);
  const page = named && parts.length <= 3 ? pages[sub] : undefined;
  const revision = named && sub === "configurations" && /^\d+$/.test(number) ? number : "";
  const title = !kind ? "Overview" : kind === "findings" ? "Findings" : kind === "doctor" ? "Doctor"
    : revision ? `Revision ${revision} of ${name}` : !page ? "No such page" : sub ? `${page.title}, ${name}` : name;
  useEffect(() => {
    document.title = `${title} · AutoSched`;
  }, [title]);
  useEffect(() => document.getElementById("main")?.focus({ preventScroll: false }), [url.pathname]);
  return (
    <>
      <a class="skip" href="#main">To the content</a>
      <nav aria-label="Pages">
        <A class="brand" href={link("/")}>AutoSched</A>
        <A href={link("/")} current={!kind}>Overview</A>
        <A href={link("/findings", named ? { scheduler: name } : {})} current={kind === "findings"}>Findings</A>
        <A href={link("/doctor")} current={kind === "doctor"}>Doctor</A>
        <Choices style={style} />
        <span class="who">{who.name || "not identified"}{who.role && `, ${who.role}`}
          {who.session && <button type="button" class="small" onClick={() => call("DELETE", "/session").then(() => location.reload())}>
            Sign out</button>}</span>
      </nav>
      {named && <nav class="of" aria-label={`Pages of ${name}`}>
        <strong>{name}</strong>
        {Object.entries(pages).filter(([, q]) => !q.may || who.may(q.may)).map(([part, q]) => (
          <A key={part} href={link(`/schedulers/${name}` + (part && "/" + part))} current={page === q}>{q.title}</A>
        ))}
      </nav>}
      <Connection style={style} />
      <main id="main" tabIndex={-1}>
        <h1>{title}</h1>
        {!kind ? <Overview schedulers={schedulers} who={who} style={style} />
          : kind === "findings" ? <FindingsPage schedulers={schedulers} url={url} who={who} style={style} />
          : kind === "doctor" ? <DoctorPage style={style} />
          : revision ? <RevisionPage key={name + number} name={name} number={number} who={who} style={style} />
          : page ? <page.of key={name + sub} name={name} url={url} who={who} style={style} />
          : <Verdict tone="bad" title="There is no such page" />}
      </main>
    </>
  );
}

// Choices are the units of time and the time zone.
function Choices(p: { style: Style }) {
  return (
    <span class="filters">
      <label>Time in <select value={p.style.unit === "auto" ? "" : p.style.unit} onChange={(e) => setQuery("unit", e.currentTarget.value)}>
        <option value="">d, h, min, s</option><option value="h">hours</option><option value="min">minutes</option>
        <option value="s">seconds</option>
      </select></label>
      <label>Zone <select value={p.style.zone ? "" : "local"} onChange={(e) => setQuery("tz", e.currentTarget.value)}>
        <option value="">UTC</option><option value="local">{f.zoneName({ ...p.style, zone: "" })}, here</option>
      </select></label>
    </span>
  );
}

// Connection says that the service does not answer, and since when.
function Connection(p: { style: Style }) {
  const lost = useLost();
  return (
    <div role="status" class={lost ? "lost" : "away"}>
      {lost ? `The service has not answered since ${f.instant(lost.toISOString(), p.style)} (${f.zoneName(p.style)}). ` +
        "The page shows what was known then, and tries again." : "Connected."}
    </div>
  );
}

function SignIn(p: { done: () => void; ended?: boolean; why?: Failure }) {
  const [token, setToken] = useState("");
  const [fault, setFault] = useState("");
  useEffect(() => {
    document.title = "Sign in · AutoSched";
  }, []);
  const submit = async (e: Event) => {
    e.preventDefault();
    try {
      await call("POST", "/session", { token: token.trim() });
      setToken("");
      if (location.pathname === "/sign-in") go("/", true);
      p.done();
    } catch (e) {
      setToken("");
      setFault(e instanceof Failure && e.status === 401 ? "The roles file has no such token."
        : e instanceof Failure && e.status === 429 ? "Too many wrong tokens: wait a while." : String((e as Error).message));
    }
  };
  return (
    <main id="main">
      <h1>AutoSched</h1>
      <section class="sign-in">
        <h2>{p.ended ? "The session has ended" : "Sign in"}</h2>
        {p.why?.status === 403 && <Fault failure={p.why} />}
        <form onSubmit={submit}>
          <label for="token">A token of the roles file</label>
          <input id="token" type="password" autocomplete="current-password" required value={token}
            onInput={(e) => setToken(e.currentTarget.value)} />
          {fault && <p class="fault" role="alert">{fault}</p>}
          <p class="acts"><button type="submit" class="main">Sign in</button></p>
        </form>
        <p class="soft">It is exchanged for a cookie that scripts cannot read, and forgotten. A client certificate needs no token.</p>
      </section>
    </main>
  );
}

render(<App />, document.getElementById("app")!);
