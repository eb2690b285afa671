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

	"github.com/autosched/autosched/workload"
)

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
