package durations

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/autosched/autosched/workload"
)

// Predictor predicts durations for a running system, which gives it the history as
// its events report it (Observed). The Outlooks it gives are not bound to it.
type Predictor struct {
	zero  time.Time
	model *Model
}

// NewPredictor predicts with a model, or with nil, which draws from history alone.
func NewPredictor(zero time.Time, m *Model) *Predictor { return &Predictor{zero, m} }

// Model is the one in use, nil if there is none.
func (p *Predictor) Model() *Model { return p.model }

// Outlook is the answer of a Predictor at an instant. It is read-only, and safe for
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

// At predicts the class of every job of a history that has not ended, and of jobs
// that are about to arrive: these are taken to arrive together, just after the
// instant. The history ends at the instant and is in order of submission.
func (p *Predictor) At(history []Record, arriving []workload.Job, at time.Duration) (*Outlook, error) {
	o := FromHistory(history)
	if p.model == nil {
		return o, nil
	}
	const after = time.Nanosecond
	all := append(make([]Record, 0, len(history)+len(arriving)), history...)
	for i := range arriving {
		j := arriving[i]
		j.Submit = at + after
		all = append(all, Record{Job: &j, Begin: j.Submit, Until: j.Submit})
	}
	t, err := NewTracker(all, p.zero)
	if err != nil {
		return nil, err
	}
	c := p.model.Classifier()
	row := make([]float64, len(Features))
	t.Advance(at)
	for i := range all {
		if all[i].Ended {
			continue
		}
		if i == len(history) {
			t.Advance(at + after)
		}
		if i >= t.arrived {
			return nil, fmt.Errorf("durations: %s was submitted after the instant asked about", all[i].ID)
		}
		t.Row(row, i)
		var q [Classes]float64
		c.Probabilities(q[:], row)
		o.places[all[i].ID] = int32(len(o.known))
		o.known = append(o.known, q)
	}
	return o, nil
}

// Len is the number of durations known.
func (o *Outlook) Len() int { return o.draws.Len() }

// Probabilities of the classes of a job's whole duration, given that it has run
// for ran. Of a job that was neither active nor about to arrive, only history is
// known.
func (o *Outlook) Probabilities(dst []float64, j *workload.Job, ran time.Duration) {
	n, ok := o.places[j.ID]
	if !ok {
		o.draws.Plain(dst, j, ran)
		return
	}
	copy(dst, o.known[n][:])
	mask(dst, span(ran))
}

// Draw gives a whole duration for a job that has run for ran already, always
// longer than that.
func (o *Outlook) Draw(r *rand.Rand, j *workload.Job, ran time.Duration) time.Duration {
	var p [Classes]float64
	o.Probabilities(p[:], j, ran)
	return o.draws.Draw(r, j, p[:], ran)
}
