// The energy of a scheduler's cluster, its cost and its CO2.

import { get, id, path } from "./api";
import type { Time } from "./api";
import { Days, daysOf, windowOf } from "./forecast";
import * as f from "./format";
import type { Style } from "./format";
import { link, longPeriod, useLoaded } from "./state";
import { A, Bars, Chart, Command, Fact, Facts, Fault, Section, Table, Verdict } from "./ui";
import type { Column } from "./ui";

interface Band {
  low?: number;
  middle?: number;
  high?: number;
}

interface Amount {
  energyKwh?: Band;
  costUsd?: Band;
  co2Kg?: Band;
}

interface User {
  amount?: Amount;
  gpuHours?: number;
  tenant?: string;
}

interface Account {
  startTime?: Time;
  endTime?: Time;
  unknownReason?: string;
  cluster?: Amount;
  jobs?: Amount;
  idle?: Amount;
  gpuHours?: number;
  capacityGpuHours?: number;
  measuredGpuHours?: number;
  activityGpuHours?: number;
  assumedGpuModel?: string;
  prices?: string;
  intensities?: string;
  tenants?: (User & { jobCount?: number })[];
  topJobs?: (User & { name: string; jobId?: string; measuredShare?: number })[];
  moreJobs?: number;
  hours?: { startTime: Time; powerKw?: Band; busyGpus?: number; priceUsdPerMwh?: number; intensityGPerKwh?: number }[];
  notes?: string[];
  constants?: { constant: string; value?: Band; unit?: string; source?: string }[];
  constantsVersion?: number;
}

const choices = [1, 7, 28];

const band = (b: Band = {}, unit = "") => <>{f.number(b.middle ?? 0)}{unit && "\u00a0" + unit}
  <span class="what soft">{f.number(b.low ?? 0)} to {f.number(b.high ?? 0)}</span></>;

// amounts are the columns of what something used.
function amounts<T extends { amount?: Amount }>(): Column<T>[] {
  return [
    { name: "kWh", kind: "predicted", cell: (r) => band(r.amount?.energyKwh) },
    { name: "Cost, $", cell: (r) => band(r.amount?.costUsd) },
    { name: "CO2, kg", cell: (r) => band(r.amount?.co2Kg) },
  ];
}

// EnergyPage accounts for a time before the latest event.
export function EnergyPage(p: { name: string; url: URL; style: Style }) {
  const days = daysOf(p.url, choices);
  const d = useLoaded<Account>(`energy ${p.name} ${days}`, async () =>
    get(path("schedulers/" + p.name, "energy") + await windowOf(p.name, days)), longPeriod);
  const e = d.data;
  return (
    <>
      <Days days={days} of={choices} />
      <Fault failure={d.failure} />
      {!e ? !d.failure && <p class="soft" role="status">The energy is added up…</p>
        : e.unknownReason ? <Verdict tone="open" title="The energy is not known">
          <p>{e.unknownReason}</p>
          <Command text="autosched serve --dir data --energy-file service.yaml" />
        </Verdict>
        : <Known e={e} name={p.name} style={p.style} />}
    </>
  );
}

function Known(p: { e: Account; name: string; style: Style }) {
  const { e } = p, whole = e.cluster?.energyKwh ?? {}, total = whole.middle || 1;
  const measured = e.gpuHours ? (e.measuredGpuHours ?? 0) / e.gpuHours : 0;
  const tenants = e.tenants ?? [];
  const parts = [{ name: "Cluster", amount: e.cluster }, { name: "Jobs", amount: e.jobs }, { name: "Idle nodes", amount: e.idle }];
  return (
    <>
      <Verdict tone="open" title={`${f.number(whole.middle ?? 0)} kWh, of which idle nodes have ${f.share((e.idle?.energyKwh?.middle ?? 0) / total)}`}>
        <p>From {f.instant(e.startTime, p.style)} to {f.instant(e.endTime, p.style)} ({f.zoneName(p.style)}), at the facility's meter.
          The low and the high value take every constant of the power model at its end.</p>
      </Verdict>
      <Section title="Cluster" hint="Jobs have the power of the GPUs that they hold with their share of the node; idle is the rest of the nodes that are on.">
        <Facts>
          <Fact name="GPU-hours that jobs held" kind="observed">{f.number(e.gpuHours ?? 0)} of {f.number(e.capacityGpuHours ?? 0)}</Fact>
          <Fact name="Measured GPU-hours" kind="observed">{measured ? f.share(measured) : "none: no sample of GPUs names a job"}</Fact>
          <Fact name="Modelled GPU-hours" kind="predicted">{f.share(1 - measured)}{e.activityGpuHours
            ? `, and ${f.number(e.activityGpuHours)} measured ones by activity, without power` : ""}</Fact>
          <Fact name="Model of GPU">{e.assumedGpuModel ? `none is registered: ${e.assumedGpuModel} is assumed` : "as registered"}</Fact>
          <Fact name="Prices">{e.prices ? id(e.prices) : "a constant"}</Fact>
          <Fact name="Carbon intensities">{e.intensities ? id(e.intensities) : "a constant"}</Fact>
        </Facts>
        <Chart title="Power by hour, kW" kind="predicted" xName={`Hour (${f.zoneName(p.style)})`} x={(v) => f.instant(v, p.style).slice(5, 16)}
          y={(v) => f.number(v)} series={[{ name: measured ? "modelled, and measured where GPUs were (low to high)" : "modelled (low to high)", color: "c4",
            points: (e.hours ?? []).map((h) => ({ x: Date.parse(h.startTime), y: h.powerKw?.middle ?? 0, low: h.powerKw?.low ?? 0, high: h.powerKw?.high ?? 0 })) }]} />
        <Table caption="Energy of the cluster" rows={parts} columns={[{ name: "Of", text: true, cell: (r) => r.name }, ...amounts<typeof parts[0]>()]} />
        {(e.notes ?? []).map((n) => <p class="soft">{n}.</p>)}
      </Section>
      <Section title="Tenants">
        <Bars title="shares of the energy" kind="predicted" rows={tenants.slice(0, 12).map((t) => ({ name: t.tenant || "no tenant",
          value: t.amount?.energyKwh?.middle ?? 0, text: f.share((t.amount?.energyKwh?.middle ?? 0) / total) }))} />
        <Table caption="Energy of tenants" rows={tenants} empty="No job held GPUs in this time." columns={[
          { name: "Tenant", text: true, cell: (r) => <A href={link(`/schedulers/${p.name}/jobs`, r.tenant ? { tenant: r.tenant } : {})}>{r.tenant || "no tenant"}</A> },
          { name: "Jobs", kind: "observed", cell: (r) => f.count(r.jobCount) },
          { name: "GPU-hours", cell: (r) => f.number(r.gpuHours ?? 0) },
          ...amounts<User>(),
        ]} />
      </Section>
      <Section title="Jobs" hint={`The most energy first${e.moreJobs ? `; ${f.count(e.moreJobs)} more used less` : ""}.`}>
        <Table caption="Energy of jobs" rows={e.topJobs ?? []} most={20} empty="No job held GPUs in this time." columns={[
          { name: "Job", text: true, cell: (r) => <A href={link(`/schedulers/${p.name}/jobs`, { job: id(r.name) })}>{r.jobId}</A> },
          { name: "Tenant", text: true, cell: (r) => r.tenant || "–" },
          { name: "GPU-hours", kind: "observed", cell: (r) => f.number(r.gpuHours ?? 0) },
          { name: "Measured", cell: (r) => f.share(r.measuredShare ?? 0) },
          ...amounts<User>(),
        ]} />
      </Section>
      <Section title="Constants" hint={`Of the power model, version ${e.constantsVersion ?? 0}.`}>
        <Table caption="Constants" rows={e.constants ?? []} most={10} columns={[
          { name: "Constant", text: true, cell: (r) => r.constant.replace(/_/g, " ") },
          { name: "Value", cell: (r) => band(r.value, r.unit) },
          { name: "Source", text: true, cell: (r) => r.source || "–" },
        ]} />
      </Section>
    </>
  );
}
