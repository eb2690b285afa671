package reports

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics for Prometheus. Their labels are ids of registered schedulers, at most MaxMetrics names of each, and
// constants.
var (
	latestDesc = prometheus.NewDesc("autosched_reported_metric",
		"Mean over the latest 5 minutes of event time with reports of a metric that the scheduler reports.",
		[]string{"scheduler", "metric"}, nil)
	meanDesc = prometheus.NewDesc("autosched_reported_metric_mean",
		"Mean of a metric that the scheduler reports, under the revision on offer and under the last one before it that "+
			"has reports.", []string{"scheduler", "metric", "configuration"}, nil)
)

// Describe implements prometheus.Collector.
func (k *Keeper) Describe(out chan<- *prometheus.Desc) {
	out <- latestDesc
	out <- meanDesc
}

// Collect implements prometheus.Collector.
func (k *Keeper) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, id := range k.o.Schedulers.Schedulers("", 1<<30) {
		c, _, err := k.o.Schedulers.Scheduler(id)
		if err != nil {
			continue // purged meanwhile
		}
		all, err := k.Summaries(id)
		if err != nil {
			k.o.Log.Error("reported metrics cannot be read", "scheduler", id, "err", err)
			continue
		}
		for i := range all {
			// Of a metric the last one in order wins among reports that end at the same time.
			newer := func(o Summary) bool {
				return o.Metric == all[i].Metric && (o.To.After(all[i].To) || o.To.Equal(all[i].To) &&
					o.Revision > all[i].Revision)
			}
			if !slices.ContainsFunc(all, newer) {
				gauge(latestDesc, all[i].Latest, id, all[i].Metric)
			}
		}
		for _, one := range changes(all, c.OfferedRevision) {
			gauge(meanDesc, one.Mean, id, one.Metric, "offered")
			if one.Before != nil {
				gauge(meanDesc, one.Before.Mean, id, one.Metric, "before")
			}
		}
	}
}
