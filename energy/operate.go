package energy

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// GPUEnergy is the measured energy of a job's GPUs in a part of the GPU-hours that it held.
type GPUEnergy struct {
	Hours float64
	KWh   float64
}

// GPUMeter integrates samples of GPUs by job: the difference of two readings of the energy counter, or the trapezoid of
// their power.
type GPUMeter struct {
	// Watts is the power of a sample that has none, false where it is not known; nil leaves such samples out. Modelled
	// are the GPU-hours that it counted for, of which ByUtilization had no SM activity.
	Watts         func(*telemetry.GPUSample) (watts float64, ok bool)
	Modelled      float64
	ByUtilization float64

	last map[telemetry.GPU]reading
	jobs map[string]GPUEnergy
}

// reading is a sample as the next one needs it.
type reading struct {
	at            time.Duration
	known         telemetry.Field
	joules, watts float64
	job           string
	modelled      bool
}

// longestReading is the longest time between two samples over which a GPU is taken to have been measured.
const longestReading = 10 * time.Minute

// Add takes a sample. Samples of a GPU must be in order of time; others are left out, as are samples of MIG instances,
// which have no power of their own.
func (m *GPUMeter) Add(s *telemetry.GPUSample) {
	if s.Instance >= 0 {
		return
	}
	if m.last == nil {
		m.last, m.jobs = map[telemetry.GPU]reading{}, map[string]GPUEnergy{}
	}
	a, seen := m.last[s.GPU]
	if seen && s.Time <= a.at {
		return
	}
	b := reading{s.Time, s.Known, s.Energy, s.Power, s.Job, false}
	if m.Watts != nil && !s.Lost && s.Known&(telemetry.Power|telemetry.Energy) == 0 {
		b.watts, b.modelled = m.Watts(s)
	}
	m.last[s.GPU] = b
	span := b.at - a.at
	if !seen || s.Lost || b.job == "" || a.job != b.job || span > longestReading {
		return
	}
	joules := (a.watts + b.watts) / 2 * span.Seconds()
	switch both := a.known & b.known; {
	case both&telemetry.Energy != 0 && b.joules >= a.joules:
		joules = b.joules - a.joules
	case both&telemetry.Energy != 0: // the counter was reset
		joules = b.joules
	case a.modelled && b.modelled:
		m.Modelled += span.Hours()
		if both&telemetry.SMActive == 0 {
			m.ByUtilization += span.Hours()
		}
	case both&telemetry.Power == 0:
		return
	}
	j := m.jobs[b.job]
	m.jobs[b.job] = GPUEnergy{j.Hours + span.Hours(), j.KWh + joules/3.6e6}
}

// Jobs returns the measured jobs, by id.
func (m *GPUMeter) Jobs() map[string]GPUEnergy { return m.jobs }

// gpuParts fills in the measured power of jobs' GPUs beyond the model, W of each GPU that a job does not share.
func (a *account) gpuParts(r *Report) {
	in := a.in
	if len(in.GPUs) == 0 {
		return
	}
	hours := make([]float64, len(in.Jobs))
	for i := range in.Spells {
		if s := &in.Spells[i]; !s.Shared {
			hours[s.Job] += s.GPUs.Count() * (s.To - s.From).Hours()
		}
	}
	a.gpus = make([]measuredGPU, len(in.Jobs))
	for i := range in.Jobs {
		if m := in.GPUs[in.Jobs[i].ID]; m.Hours > 0 && hours[i] > 0 {
			a.gpus[i] = measuredGPU{share: min(1, m.Hours/hours[i]), watts: 1000 * m.KWh / m.Hours}
			r.MeasuredGPUHours += a.gpus[i].share * hours[i]
		}
	}
}

// measuredGPU is the mean power of a job's GPUs, and the share of its GPU-hours in which it was measured.
type measuredGPU struct{ share, watts float64 }

// beyond is the measured power of a spell's GPUs above the modelled one, W.
func (a *account) beyond(s *Spell, group int, gpus workload.MilliGPU) (out [bands]float64) {
	if a.gpus == nil || s.Shared {
		return out
	}
	m := &a.gpus[s.Job]
	for k := range bands {
		out[k] = gpus.Count() * m.share * (m.watts - a.watts[group].gpu[k])
	}
	return out
}

// inNaps calls f with the parts of naps within the timeline: the group of the node, the nap, and until when the node
// wakes.
func (a *account) inNaps(f func(group int, from, to, woken time.Duration, n *simulator.Nap)) {
	in := a.in
	for i := range in.Naps {
		n, group := &in.Naps[i], 0
		if a.group != nil {
			group = a.group[n.Node]
		}
		from, to := max(n.From, in.From), min(n.To, in.To)
		if to > from {
			f(group, from, to, max(to, min(n.Awake, in.To)), n)
		}
	}
}

// napping is when nodes sleep and wake.
func (a *account) napping() (out []change) {
	a.inNaps(func(group int, from, to, woken time.Duration, _ *simulator.Nap) {
		out = append(out, change{at: from, group: group, asleep: 1},
			change{at: to, group: group, asleep: -1, waking: 1}, change{at: woken, group: group, waking: -1})
	})
	return out
}

// slept adds the saving of sleep.
func (a *account) slept(r *Report) {
	if len(a.in.Naps) == 0 {
		return
	}
	r.Slept = &Slept{}
	a.inNaps(func(group int, from, to, woken time.Duration, n *simulator.Nap) {
		var saved, cost [bands]float64
		w := &a.watts[group]
		for k := range bands {
			saved[k] = w.base[k]*float64(a.in.Cluster.Groups[group].GPUsPerNode) - w.asleep[k]
			cost[k] = -w.waking[k]
		}
		x, y := a.amount(saved, from, to), a.amount(cost, to, woken)
		r.Slept.Saved.add(&x)
		r.Slept.Saved.add(&y)
		r.Slept.NodeHours += (to - from).Hours()
		if n.To < a.in.To && n.Awake > n.To {
			r.Slept.WakeUps++
		}
	})
	r.Slept.Share = r.Slept.NodeHours / (float64(a.in.Cluster.Nodes()) * (a.in.To - a.in.From).Hours())
}

// Marks select deferrable jobs: a job is if any of them names it.
type Marks []Mark

// Mark names jobs by a column, or a share of recurring jobs.
type Mark struct {
	column, value string
	share         float64 // without a column
}

// columns of a Mark.
var columns = map[string]func(*workload.Job) string{
	"user":      func(j *workload.Job) string { return j.User },
	"tenant":    func(j *workload.Job) string { return j.Tenant },
	"model":     func(j *workload.Job) string { return j.Model },
	"key":       func(j *workload.Job) string { return j.Key },
	"partition": func(j *workload.Job) string { return j.Request().Partition },
}

// ParseMark reads a mark: COLUMN=VALUE, with the columns user, tenant, model, key and partition, or a share of the
// jobs from 0 to 1, drawn by their keys so that recurring jobs are alike.
func ParseMark(text string) (Mark, error) {
	if column, value, ok := strings.Cut(text, "="); ok {
		if columns[column] == nil || value == "" {
			return Mark{}, fmt.Errorf("%q: want user=, tenant=, model=, key= or partition= and a value", text)
		}
		return Mark{column: column, value: value}, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v <= 1) {
		return Mark{}, fmt.Errorf("%q: want a share of the jobs above 0 and up to 1, or COLUMN=VALUE as in tenant=batch",
			text)
	}
	return Mark{share: v}, nil
}

// names reports whether the mark names a job.
func (m *Mark) names(j *workload.Job) bool {
	if m.column != "" {
		return columns[m.column](j) == m.value
	}
	h := sha256.Sum256([]byte("deferrable\x00" + cmp.Or(j.Key, j.ID)))
	return float64(binary.LittleEndian.Uint64(h[:])>>11)/(1<<53) < m.share
}

// Deferral is a simulator.Deferral by prices or carbon intensities, which are taken to be known until the end of a
// job's limit, as on a day-ahead market.
type Deferral struct {
	marks  Marks
	series *Series // nil is flat: nothing is deferred
	zero   time.Time
}

// NewDeferral returns the deferral of the jobs that marks name. zero is that of the workload.
func NewDeferral(marks Marks, series *Series, zero time.Time) (*Deferral, error) {
	if len(marks) == 0 {
		return nil, errors.New("energy: no job is marked as deferrable")
	}
	return &Deferral{marks, series, zero}, nil
}

// Until is the first instant in the cheapest share of the time from a job's submission until the limit. Where all of
// that time has one value, and of a job with a deadline, it is the submission.
func (d *Deferral) Until(j *workload.Job, share float64, limit time.Duration) time.Duration {
	if d.series == nil || j.Deadline != 0 || limit <= 0 || share >= 1 ||
		!slices.ContainsFunc(d.marks, func(m Mark) bool { return m.names(j) }) {
		return j.Submit
	}
	from := d.zero.Add(j.Submit)
	steps := d.series.steps(from, from.Add(limit))
	byValue := slices.Clone(steps)
	slices.SortStableFunc(byValue, func(a, b step) int { return cmp.Compare(a.value, b.value) })
	least, cheap := time.Duration(math.Ceil(share*float64(limit))), byValue[0].value
	for _, s := range byValue {
		if least <= 0 {
			break
		}
		cheap, least = s.value, least-s.span
	}
	first := steps[slices.IndexFunc(steps, func(s step) bool { return s.value <= cheap })]
	return j.Submit + first.from.Sub(from)
}

// Digest identifies the inputs of Until.
func (d *Deferral) Digest() string {
	h := sha256.New()
	fmt.Fprintln(h, d.marks, d.zero.UnixNano())
	if d.series != nil {
		d.series.digest(h)
	}
	return hex.EncodeToString(h.Sum(nil))
}
