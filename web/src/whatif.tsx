import { useState } from "preact/hooks";
import { call, get, id, path, specsOf } from "./api";
import type { Configuration, ParameterChange, ParameterSpec, Range, Scheduler, Value, Values, WhatIf } from "./api";
import * as f from "./format";
import type { Style } from "./format";
import { objectiveOf } from "./overview";
import { Effects, Groups } from "./proposal";
import { go, link, useLoaded } from "./state";
import type { Identity } from "./state";
import { Ask, Command, Fact, Facts, Fault, From, Section, Table, Verdict } from "./ui";

const choices = (s: ParameterSpec) => s.categoricalValueSpec?.values ?? s.ordinalValueSpec?.values ??
  (s.booleanValueSpec ? ["false", "true"] : undefined);

const rangeOf = (s: ParameterSpec): Range | undefined => {
  const one = s.arraySpec ?? s;
  return one.integerValueSpec ?? one.doubleValueSpec ?? one.durationValueSpec;
};

// written is a value as the form has it, and read the value of a text; undefined where it is none.
function written(v: Value | undefined, s: ParameterSpec): string {
  if (v === undefined || v === null) return "";
  const special = s.specialValues?.find((x) => (x.value ?? 0) === v)?.displayName;
  return special ?? (Array.isArray(v) ? v.join(", ") : String(v));
}

function read(text: string, s: ParameterSpec): Value | undefined {
  if (s.booleanValueSpec) return text === "true";
  if (choices(s)) return text;
  const special = s.specialValues?.find((x) => x.displayName === text.trim());
  if (special) return special.value ?? 0;
  const numbers = text.split(",").map((t) => t.trim() === "" ? NaN : Number(t));
  if (s.arraySpec && text.trim() === "") return [];
  if (!numbers.every(Number.isFinite)) return undefined;
  return s.arraySpec ? numbers : numbers.length === 1 ? numbers[0] : undefined;
}

async function load(name: string) {
  const scheduler = await get<Scheduler>(path("schedulers/" + name));
  return { scheduler, current: await get<Configuration>(path(scheduler.currentConfiguration ?? "")) };
}

interface Answer {
  key: string;
  changes: ParameterChange[];
  what: WhatIf;
}

// WhatIfPage simulates other values on the present futures. The values that differ are in the URL.
export function WhatIfPage(p: { name: string; url: URL; who: Identity; style: Style }) {
  const d = useLoaded("what-if " + p.name, () => load(p.name), 0);
  const [answer, setAnswer] = useState<Answer>();
  const [fault, setFault] = useState("");
  const [busy, setBusy] = useState(false);
  if (!d.data) return d.failure ? <Fault failure={d.failure} /> : <p class="soft">…</p>;
  const { scheduler: s, current } = d.data, specs = s.spec.parameters ?? [];
  const has = (k: string) => p.url.searchParams.get("set." + k);
  const set = (k: string, text: string, spec: ParameterSpec) => {
    const url = new URL(location.href);
    if (text === written(current.parameters?.[k], spec)) url.searchParams.delete("set." + k);
    else url.searchParams.set("set." + k, text);
    go(url.pathname + url.search, true);
  };
  const differ = specs.filter((q) => has(q.parameterId) !== null);
  const wrong = differ.filter((q) => read(has(q.parameterId)!, q) === undefined);
  const values: Values = Object.fromEntries(differ.map((q) => [q.parameterId, read(has(q.parameterId)!, q) ?? null]));
  const flags = differ.map((q) => ` --set ${q.parameterId}=${shell(written(values[q.parameterId], q).replace(/ /g, ""))}`).join("");
  const key = JSON.stringify(values);
  const simulate = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    setFault("");
    try {
      const checked = await call<{ changes?: ParameterChange[] }>("POST", path(s.name, "validateParameters"),
        { parameters: { ...current.parameters, ...values } });
      const what = await call<WhatIf>("POST", path(s.name, "whatIf"), { parameters: values });
      setAnswer({ key, changes: checked.changes ?? [], what });
    } catch (e) {
      setFault(e instanceof Error ? e.message : String(e));
    }
    setBusy(false);
  };
  return (
    <>
      <Section title={`Other values for ${p.name}`} hint={`From revision ${current.revision}, which is on offer. Nothing changes.`}>
        <form onSubmit={simulate}>
          <div class="space">{specs.map((q) => {
            const now = has(q.parameterId) ?? written(current.parameters?.[q.parameterId] ?? undefined, q);
            const range = rangeOf(q), options = choices(q);
            return (
              <label key={q.parameterId}><code>{q.parameterId}</code>
                {options ? (
                  <select value={now} onChange={(e) => set(q.parameterId, e.currentTarget.value, q)}>
                    {options.map((o) => <option key={o}>{o}</option>)}
                  </select>
                ) : <input value={now} aria-invalid={wrong.includes(q)} inputMode={q.arraySpec || q.specialValues ? "text" : "decimal"}
                  onInput={(e) => set(q.parameterId, e.currentTarget.value, q)} />}
                <span class="what soft">{range ? `${f.number(Number(range.minValue ?? 0), 6)} to ${f.number(Number(range.maxValue ?? 0), 6)}` : ""}
                  {q.unit && " " + q.unit}{q.specialValues?.map((x) => ` or ${x.displayName}`)}</span>
              </label>
            );
          })}</div>
          {wrong.map((q) => <p class="fault" role="alert">{q.parameterId}: {has(q.parameterId)} is no value of it</p>)}
          {p.who.may("WhatIf") && <p class="acts">
            <button type="submit" class="main" disabled={busy || !differ.length || wrong.length > 0}>Simulate</button>
          </p>}
          {fault && <p class="fault" role="alert">{fault}</p>}
        </form>
        {differ.length > 0 && !wrong.length && <Command text={`autosched scheduler what-if ${p.name}${flags}`} />}
      </Section>
      {answer && answer.key === key && <Outcome answer={answer} scheduler={s} current={current} values={values} flags={flags} who={p.who} style={p.style} />}
    </>
  );
}

const shell = (text: string) => /^[A-Za-z0-9_.,:+-]+$/.test(text) ? text : "'" + text.replace(/'/g, "'\\''") + "'";

function Outcome(p: { answer: Answer; scheduler: Scheduler; current: Configuration; values: Values; flags: string; who: Identity; style: Style }) {
  const [asking, ask] = useState(false);
  const propose = async (reason: string) => {
    const c = await call<Configuration>("POST", path(p.scheduler.name) + "/configurations:propose",
      { parameters: p.values, reason, etag: p.current.etag }, reason);
    go(link(`/schedulers/${id(p.scheduler.name)}/configurations/${c.revision}`));
  };
  const { what: w, changes } = p.answer, metric = objectiveOf(p.scheduler);
  const c = w.causalPrediction, ratio = w.controllableRatio || c?.ratio;
  const low = w.ratioLow || c?.ratioLow, high = w.ratioHigh || c?.ratioHigh;
  const specs = specsOf(p.scheduler);
  const unsure = !low || !high || low <= 1 && high >= 1;
  const title = !ratio ? "Nothing can be said of these values" : unsure ? "No clear difference from what runs"
    : ratio > 1 ? "Better than what runs" : "Worse than what runs";
  return (
    <>
      <Verdict tone={!ratio || unsure ? "open" : ratio > 1 ? "good" : "bad"} title={title}>
        {ratio && <p><From kind={w.controllableRatio ? "simulated" : "predicted"} /> the part that settings can influence: {
          f.gain(ratio)}{low && high ? ` (${w.controllableRatio ? 95 : 90} %: ${f.gains(low, high)})` : ""}
          {w.futures ? `, in ${w.futures} futures from ${f.instant(w.schedulerTime, p.style)} on` : ""}</p>}
        {c && !w.controllableRatio && c.reliability?.reason && <p>{c.reliability.reason}</p>}
        {c?.extrapolationReason && <p>{c.extrapolationReason}</p>}
        {w.limits?.length ? <ul>{w.limits.map((t) => <li class="bad-t">{t}</li>)}</ul> : null}
        <p class="soft">To have them run, an operator proposes and approves them:</p>
        <Command text={`autosched scheduler config propose ${id(p.scheduler.name)}${p.flags} --reason WHY`} />
        {p.who.may("ProposeConfiguration") && <button type="button" class="main" onClick={() => ask(true)}>Propose…</button>}
      </Verdict>
      {asking && (
        <Ask title={`Propose these values to ${id(p.scheduler.name)}?`} act="Propose" required close={() => ask(false)} done={propose}>
          <p>Nothing changes before the proposal is approved. It takes the place of a present one.</p>
        </Ask>
      )}
      <Section title="Rules of the space" hint="Values that were changed so that they are valid.">
        <Table caption="Values that the rules change" rows={changes} empty="The values are valid as they are." columns={[
          { name: "Parameter", text: true, cell: (r) => <code>{r.parameterId}</code> },
          { name: "From", cell: (r) => f.value(r.from, specs.get(r.parameterId)) },
          { name: "To", cell: (r) => f.value(r.to, specs.get(r.parameterId)) },
          { name: "Rule", text: true, cell: (r) => r.constraintId },
        ]} />
      </Section>
      {w.incumbent && w.candidate && w.incumbent.objectives?.length ? (
        <Section title="Effects">
          <Facts><Fact name="Compared with">revision {w.incumbentRevision ?? 0}</Fact></Facts>
          <Effects from={w.incumbent} to={w.candidate} metric={metric} style={p.style} />
        </Section>
      ) : null}
      {w.groups?.length ? <Groups groups={w.groups} style={p.style} /> : null}
    </>
  );
}
