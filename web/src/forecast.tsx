// How forecasts of past hours compare with what came.

import { get, path } from "./api";
import type { Time } from "./api";
import * as f from "./format";
import type { Style } from "./format";
import { Promises, promises } from "./proposal";
import { longPeriod, setQuery, useLoaded } from "./state";
import { span } from "./timeline";
import { Chart, Fact, Facts, Fault, Section, Table, Verdict } from "./ui";

interface Band {
  low?: number;
  middle?: number;
  high?: number;
}

interface Score {
  hourCount?: number;
  wape?: number;
  bias?: number;
  coverage?: number;
  meanAbsoluteError?: number;
}

interface Hour {
  startTime: Time;
  jobs: Band;
  cameJobs?: number;
  gpuHours: Band;
  cameGpuHours?: number;
  openJobs?: number;
}

interface Quality {
  startTime?: Time;
  endTime?: Time;
  method?: string;
  horizonDuration?: string;
  futures?: number;
  jobs?: Score;
  gpuHours?: Score;
  hours?: Hour[];
  durations?: {
    submittedCount?: number;
    predictedCount?: number;
    openCount?: number;
    classCount?: number;
    accuracy?: number;
    confidence?: number;
    calibrationError?: number;
    endedCount?: number;
    coverage?: number;
    wape?: number;
    medianRelativeError?: number;
  };
  noGradeReason?: string;
  limitedReason?: string;
}

// windowOf is the query of the days before the last full hour of events: the same until the next one.
export async function windowOf(name: string, days: number): Promise<string> {
  const now = await get<{ schedulerTime?: Time }>(path(`schedulers/${name}`) + "/load");
  return now.schedulerTime
    ? "?startTime=" + encodeURIComponent(new Date(Math.floor(Date.parse(now.schedulerTime) / 3600e3) * 3600e3 - days * 86400e3).toISOString()) : "";
}

// Days is the choice of a time before the latest event.
export function Days(p: { days: number; of: number[] }) {
  return (
    <p class="filters"><label>The last <select value={String(p.days)} onChange={(e) => setQuery("days", e.currentTarget.value)}>
      {p.of.map((n) => <option key={n} value={String(n)}>{f.plural(n, "day")}</option>)}
    </select></label></p>
  );
}

// daysOf reads the choice of Days.
export const daysOf = (url: URL, of: number[]) => of.find((n) => String(n) === url.searchParams.get("days")) ?? 7;

const choices = [1, 3, 7, 14];

// ForecastPage grades what the service forecast.
export function ForecastPage(p: { name: string; url: URL; style: Style }) {
  const days = daysOf(p.url, choices);
  const d = useLoaded<Quality & { asked?: Time }>(`quality ${p.name} ${days}`, async () => {
    const query = await windowOf(p.name, days);
    const got = await get<Quality>(path("schedulers/" + p.name, "forecastQuality") + query);
    return { ...got, asked: new URLSearchParams(query).get("startTime") ?? undefined };
  }, longPeriod);
  const promised = useLoaded("promises " + p.name, () => promises("schedulers/" + p.name), longPeriod);
  const q = d.data, hours = q?.hours ?? [];
  const open = hours.filter((h) => h.openJobs).length;
  const scores = [...q?.jobs ? [{ name: "Jobs", s: q.jobs }] : [], ...q?.gpuHours ? [{ name: "GPU-hours", s: q.gpuHours }] : []];
  return (
    <>
      <Days days={days} of={choices} />
      <Fault failure={d.failure} />
      {!q ? !d.failure && <p class="soft" role="status">The forecasts are made again…</p>
        : q.noGradeReason ? <Verdict tone="open" title="Nothing is graded yet"><p>{q.noGradeReason}.</p></Verdict>
        : <>
          <Verdict tone="open" title={`${f.share(q.jobs?.coverage)} of ${f.plural(hours.length, "hour")} came within the band of 80 %`}>
            <p>From {f.instant(q.startTime, p.style)} to {f.instant(q.endTime, p.style)} ({f.zoneName(p.style)}). Each hour is
              forecast from what was known when it began, as rounds do ({q.method}), in {q.futures} futures.</p>
            {q.asked && q.startTime && Date.parse(q.startTime) > Date.parse(q.asked) && <p>These are all hours
              of the {f.plural(days, "day")} that can be graded: the first one comes a day after the first known job.</p>}
            {q.limitedReason && <p>The first hours are bounded: {q.limitedReason}.</p>}
          </Verdict>
          <Section title="Arrivals" hint={`Forecast ${f.seconds(span(q.horizonDuration), p.style.unit)} ahead: the median and the band from 10 % to 90 % of the futures, which are predicted, beside what came, which is observed.`}>
            <Compared title="Jobs by hour" hours={hours} band={(h) => h.jobs} came={(h) => h.cameJobs} style={p.style} />
            <Compared title="GPU-hours of these jobs by hour" hours={hours} band={(h) => h.gpuHours} came={(h) => h.cameGpuHours} style={p.style} />
            {open > 0 && <p class="soft">In {f.plural(open, "hour")} jobs have not ended: their GPU-hours are left out, and more came.
              {!q.gpuHours && " These are too many hours to grade GPU-hours."}</p>}
            <Table caption="Scores of hours" rows={scores} columns={[
              { name: "An hour's", text: true, cell: (r) => r.name },
              { name: "Hours", cell: (r) => f.count(r.s.hourCount) },
              { name: "Sum of errors of all that came", cell: (r) => f.share(r.s.wape) },
              { name: "Forecast of what came, mean", cell: (r) => f.share(r.s.bias) },
              { name: "Within the band of 80 %", cell: (r) => f.share(r.s.coverage) },
              { name: "Mean error", cell: (r) => f.number(r.s.meanAbsoluteError ?? 0) },
            ]} />
          </Section>
          <RunTimes q={q} />
        </>}
      <Fault failure={promised.failure} />
      {promised.data && <Promises earlier={promised.data} name={p.name} style={p.style} />}
    </>
  );
}

// Compared draws a forecast and what came.
function Compared(p: { title: string; hours: Hour[]; band: (h: Hour) => Band; came: (h: Hour) => number | undefined; style: Style }) {
  const at = (h: Hour) => Date.parse(h.startTime);
  return (
    <Chart title={p.title} kind="predicted" xName={`Hour (${f.zoneName(p.style)})`} x={(v) => f.instant(v, p.style).slice(5, 16)}
      y={(v) => f.number(v)} series={[
        { name: "forecast", color: "c4", points: p.hours.map((h) => ({ x: at(h), y: p.band(h).middle ?? 0,
          low: p.band(h).low ?? 0, high: p.band(h).high ?? 0 })) },
        { name: "came", kind: "observed", color: "c7", dash: "6 3", points: p.hours.map((h) => ({ x: at(h), y: p.came(h) ?? 0 })) },
      ]} />
  );
}

function RunTimes(p: { q: Quality }) {
  const d = p.q.durations;
  if (!d?.predictedCount) return <Section title="Run times"><p class="soft">No job was submitted in this time.</p></Section>;
  return (
    <Section title="Run times" hint={`Predicted when jobs were submitted: ${f.count(d.predictedCount)} of ${f.plural(d.submittedCount ?? 0, "job")}, ` +
      `evenly spread. ${f.count(d.openCount)} have not ended; they have no part in the errors, which favours short jobs.`}>
      <Facts>
        <Fact name="Run time within the band of 80 %" kind="observed">{d.endedCount ? f.share(d.coverage ?? 0) : "–"}</Fact>
        <Fact name="Median error, of the run time" kind="observed">{d.endedCount ? f.share(d.medianRelativeError ?? 0) : "–"}</Fact>
        <Fact name="Sum of errors, of all run time" kind="observed">{d.endedCount ? f.share(d.wape ?? 0) : "–"}</Fact>
        <Fact name="Right class of six" kind="observed">{d.classCount ? f.share(d.accuracy ?? 0) : "–"}</Fact>
        <Fact name="Its probability, mean" kind="predicted">{d.classCount ? f.share(d.confidence ?? 0) : "–"}</Fact>
        <Fact name="Calibration error">{d.classCount ? f.share(d.calibrationError ?? 0) : "–"}</Fact>
      </Facts>
    </Section>
  );
}
