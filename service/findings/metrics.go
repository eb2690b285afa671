package findings

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/autosched/autosched/telemetry"
)

var (
	openDesc = prometheus.NewDesc("autosched_findings_open",
		"Findings that hold, without those that are snoozed or false positives.", []string{"scheduler", "rule"}, nil)
	totalDesc = prometheus.NewDesc("autosched_findings_total", "Findings that opened, since the scheduler was registered.",
		[]string{"scheduler", "rule"}, nil)
	wastedDesc = prometheus.NewDesc("autosched_findings_wasted_gpu_hours",
		"GPU-hours that findings which hold have wasted so far, without false positives.",
		[]string{"scheduler", "rule"}, nil)
	costDesc = prometheus.NewDesc("autosched_findings_wasted_cost",
		"What the GPU-hours cost that findings which hold have wasted so far, without false positives, in the currency of "+
			"the price; 0 without a price of GPU-hours.",
		[]string{"scheduler", "rule"}, nil)
	judgedDesc = prometheus.NewDesc("autosched_findings_judged",
		"Findings that people judged: true ones, which were acknowledged, and false positives.",
		[]string{"scheduler", "rule", "judgement"}, nil)
	recordsDesc = prometheus.NewDesc("autosched_findings_records_total",
		"Events, samples, iterations and guardrails taken in for patterns since the service started, by result: "+
			"examined, or left out as late, "+
			"ahead of the clock, or dropped for want of room; unkept are findings beyond the most that are kept.",
		[]string{"scheduler", "result"}, nil)
	joinsDesc = prometheus.NewDesc("autosched_findings_samples_joined_total",
		"Samples of GPUs examined since the service started, by how they were joined to a job (named or placement), or "+
			"why to none (ended_job, idle_node, shared_node).",
		[]string{"scheduler", "how"}, nil)
)

// Describe implements prometheus.Collector.
func (k *Keeper) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{openDesc, totalDesc, wastedDesc, costDesc, judgedDesc, recordsDesc,
		joinsDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (k *Keeper) Collect(out chan<- prometheus.Metric) {
	k.mu.Lock()
	watches := maps.Clone(k.watches)
	k.mu.Unlock()
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	for _, id := range slices.Sorted(maps.Keys(watches)) {
		w := watches[id]
		w.mu.Lock()
		rules := w.summaries(k.o.Now())
		w.mu.Unlock()
		for _, r := range rules {
			out <- prometheus.MustNewConstMetric(openDesc, gauge, float64(r.Loud), id, r.Rule)
			out <- prometheus.MustNewConstMetric(totalDesc, counter, float64(r.Total), id, r.Rule)
			out <- prometheus.MustNewConstMetric(wastedDesc, gauge, r.Wasted, id, r.Rule)
			out <- prometheus.MustNewConstMetric(costDesc, gauge, r.Cost, id, r.Rule)
			out <- prometheus.MustNewConstMetric(judgedDesc, gauge, float64(r.Acknowledged), id, r.Rule, "true")
			out <- prometheus.MustNewConstMetric(judgedDesc, gauge, float64(r.FalsePositives), id, r.Rule, "false")
		}
		w.in.Lock()
		for _, what := range []string{examined, late, tooEarly, dropped, unkept} {
			out <- prometheus.MustNewConstMetric(recordsDesc, counter, float64(w.counts[what]), id, what)
		}
		for _, how := range []telemetry.Joined{telemetry.ByName, telemetry.ByPlacement, telemetry.EndedJob,
			telemetry.IdleNode, telemetry.SharedNode} {
			out <- prometheus.MustNewConstMetric(joinsDesc, counter, float64(w.joins[how]), id, how.String())
		}
		w.in.Unlock()
	}
}
