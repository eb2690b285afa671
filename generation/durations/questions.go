package durations

import (
	"cmp"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/rng"
)

// A Question asks how long a job will have run in all, at an instant of its
// life.
type Question struct {
	Job int // place in the history
	At  time.Duration
}

// A Kind of questions says which instants of jobs' lives are asked about. The
// score of a predictor depends on it more than on the predictor.
type Kind struct {
	Name, About string
	// Ask gives the questions about the jobs of a history that have ended, in no
	// particular order.
	Ask func(history []Record, seed uint64) []Question
}

// Kinds of questions.
var Kinds = []Kind{
	{"arrival", "every job, when it is submitted", atArrival},
	{"uniform", "every job, at one uniform instant of its run", uniformly},
	{"hourly-4h", "every running job on the hour, while it has run for less than 4 h",
		func(h []Record, _ uint64) []Question {
			return hourly(h, Bounds[len(Bounds)-1])
		}},
	{"hourly", "every running job on the hour", func(h []Record, _ uint64) []Question { return hourly(h, 1<<63-1) }},
}

func atArrival(history []Record, _ uint64) []Question {
	out := make([]Question, 0, len(history))
	for i := range history {
		out = append(out, Question{i, history[i].Submit})
	}
	return out
}

func uniformly(history []Record, seed uint64) []Question {
	r := rng.Stream("uniform instants", seed)
	out := make([]Question, 0, len(history))
	for i := range history {
		h := &history[i]
		u := r.Float64() // drawn for every job, so that a longer history keeps its instants
		out = append(out, Question{i, h.Begin + time.Duration(u*float64(h.Until-h.Begin))})
	}
	return out
}

func hourly(history []Record, longest time.Duration) []Question {
	var out []Question
	for i := range history {
		h := &history[i]
		for at := ceil(h.Begin, time.Hour); at < h.Until && h.ranAt(at) < longest; at += time.Hour {
			out = append(out, Question{i, at})
		}
	}
	return out
}

func ceil(d, unit time.Duration) time.Duration {
	r := d % unit
	if r > 0 {
		return d + unit - r
	}
	return d - r
}

// inTime orders questions as a Tracker can answer them.
func inTime(q []Question) {
	slices.SortFunc(q, func(a, b Question) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Job, b.Job)) })
}

func kindNamed(name string) *Kind {
	for i := range Kinds {
		if Kinds[i].Name == name {
			return &Kinds[i]
		}
	}
	panic("durations: no kind of question is called " + name)
}
