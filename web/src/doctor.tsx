import { get } from "./api";
import * as f from "./format";
import type { Style } from "./format";
import { useLoaded } from "./state";
import { Bars, Fault, Section, Table, Verdict } from "./ui";

interface Check {
  check?: string;
  status?: string;
  detail?: string;
  action?: string;
}

const order = ["FAIL", "WARN", "OK"];

const words: Record<string, string> = { FAIL: "does not work", WARN: "works, and will not for ever", OK: "is well" };

// DoctorPage is what the service finds when it checks itself and its store.
export function DoctorPage(p: { style: Style }) {
  const d = useLoaded("doctor", () => get<{ checks?: Check[]; time?: string; version?: string }>("/v1/maintenance:diagnose"));
  if (!d.data) return d.failure ? <Fault failure={d.failure} /> : <p class="soft">…</p>;
  const rows = [...d.data.checks ?? []].sort((a, b) => order.indexOf(a.status ?? "") - order.indexOf(b.status ?? ""));
  const failed = rows.filter((c) => c.status === "FAIL").length, warned = rows.filter((c) => c.status === "WARN").length;
  return (
    <>
      <Fault failure={d.failure} />
      <Verdict tone={failed ? "bad" : warned ? "open" : "good"} title={failed ? f.plural(failed, "thing does not work", "things do not work")
        : warned ? f.plural(warned, "thing needs care before long", "things need care before long") : "The service is well"}>
        <p>Version {d.data.version || "unknown"}; its clock says {f.instant(d.data.time, p.style)} ({f.zoneName(p.style)}).</p>
      </Verdict>
      <Section title="Checks" hint="Worst first, of the service and its store. 'autosched admin doctor' makes the same.">
        <Bars title="checks by state" rows={order.map((state) => ({ name: words[state]!, value: rows.filter((c) => c.status === state).length,
          text: f.plural(rows.filter((c) => c.status === state).length, "check"), tone: state === "FAIL" ? "bad" as const : state === "WARN" ? "open" as const : "good" as const }))} />
        <Table caption="Checks" rows={rows} most={100} columns={[
          { name: "Check", text: true, cell: (c) => c.check },
          { name: "State", text: true, cell: (c) => <span class={c.status === "FAIL" ? "bad-t" : c.status === "WARN" ? undefined : "good-t"}>
            {words[c.status ?? ""] ?? "is not known"}</span> },
          { name: "What was found", text: true, cell: (c) => c.detail },
          { name: "What to do", text: true, cell: (c) => c.action || "–" },
        ]} />
      </Section>
    </>
  );
}
