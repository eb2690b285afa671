package durations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/autosched/autosched/internal/trees"
)

const (
	// holdShare of the jobs, the last submitted, are not learnt from: models are
	// scored on them.
	holdShare = .15
	// leastJobs is how many ended jobs a model needs.
	leastJobs = 200
	// leastHeld is how many jobs two models are compared on at least.
	leastHeld = 20
)

// ErrTooFew is for histories that are too short to train on.
var ErrTooFew = errors.New("too few jobs have ended to learn from")

// heldBack is the end of a history, with questions about the jobs in it whose
// class is known, on which models are compared.
type heldBack struct {
	cut    int
	window Window
	asked  map[string]*Examples
}

// ErrLearnt is for histories that a model has learnt from to their end, so that
// nothing is left to compare it on.
var ErrLearnt = errors.New("the old model has learnt from these jobs itself: there is nothing to compare models on")

// hold sets the last jobs of a history aside, none of which old has learnt from.
func hold(ctx context.Context, history []Record, zero time.Time, old *Model, seed uint64) (*heldBack, error) {
	ended := 0
	for i := range history {
		if history[i].Ended {
			ended++
		}
	}
	if ended < leastJobs {
		return nil, fmt.Errorf("durations: %w: %d, and at least %d are needed", ErrTooFew, ended, leastJobs)
	}
	h := &heldBack{cut: int(float64(len(history)) * (1 - holdShare)), asked: map[string]*Examples{}}
	if old != nil {
		for h.cut < len(history) && !zero.Add(history[h.cut].Submit).After(old.Trained.To) {
			h.cut++
		}
		if left := len(history) - h.cut; left < leastHeld {
			return nil, fmt.Errorf("durations: %w (it learnt from jobs until %s, after which there are %d)",
				ErrLearnt, old.Trained.To.Format(time.RFC3339), left)
		}
	}
	h.window = windowOf(history[h.cut:], zero)
	for _, name := range trainingKinds {
		var later []Question
		for _, q := range kindNamed(name).Ask(history, seed) {
			if q.Job >= h.cut && decided(&history[q.Job]) {
				later = append(later, q)
			}
		}
		inTime(later)
		var err error
		if h.asked[name], err = Extract(ctx, history, later); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func windowOf(history []Record, zero time.Time) Window {
	w := Window{Jobs: len(history)}
	if len(history) > 0 {
		w.From, w.To = zero.Add(history[0].Submit), zero.Add(history[len(history)-1].Submit)
	}
	return w
}

// score asks a model everything, and gives the mean log-loss over the kinds, which
// decides which of two models is better.
func (h *heldBack) score(m *Model) (map[string]Score, float64) {
	out := map[string]Score{}
	loss, kinds := 0., 0.
	c := m.Classifier()
	p := make([]float64, Classes)
	for _, name := range trainingKinds {
		var s scorer
		e := h.asked[name]
		for i := range e.Questions {
			c.Probabilities(p, e.X.Row(i))
			s.add(p, int(e.Class[i]))
		}
		if s.n > 0 {
			out[name] = s.score()
			loss += out[name].LogLoss
			kinds++
		}
	}
	return out, loss / max(1, kinds)
}

// Train learns a model from a history, but for its last jobs, which it is scored
// on.
func Train(ctx context.Context, history []Record, zero time.Time, trace string, o LearnOptions) (*Model, error) {
	h, err := hold(ctx, history, zero, nil, o.Seed)
	if err != nil {
		return nil, err
	}
	return train(ctx, history, zero, trace, h, o)
}

func train(ctx context.Context, history []Record, zero time.Time, trace string, h *heldBack, o LearnOptions) (*Model,
	error) {
	known := Known(history[:h.cut], history[h.cut].Submit)
	lessons, err := Lessons(ctx, known, o.Seed)
	if err != nil {
		return nil, err
	}
	b, err := boost(ctx, lessons, o)
	if err != nil {
		return nil, err
	}
	m, err := finish(b.model, b.columns, lessons)
	if err != nil {
		return nil, err
	}
	m.Seed = o.Seed
	m.Trained, m.Held = windowOf(known, zero), h.window
	m.Trained.Trace, m.Held.Trace = trace, trace
	m.Scores, _ = h.score(m)
	return m, nil
}

// finish turns a booster into a model: its text, served.
func finish(b *trees.Model, columns []int, lessons *Examples) (*Model, error) {
	names := make([]string, len(columns))
	for k, c := range columns {
		names[k] = Features[c]
	}
	var text bytes.Buffer
	if err := b.WriteLightGBM(&text, names); err != nil {
		return nil, err
	}
	m, err := newModel(text.Bytes())
	if err != nil {
		return nil, fmt.Errorf("durations: %w", err)
	}
	m.Lessons, m.KeyShare = lessons.Len(), shareFor(columns)
	return m, nil
}

// Choice is which of two models is kept, and why.
type Choice struct {
	Kept     *Model `json:"-"`
	Replaced bool   `json:"replaced"`
	Reason   string `json:"reason"`
	// Old and New are the mean log-losses on the same held-back jobs.
	Old float64 `json:"old_log_loss"`
	New float64 `json:"new_log_loss"`
}

// Retrain learns a model from a history and keeps it only if it is no worse than
// the old one on the same jobs, the last of the history.
func Retrain(ctx context.Context, old *Model, history []Record, zero time.Time, trace string, o LearnOptions) (Choice,
	error) {
	h, err := hold(ctx, history, zero, old, o.Seed)
	if err != nil {
		return Choice{}, err
	}
	fresh, err := train(ctx, history, zero, trace, h, o)
	if err != nil {
		return Choice{}, err
	}
	return h.choose(old, fresh), nil
}

func (h *heldBack) choose(old, fresh *Model) Choice {
	_, was := h.score(old)
	_, is := h.score(fresh)
	c := Choice{Kept: fresh, Replaced: true, Old: was, New: is,
		Reason: fmt.Sprintf("replaced: log-loss %.4f against %.4f of the old model, on the last %d jobs",
			is, was, h.window.Jobs)}
	if is > was || math.IsNaN(is) {
		c.Kept, c.Replaced = old, false
		c.Reason = fmt.Sprintf("kept the old model: the new one has log-loss %.4f against %.4f, on the last %d jobs",
			is, was, h.window.Jobs)
	}
	return c
}
