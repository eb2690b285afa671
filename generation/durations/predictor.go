package durations

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/autosched/autosched/workload"
)

// Outlook predicts durations at an instant. It is read-only, and safe for
// many goroutines.
type Outlook struct {
	places map[string]int32
	known  [][Classes]float64 // by place
	draws  *Draws
}

// FromHistory is an Outlook that knows only the durations of ended jobs like a
// job.
func FromHistory(history []Record) *Outlook {
	return &Outlook{places: map[string]int32{}, draws: NewDraws(history)}
}

// NewOutlook predicts the class of every job that has not ended of a history, which ends at the instant and is in
// order of submission. Without a model it knows only the history.
func NewOutlook(m *Model, history []Record, at time.Duration) (*Outlook, error) {
	o := FromHistory(history)
	if m == nil {
		return o, nil
	}
	t, err := NewTracker(history)
	if err != nil {
		return nil, err
	}
	c := m.Classifier()
	row := make([]float64, len(Features))
	t.Advance(at)
	for i := range history {
		if history[i].Ended {
			continue
		}
		if i >= t.arrived {
			return nil, fmt.Errorf("durations: %s was submitted after the instant asked about", history[i].ID)
		}
		t.Row(row, i)
		var q [Classes]float64
		c.Probabilities(q[:], row)
		o.places[history[i].ID] = int32(len(o.known))
		o.known = append(o.known, q)
	}
	return o, nil
}

// Len is the number of durations known.
func (o *Outlook) Len() int { return o.draws.Len() }

// Probabilities of the classes of a job's whole duration, given that it has run
// for ran. Of a job that was not active, only history is known.
func (o *Outlook) Probabilities(dst []float64, j *workload.Job, ran time.Duration) {
	n, ok := o.places[j.ID]
	if !ok {
		o.draws.Plain(dst, j, ran)
		return
	}
	copy(dst, o.known[n][:])
	mask(dst, span(ran))
}

// Modelled reports whether a model knows the job, not history alone.
func (o *Outlook) Modelled(id string) bool { _, ok := o.places[id]; return ok }

// Draw gives a whole duration for a job that has run for ran already, always
// longer than that.
func (o *Outlook) Draw(r *rand.Rand, j *workload.Job, ran time.Duration) time.Duration {
	var p [Classes]float64
	o.Probabilities(p[:], j, ran)
	return o.draws.Draw(r, j, p[:], ran)
}
