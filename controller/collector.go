package controller

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/autosched/autosched/rollout"
)

// Metrics of the service for Prometheus. Their labels are ids of registered
// schedulers and constants, so requests cannot create new series.
var (
	schedulerLabel = []string{"scheduler"}

	descEvents = prometheus.NewDesc("autosched_scheduler_events",
		"Events in the scheduler's ledger.", schedulerLabel, nil)
	descLate = prometheus.NewDesc("autosched_late_events_total",
		"Events that came too late for the round at or after them, since the service started.", schedulerLabel, nil)
	descEventTime = prometheus.NewDesc("autosched_scheduler_last_event_timestamp_seconds",
		"Scheduler time of the latest event since the Unix epoch; 0 before the first.", schedulerLabel, nil)
	descPaused = prometheus.NewDesc("autosched_scheduler_paused",
		"1 while tuning is paused.", schedulerLabel, nil)
	descAuto = prometheus.NewDesc("autosched_scheduler_auto",
		"1 in mode AUTO.", schedulerLabel, nil)
	descWatchers = prometheus.NewDesc("autosched_scheduler_watchers",
		"Open watches of the scheduler's configuration.", schedulerLabel, nil)
	descOffered = prometheus.NewDesc("autosched_scheduler_offered_revision",
		"Revision offered to the scheduler; 0 if its records are damaged.", schedulerLabel, nil)
	descAcknowledged = prometheus.NewDesc("autosched_scheduler_acknowledged_revision",
		"Revision that most instances say they run; 0 before the first.", schedulerLabel, nil)
	descConfigurations = prometheus.NewDesc("autosched_scheduler_configurations",
		"Revisions by state.", []string{"scheduler", "state"}, nil)
	descQuarantined = prometheus.NewDesc("autosched_scheduler_quarantined",
		"1 if the scheduler's record is damaged or not accepted.", schedulerLabel, nil)
	descDegraded = prometheus.NewDesc("autosched_scheduler_degraded",
		"1 if the scheduler does not run what it should; its status says why.", schedulerLabel, nil)
	descInstances = prometheus.NewDesc("autosched_scheduler_instances",
		"Instances of the scheduler by condition.", []string{"scheduler", "condition"}, nil)
	descParked = prometheus.NewDesc("autosched_scheduler_parked",
		"Values that are not offered to the scheduler.", schedulerLabel, nil)
	descRounds = prometheus.NewDesc("autosched_rounds_total",
		"Tuning rounds that ended since the service started, by result.", []string{"scheduler", "result"}, nil)
	descFailing = prometheus.NewDesc("autosched_rounds_failing",
		"Rounds that failed since the last one that did not.", schedulerLabel, nil)
	descQueue = prometheus.NewDesc("autosched_queue_jobs",
		"Rounds and looks that are under way, or wait for their first turn.", []string{"state"}, nil)
	descRollbacks = prometheus.NewDesc("autosched_rollbacks_total",
		"Revisions of studies that reported metrics found worse, and from which the judge went back, or proposed to.",
		schedulerLabel, nil)
	descAlarms = prometheus.NewDesc("autosched_alarms_total", "Revisions that did worse than promised, and stayed.",
		schedulerLabel, nil)
)

// newLooks counts the looks of the judge.
func newLooks() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "autosched_looks_total",
		Help: "Looks at adopted configurations since the service started, by result.",
	}, []string{"scheduler", "result"})
}

// newDecisionAge is the histogram of how old the state that a round decided on was when it ended.
func newDecisionAge() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "autosched_decision_age_seconds",
		Help:    "Scheduler time that passed from a round's instant until it was decided.",
		Buckets: []float64{1, 10, 60, 300, 900, 1800, 3600, 7200, 14400, 43200, 86400},
	}, schedulerLabel)
}

// newUsed counts the time of the turns of rounds and looks.
func newUsed() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "autosched_round_turn_seconds_total",
		Help: "Time for which rounds and looks had the processors that are left to them.",
	}, schedulerLabel)
}

// newRoundDuration is the histogram of rounds, from milliseconds for a small
// cluster to minutes for a large one that waits for its turn.
func newRoundDuration() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "autosched_round_duration_seconds",
		Help:    "Duration of tuning rounds, the wait for their turn included.",
		Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30, 100, 300, 1000},
	}, schedulerLabel)
}

func newDamage() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "autosched_store_damaged",
		Help: "Damaged records found in a file of the store, 1 if whole pages of it are; of telemetry, damaged files.",
	}, []string{"file"})
}

// Describe is part of prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descEvents, descLate, descEventTime, descPaused, descAuto, descWatchers, descOffered, descAcknowledged,
		descConfigurations, descRounds, descRollbacks, descAlarms, descQuarantined, descFailing, descQueue,
		descDegraded, descInstances, descParked,
	} {
		ch <- d
	}
	s.roundDuration.Describe(ch)
	s.decisionAge.Describe(ch)
	s.looks.Describe(ch)
	s.used.Describe(ch)
	s.damage.Describe(ch)
}

// Collect is part of prometheus.Collector. It reads the state of every scheduler.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	s.roundDuration.Collect(ch)
	s.decisionAge.Collect(ch)
	s.looks.Collect(ch)
	s.used.Collect(ch)
	begun, waiting := s.queue.Len()
	for state, n := range map[string]int{"begun": begun, "waiting": waiting} {
		ch <- prometheus.MustNewConstMetric(descQueue, prometheus.GaugeValue, float64(n), state)
	}
	s.damage.Collect(ch)
	for id, fault := range s.faults() {
		ch <- prometheus.MustNewConstMetric(descQuarantined, prometheus.GaugeValue, indicator(fault != nil), id)
	}
	for _, id := range s.Schedulers("", 1<<30) {
		c, st, err := s.Scheduler(id)
		if err != nil {
			return // closed
		}
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{id}, labels...)...)
		}
		eventTime := 0.0
		if !st.EventTime.IsZero() {
			eventTime = float64(st.EventTime.UnixNano()) / 1e9
		}
		gauge(descEvents, float64(st.Events))
		gauge(descEventTime, eventTime)
		gauge(descPaused, indicator(c.Paused))
		gauge(descAuto, indicator(c.Mode == Auto))
		gauge(descWatchers, float64(st.Watchers))
		gauge(descOffered, float64(c.OfferedRevision))
		gauge(descAcknowledged, float64(c.AcknowledgedRevision))
		gauge(descDegraded, indicator(st.Degraded != ""))
		count := map[rollout.Condition]int{rollout.InSync: 0, rollout.Pending: 0, rollout.Degraded: 0}
		for _, i := range st.Instances {
			count[i.Condition]++
		}
		for condition, n := range count {
			gauge(descInstances, float64(n), string(condition))
		}
		parked, err := s.Parked(id)
		if err != nil {
			return
		}
		gauge(descParked, float64(len(parked)))
		configs, err := s.Configurations(id, 0, 1<<30)
		if err != nil {
			return
		}
		states := map[rollout.RevisionState]int{rollout.Proposed: 0, rollout.Parked: 0, rollout.Published: 0,
			rollout.RolledOut: 0, rollout.Superseded: 0, rollout.Rejected: 0}
		rollbacks, alarms := 0, 0
		for _, one := range configs {
			states[one.State]++
			switch {
			case one.Alarmed():
				alarms++
			case one.Incident != nil:
				rollbacks++
			}
		}
		for state, n := range states {
			gauge(descConfigurations, float64(n), string(state))
		}
		ch <- prometheus.MustNewConstMetric(descRollbacks, prometheus.CounterValue, float64(rollbacks), id)
		ch <- prometheus.MustNewConstMetric(descAlarms, prometheus.CounterValue, float64(alarms), id)
		counter := func(result string, n int64) {
			ch <- prometheus.MustNewConstMetric(descRounds, prometheus.CounterValue, float64(n), id, result)
		}
		gauge(descFailing, float64(st.Failing))
		counter("decided", st.Rounds-st.Failures)
		counter("failed", st.Failures)
		ch <- prometheus.MustNewConstMetric(descLate, prometheus.CounterValue, float64(st.LateEvents), id)
	}
}

// faults are the reasons for quarantines, nil for schedulers without one.
func (s *Service) faults() map[string]error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := map[string]error{}
	for id, m := range s.schedulers {
		out[id] = m.fault
	}
	return out
}

// Quarantined are the schedulers that are, with the reasons.
func (s *Service) Quarantined() map[string]error {
	out := s.faults()
	maps.DeleteFunc(out, func(_ string, fault error) bool { return fault == nil })
	return out
}

func indicator(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
