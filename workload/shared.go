package workload

import (
	"slices"
	"time"
)

// Joint is a time in which two jobs share GPUs: each has half of them.
type Joint struct {
	Guest, Host JobHistory
	From, To    time.Duration
	GPUs        float64     // of both together, whole ones
	Placement   []NodeShare // of the guest
}

// Joints returns the times in which a job of a history, as of an instant, has the GPUs of another one. They end with
// the spell of the first of both that ends.
func (l *Ledger) Joints(guest *JobHistory, at time.Duration) (out []Joint) {
	for i := range guest.Spells {
		s := &guest.Spells[i]
		if s.SharesWith == "" {
			continue
		}
		host, known := l.Job(s.SharesWith, at)
		if !known {
			continue
		}
		for k := range host.Spells {
			if o := &host.Spells[k]; o.From <= s.From && o.To > s.From {
				out = append(out, Joint{*guest, host, s.From, min(s.To, o.To), guest.GPUs.Of(s.Held), s.placement})
			}
		}
	}
	return out
}

// Joins reports whether a job had the GPUs of another one.
func (h *JobHistory) Joins() bool {
	for i := range h.Spells {
		if h.Spells[i].SharesWith != "" {
			return true
		}
	}
	return false
}

// Clone returns a copy that keeps its spells, whose memory Ledger.Jobs uses again.
func (h *JobHistory) Clone() JobHistory {
	one := *h
	one.Spells = slices.Clone(h.Spells)
	return one
}
