package store

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the store for Prometheus.
var (
	descFree = prometheus.NewDesc("autosched_store_free_bytes",
		"Free bytes of the file system of the service's directory.", nil, nil)
	descSize = prometheus.NewDesc("autosched_store_size_bytes",
		"Size of the file system of the service's directory.", nil, nil)
	descFailing = prometheus.NewDesc("autosched_store_write_failing",
		"1 if the last write of this kind failed: changes, or events.", []string{"kind"}, nil)
)

// The kinds of commits.
const (
	changesKind = "changes"
	eventsKind  = "events"
)

// newCommits is the histogram of commits, from a fast disk to a stalled one.
func newCommits() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "autosched_store_commit_duration_seconds",
		Help:    "Duration of commits, fsync included, by kind: changes, or events, of which a commit takes many.",
		Buckets: []float64{.0003, .001, .003, .01, .03, .1, .3, 1, 3, 10},
	}, []string{"kind"})
}

// timed begins to measure a commit, and the returned function ends it.
func (r *Store) timed(kind string) func() {
	began := time.Now() // for operators
	return func() { r.commits.WithLabelValues(kind).Observe(time.Since(began).Seconds()) }
}

// Describe is part of [prometheus.Collector].
func (r *Store) Describe(ch chan<- *prometheus.Desc) {
	r.commits.Describe(ch)
	for _, d := range []*prometheus.Desc{descFree, descSize, descFailing} {
		ch <- d
	}
}

// Collect is part of [prometheus.Collector].
func (r *Store) Collect(ch chan<- prometheus.Metric) {
	r.commits.Collect(ch)
	h, err := r.Health()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if err == nil {
		gauge(descFree, float64(h.Free))
		gauge(descSize, float64(h.Size))
	}
	for kind, err := range map[string]error{changesKind: h.Changes, eventsKind: h.Events} {
		failing := 0.0
		if err != nil {
			failing = 1
		}
		gauge(descFailing, failing, kind)
	}
}
