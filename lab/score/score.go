// Package score measures pattern rules on labelled streams: recall, misses,
// precision and delay. Intervals are of a bootstrap over
// streams, whose cases share a background.
package score

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/lab/inject"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/feed"
)

const (
	// grace is how long after its end a case may still be found: rules look back over an hour.
	grace = time.Hour
	// early is how long before its begin a finding of it may open, as grids of time differ.
	early = 5 * time.Minute
	// draws of the bootstrap.
	draws = 1000
)

// Stops reports whether a rule proposes to take GPUs from a job or to hold jobs back.
func Stops(rule string) bool {
	return slices.Contains([]string{"crash_loop", "hoarding", "idle_allocation", "never_ending"}, rule)
}

// Number is a measure with its 95 % interval; Known is false where it has no value.
type Number struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Known bool    `json:"known"`
}

// Row has the measures of a rule.
type Row struct {
	Rule  string `json:"rule"`
	Stops bool   `json:"stops_jobs"`
	Cases int    `json:"cases"`
	Near  int    `json:"near_cases"`
	Units int    `json:"units"` // entities that it could hold for
	Found int    `json:"found"` // cases
	False int    `json:"false_alerts"`

	Precision Number `json:"precision"`
	Recall    Number `json:"recall"`
	F1        Number `json:"f1"`
	// F1Near counts only the cases within 30 % of a threshold, and all false alerts.
	F1Near   Number `json:"f1_near"`
	PRAUC    Number `json:"pr_auc"` // by confidence
	Balanced Number `json:"balanced_accuracy"`
	// Minutes is the median time from a case's begin until it is found.
	Minutes Number `json:"minutes_to_detect"`
	// PerGPUDays is false alerts per 1,000 GPU-days.
	PerGPUDays Number `json:"false_per_1000_gpu_days"`
	// Waste is the share of the wasted GPU-hours that findings count.
	Waste Number `json:"wasted_gpu_hours_found"`
}

// Report has the measures of all rules.
type Report struct {
	Streams int     `json:"streams"`
	Jobs    int     `json:"jobs"`
	GPUDays float64 `json:"gpu_days"`
	Rules   []Row   `json:"rules"`
	// Unjudged is the number of findings of each rule on the trace's own queues and waiting
	// jobs, of which nothing is known.
	Unjudged map[string]int `json:"unjudged,omitempty"`
	// Missed and Wrong are the first cases that were not found and the first false alerts.
	Missed []string `json:"missed,omitempty"`
	Wrong  []string `json:"wrong,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

// tally is a stream's contribution to a rule's row.
type tally struct {
	cases, near, found, foundNear, wrong, wrongUnits, units int
	gpuDays                                                 float64
	minutes                                                 []float64
	waste, wasteFound                                       float64
	scored                                                  []scored
}

// scored is a retrieved case, or a false alert, with its confidence.
type scored struct {
	confidence float64
	right      bool
}

// Bench collects the results of streams.
type Bench struct {
	report  Report
	tallies []map[string]*tally // by stream
}

// shown bounds the examples of a report.
const shown = 200

// Scan runs rules over a stream and returns their findings as they closed, and the scan's notes.
func Scan(s *inject.Stream, rules *patterns.RuleSet) ([]*patterns.Finding, []string, error) {
	type key struct {
		rule   string
		entity patterns.Entity
		opened time.Time
	}
	at := map[key]int{}
	var found []*patterns.Finding
	scanner, err := patterns.New(patterns.Options{Zero: s.Zero, Cluster: s.Cluster, Nodes: s.Nodes, Rules: rules,
		Period: s.Period, Labels: s.JobLabels, OnFinding: func(f *patterns.Finding) {
			k := key{f.Rule, f.Entity, f.Opened}
			i, ok := at[k]
			if !ok {
				i = len(found)
				at[k], found = i, append(found, nil)
			}
			found[i] = f.Clone()
		}})
	if err != nil {
		return nil, nil, err
	}
	f := feed.New(scanner, patterns.Lateness(s.Period))
	for r := range s.Records() {
		one := patterns.Record{Event: r.Event, Queue: r.Queue, Guardrail: r.Guardrail}
		switch { // the stream's records are overwritten
		case r.GPU != nil:
			one.GPU = new(*r.GPU)
		case r.Iteration != nil:
			one.Iteration = new(*r.Iteration)
		}
		if err := f.Put(one); err != nil {
			return nil, nil, err
		}
	}
	if err := f.Close(); err != nil {
		return nil, nil, err
	}
	return found, f.Notes(), nil
}

// Add scores the findings of a stream.
func (b *Bench) Add(s *inject.Stream, found []*patterns.Finding) {
	r := &b.report
	if s.Jobs > 0 { // streams of quotas have none of the trace's
		r.Streams++
		r.Jobs += s.Jobs
		r.GPUDays += s.GPUDays
	}
	of := map[string]*tally{}
	for rule, units := range s.Units {
		of[rule] = &tally{units: units, gpuDays: s.GPUDays}
	}
	hits := make([][]*patterns.Finding, len(s.Labels))
	wrong := map[[2]string]float64{} // confidence by rule and entity
	for _, f := range found {
		t := of[f.Rule]
		if t == nil {
			continue // was not injected
		}
		if !s.Judged(f.Rule, f.Entity.Name) {
			if r.Unjudged == nil {
				r.Unjudged = map[string]int{}
			}
			r.Unjudged[f.Rule]++
			continue
		}
		opened, match, excused := f.Opened.Sub(s.Zero), -1, false
		for i := range s.Labels {
			l := &s.Labels[i]
			if opened < l.From-early || opened > l.To+grace {
				continue
			}
			switch {
			case l.Rule == f.Rule && (l.Entity == f.Entity.Name || f.Entity.Kind == "cluster"):
				match = i
			case slices.Contains(l.Also, f.Rule) && related(l.Entity, f):
				excused = true
			}
		}
		for i := range s.Unclear {
			l := &s.Unclear[i]
			excused = excused || slices.Contains(l.Also, f.Rule) && related(l.Entity, f) &&
				opened >= l.From-early && opened <= l.To+grace
		}
		switch {
		case match >= 0:
			hits[match] = append(hits[match], f)
		case !excused:
			t.wrong++
			k := [2]string{f.Rule, f.Entity.Name}
			if _, again := wrong[k]; !again {
				t.wrongUnits++
			}
			wrong[k] = max(wrong[k], f.Confidence)
			t.scored = append(t.scored, scored{f.Confidence, false})
			if len(r.Wrong) < shown {
				r.Wrong = append(r.Wrong, fmt.Sprintf("%s %s at %v to %v, confidence %.2f", f.Rule, f.Entity.Name,
					opened, f.Closed.Sub(s.Zero), f.Confidence))
			}
		}
	}
	for i := range s.Labels {
		b.addCase(of, s.Zero, &s.Labels[i], hits[i])
	}
	b.tallies = append(b.tallies, of)
}

// related reports whether a finding is about the entity of a case of another rule, or about an entity that
// contains it.
func related(entity string, f *patterns.Finding) bool {
	if entity == f.Entity.Name || f.Job != "" && entity == f.Job {
		return true
	}
	return strings.HasPrefix(entity, f.Entity.Name+"/") || strings.HasPrefix(entity, f.Entity.Name+"-")
}

func (b *Bench) addCase(of map[string]*tally, zero time.Time, l *inject.Label, hits []*patterns.Finding) {
	t := of[l.Rule]
	t.cases++
	t.waste += l.WastedGPUHours
	if l.Near {
		t.near++
	}
	if len(hits) == 0 {
		if r := &b.report; len(r.Missed) < shown {
			r.Missed = append(r.Missed, fmt.Sprintf("%s %s %v to %v near %v", l.Rule, l.Entity, l.From, l.To, l.Near))
		}
		return
	}
	t.found++
	if l.Near {
		t.foundNear++
	}
	best, waste, first := 0., 0., hits[0].Opened.Sub(zero)
	for _, f := range hits {
		best, waste, first = max(best, f.Confidence), waste+f.WastedGPUHours, min(first, f.Opened.Sub(zero))
	}
	t.minutes = append(t.minutes, max(0, (first-l.From).Minutes()))
	t.wasteFound += min(waste, l.WastedGPUHours)
	t.scored = append(t.scored, scored{best, true})
}

// Report sums up the tallies.
func (b *Bench) Report(seed uint64) *Report {
	r := b.report
	r.Rules = nil
	for _, rule := range inject.Rules {
		if row, ok := b.row(rule, seed); ok {
			r.Rules = append(r.Rules, row)
		}
	}
	return &r
}

// Note adds a line to the report, unless there is one with the same words and other numbers.
func (b *Bench) Note(line string) {
	if !slices.ContainsFunc(b.report.Notes, func(n string) bool { return words(n) == words(line) }) {
		b.report.Notes = append(b.report.Notes, line)
	}
}

func words(s string) string { return strings.Trim(s, "0123456789 ") }

func (b *Bench) row(rule string, seed uint64) (Row, bool) {
	var streams []*tally
	for _, of := range b.tallies {
		if t := of[rule]; t != nil {
			streams = append(streams, t)
		}
	}
	if len(streams) == 0 {
		return Row{}, false
	}
	all := sum(streams)
	row := Row{Rule: rule, Stops: Stops(rule), Cases: all.cases, Near: all.near, Units: all.units, Found: all.found,
		False: all.wrong}
	numbers := []struct {
		to *Number
		of func(*tally) (float64, bool)
	}{
		{&row.Precision, func(t *tally) (float64, bool) { return ratio(t.found, t.found+t.wrong) }},
		{&row.Recall, func(t *tally) (float64, bool) { return ratio(t.found, t.cases) }},
		{&row.F1, func(t *tally) (float64, bool) { return ratio(2*t.found, t.found+t.wrong+t.cases) }},
		{&row.F1Near, func(t *tally) (float64, bool) {
			v, ok := ratio(2*t.foundNear, t.foundNear+t.wrong+t.near)
			return v, ok && t.near > 0
		}},
		{&row.PRAUC, (*tally).area},
		{&row.Balanced, (*tally).balanced},
		{&row.Minutes, func(t *tally) (float64, bool) {
			if len(t.minutes) == 0 {
				return 0, false
			}
			slices.Sort(t.minutes)
			return stats.Quantile(t.minutes, .5), true
		}},
		{&row.PerGPUDays, func(t *tally) (float64, bool) { return 1000 * float64(t.wrong) / t.gpuDays, t.gpuDays > 0 }},
		{&row.Waste, func(t *tally) (float64, bool) { return t.wasteFound / max(t.waste, 1e-9), t.waste > 0 }},
	}
	values := make([][]float64, len(numbers))
	x := rng.Stream("score "+rule, seed)
	sample := make([]*tally, len(streams))
	for range draws {
		for i := range sample {
			sample[i] = streams[x.IntN(len(streams))]
		}
		t := sum(sample)
		for i, n := range numbers {
			if v, ok := n.of(t); ok {
				values[i] = append(values[i], v)
			}
		}
	}
	for i, n := range numbers {
		if n.to.Value, n.to.Known = n.of(all); n.to.Known {
			n.to.Low, n.to.High = stats.Interval(values[i], 1)
		}
	}
	return row, true
}

func ratio(a, b int) (float64, bool) {
	if b == 0 {
		return 0, false
	}
	return float64(a) / float64(b), true
}

func sum(streams []*tally) *tally {
	all := &tally{}
	for _, t := range streams {
		all.cases += t.cases
		all.near += t.near
		all.found += t.found
		all.foundNear += t.foundNear
		all.wrong += t.wrong
		all.wrongUnits += t.wrongUnits
		all.units += t.units
		all.gpuDays += t.gpuDays
		all.minutes = append(all.minutes, t.minutes...)
		all.waste += t.waste
		all.wasteFound += t.wasteFound
		all.scored = append(all.scored, t.scored...)
	}
	return all
}

// balanced is the mean of the shares of cases that were found and of other entities without an
// alert.
func (t *tally) balanced() (float64, bool) {
	negatives := max(t.units-t.cases, t.wrongUnits)
	if t.cases == 0 || negatives == 0 {
		return 0, false
	}
	return (float64(t.found)/float64(t.cases) + 1 - float64(t.wrongUnits)/float64(negatives)) / 2, true
}

// area is that under the curve of precision over recall (average precision): of alerts of equal
// confidence together. Cases that were not found add nothing.
func (t *tally) area() (float64, bool) {
	if t.cases == 0 {
		return 0, false
	}
	slices.SortFunc(t.scored, func(a, b scored) int { return cmp.Compare(b.confidence, a.confidence) })
	right, area := 0, 0.
	for i := 0; i < len(t.scored); {
		before := right
		c := t.scored[i].confidence
		for ; i < len(t.scored) && t.scored[i].confidence == c; i++ {
			if t.scored[i].right {
				right++
			}
		}
		area += float64(right-before) / float64(t.cases) * float64(right) / float64(i)
	}
	return area, true
}
