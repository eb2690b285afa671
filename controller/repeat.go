package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Repetition is a stored round, decided again.
type Repetition struct {
	// Digest and Events are as in RoundRecord, from the present store. Unread says which of
	// the events cannot be read, nil for nothing.
	Digest string `json:"input_sha256"`
	Events int64  `json:"events"`
	Unread error  `json:"-"`
	// Decision is nil if the input is another one, or if the round failed again, which Error says.
	Decision *RoundDecision `json:"decision,omitempty"`
	Error    string         `json:"error,omitempty"`
	// Difference names the first difference to the record, "" if there is none.
	Difference string `json:"difference,omitempty"`
}

// RepeatRound decides a stored round of a scheduler again, on the events that the store has
// of its time, and compares input and decision bit for bit.
func RepeatRound(ctx context.Context, log RoundLog, s *Saved, r *RoundRecord, decide round.DecideFunc,
	workers int) (*Repetition, error) {
	in, out, err := restoreInput(ctx, log, s, r)
	if err != nil || out.Difference != "" {
		return out, err
	}
	in.Workers = workers
	d, err := decide(ctx, in)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		out.Error = err.Error()
	} else {
		out.Decision = newRoundDecision(&d)
		if !r.Decision.measured() { // as an older version left it
			for i := range out.Decision.Candidates {
				out.Decision.Candidates[i].Metrics, out.Decision.Candidates[i].Cut = nil, 0
			}
		}
	}
	out.Difference = difference("decision", objectOrNil(r.Decision), objectOrNil(out.Decision))
	if out.Difference == "" && r.Error != out.Error {
		out.Difference = fmt.Sprintf("error: %q, recorded is %q", out.Error, r.Error)
	}
	if out.Difference != "" && r.Simulator != simulator.Version {
		out.Difference += fmt.Sprintf("; simulator version %s decided the round, this one is %s", r.Simulator,
			simulator.Version)
	}
	return out, nil
}

// measured reports whether the candidates have metrics.
func (d *RoundDecision) measured() bool {
	return d != nil && slices.ContainsFunc(d.Candidates, func(c RoundCandidate) bool { return c.Metrics != nil })
}

// restoreInput returns the input of a stored round, as the store has it. If that is another one,
// the repetition says so.
func restoreInput(ctx context.Context, log RoundLog, s *Saved, r *RoundRecord) (in round.Input, out *Repetition,
	err error) {
	x := &r.Input
	sp, cluster := s.Space, s.Scheduler.Cluster
	for _, r := range s.Revisions {
		if r.Number == max(1, x.SchedulerRevision) {
			sp, cluster = r.Space, r.Cluster
		}
	}
	if in, err = x.input(sp); err != nil {
		return in, nil, fmt.Errorf("controller: round %d: %w", r.Sequence, err)
	}
	out = &Repetition{}
	ledger := workload.NewLedger(cluster)
	seen := map[string]bool{}
	out.Unread, err = log.EventsUntil(s.Scheduler.ID, r.Cursor, func(e workload.Event) error {
		if !seen[e.ID] {
			seen[e.ID] = true
			out.Events++
			if e.Time <= x.At {
				ledger.Apply(e)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return in, nil, fmt.Errorf("controller: events until round %d: %w", r.Sequence, err)
	}
	in.Snapshot = round.Snapshot{State: ledger.State(x.At), Ledger: ledger, Zero: x.Zero,
		Simulator: x.Simulation.options(), Scattered: round.Scattered(x.Type)}
	if err := measure(&in.Snapshot, x.Tariff); err != nil {
		return in, nil, fmt.Errorf("controller: round %d: %w", r.Sequence, err)
	}
	if out.Digest, err = x.digest(ctx, &in); err != nil {
		return in, nil, err
	}
	if out.Digest != r.Digest {
		out.Difference = fmt.Sprintf("the input has SHA-256 %.16s..., the round had %.16s...", out.Digest, r.Digest)
		if out.Events != r.Events {
			out.Difference += fmt.Sprintf(": the store has %d events up to the round, which knew %d; the others were "+
				"dropped by retention or cannot be read", out.Events, r.Events)
		}
	}
	return in, out, nil
}

// objectOrNil is the JSON value of a decision, its numbers as they are written.
func objectOrNil(d *RoundDecision) (v any) {
	text, err := json.Marshal(d)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		err = dec.Decode(&v)
	}
	if err != nil {
		panic("controller: " + err.Error()) // a stored type
	}
	return v
}

// difference names the first place in which two JSON values differ, "" if there is none.
func difference(at string, recorded, now any) string {
	switch a := recorded.(type) {
	case map[string]any:
		b, ok := now.(map[string]any)
		if !ok {
			break
		}
		names := maps.Clone(a)
		maps.Copy(names, b)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if text := difference(at+"."+name, a[name], b[name]); text != "" {
				return text
			}
		}
		return ""
	case []any:
		b, ok := now.([]any)
		if !ok {
			break
		}
		for i := range min(len(a), len(b)) {
			if text := difference(fmt.Sprintf("%s[%d]", at, i), a[i], b[i]); text != "" {
				return text
			}
		}
		if len(a) != len(b) {
			return fmt.Sprintf("%s has %d entries, recorded are %d", at, len(b), len(a))
		}
		return ""
	default:
		if recorded == now {
			return ""
		}
	}
	return fmt.Sprintf("%s is %s, recorded is %s", at, shortJSON(now), shortJSON(recorded))
}

func shortJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return shortened(string(text))
}
