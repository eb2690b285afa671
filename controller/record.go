package controller

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// RoundRecord is a round as it was decided, with its input. Its events are in the store.
type RoundRecord struct {
	// Sequence counts the records of a scheduler, from 1, urgent decisions included.
	Sequence int64 `json:"-"`
	// Decided is the wall-clock time, Took how long it took.
	Decided time.Time     `json:"decided"`
	Took    time.Duration `json:"took"`
	// Simulator is the simulator.Version that decided.
	Simulator string     `json:"simulator"`
	Input     RoundInput `json:"input"`
	// Digest is the SHA-256 of all that the round was decided on, hexadecimal: of Input, the
	// space, the state of the cluster and the history.
	Digest string `json:"input_sha256"`
	// Cursor is the place in the store of the last event that the round knew, Events the number
	// of events it knew.
	Cursor string `json:"cursor"`
	Events int64  `json:"events"`
	// Decision is nil if the round failed, which Error says.
	Decision *RoundDecision `json:"decision,omitempty"`
	Error    string         `json:"error,omitempty"`
	// Outcome describes the effect of the decision, for people; empty if the service ended before.
	// Revision is the one it published or proposed, 0 for none.
	Outcome  string `json:"outcome,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Damage says that the record cannot be read. Then it has only its Sequence.
	Damage error `json:"-"`
}

// RoundInput is the input of a round, but the events and the space and cluster of the
// scheduler's revision.
type RoundInput struct {
	Number int64         `json:"number"` // in intervals since Zero
	Urgent bool          `json:"urgent,omitempty"`
	At     time.Duration `json:"at"` // since Zero
	Zero   time.Time     `json:"zero"`
	// Settings are the settings of the round. Its Search is not part of their JSON form.
	Settings   round.Settings `json:"settings"`
	Search     round.Search   `json:"search,omitempty"`
	Type       string         `json:"type"`
	Objective  string         `json:"objective"`
	Simulation Simulation     `json:"simulation"`
	// Tariff is the tariff of energy, cost and CO2; nil if they were not counted.
	Tariff *energy.Tariff `json:"tariff,omitempty"`
	// SchedulerRevision is the number of the scheduler's; 0 is 1.
	SchedulerRevision int64             `json:"scheduler_revision,omitempty"`
	Running           int64             `json:"running"` // the incumbent's revision, 0 for the defaults
	Incumbent         json.RawMessage   `json:"incumbent"`
	Refused           []json.RawMessage `json:"refused,omitempty"`
	// History is the experience of the rounds before.
	History json.RawMessage `json:"history,omitempty"`
}

// RoundDecision is a round.Decision as it is stored.
type RoundDecision struct {
	Config     json.RawMessage  `json:"config"`
	Adopt      bool             `json:"adopt"`
	Reason     string           `json:"reason"`
	Ratio      float64          `json:"ratio"`
	Interval   round.Interval   `json:"interval,omitzero"`
	Search     round.Search     `json:"search,omitempty"`
	Why        string           `json:"why,omitempty"`
	Stats      round.Stats      `json:"stats,omitzero"`
	Candidates []RoundCandidate `json:"candidates,omitempty"`
	// Predicted and Before are the objectives of Config and of the incumbent in each future.
	Predicted []float64 `json:"predicted,omitempty"`
	Before    []float64 `json:"before,omitempty"`
	// Energy is the change of energy from the incumbent to Config, if it was adopted and that was counted.
	Energy *round.EnergyChange `json:"energy,omitempty"`
	// HistoryDigest is the SHA-256 of the experience for the next round, hexadecimal.
	HistoryDigest string `json:"history_sha256,omitempty"`
}

// RoundCandidate is a configuration that a round measured.
type RoundCandidate struct {
	round.Candidate
	Config    json.RawMessage `json:"config,omitempty"`
	Objective []float64       `json:"objective,omitempty"` // in each future
	Error     string          `json:"error,omitempty"`
	// Metrics are means over the futures, and Cut is how many of them were simulated if not all were. None
	// of both is in records of older versions.
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Cut     int                `json:"cut,omitempty"`
}

// newRoundInput returns the input of a round on a scheduler's state.
func (v *snapshot) newRoundInput(id roundID, in *round.Input, tariff *energy.Tariff) RoundInput {
	x := RoundInput{Number: id.number, Urgent: id.urgent, At: id.at(), Zero: v.Zero, Settings: in.Settings,
		Search: in.Settings.Search, Type: v.Type, Objective: v.Objective, Simulation: v.Simulation,
		SchedulerRevision: v.Revision,
		Running:           v.basis().Running, Incumbent: json.RawMessage(in.Incumbent.Canonical()),
		History: v.Experience, Tariff: tariff}
	for _, c := range in.Refused {
		x.Refused = append(x.Refused, json.RawMessage(c.Canonical()))
	}
	return x
}

// input is the round's, without Snapshot and Engine.
func (x *RoundInput) input(sp *space.Space) (in round.Input, err error) {
	in = round.Input{Settings: x.Settings, Scheduler: x.Type, Space: sp, Round: int(x.Number), Urgent: x.Urgent,
		History: x.History}
	in.Settings.Search = x.Search
	if in.Goal, err = round.ParseGoal(x.Objective); err != nil {
		return in, err
	}
	if in.Incumbent, err = sp.ParseJSON(x.Incumbent); err != nil {
		return in, fmt.Errorf("incumbent: %w", err)
	}
	for i, text := range x.Refused {
		c, err := sp.ParseJSON(text)
		if err != nil {
			return in, fmt.Errorf("refused[%d]: %w", i, err)
		}
		in.Refused = append(in.Refused, c)
	}
	return in, nil
}

// digest is the SHA-256 of all that a round is decided on.
func (x *RoundInput) digest(ctx context.Context, in *round.Input) (string, error) {
	h := sha256.New()
	e := json.NewEncoder(h)
	for _, part := range []any{"round input 1", x, in.Space.Params(), in.Space.Rules(), in.State} {
		if err := e.Encode(part); err != nil {
			return "", fmt.Errorf("controller: digest of a round: %w", err)
		}
	}
	at := in.State.At
	from := at - round.ReplayMemory
	finishes := in.Ledger.Finishes(from, at+1)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	arrivals := in.Ledger.Arrivals(from, at+1)
	buffer := binary.AppendUvarint(nil, uint64(len(finishes)))
	for i := range finishes {
		if i%4096 == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		buffer = appendFields(buffer, reflect.ValueOf(&finishes[i]).Elem())
		_, _ = h.Write(buffer)
		buffer = buffer[:0]
	}
	for i := range arrivals {
		if i%4096 == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		buffer = appendFields(buffer, reflect.ValueOf(&arrivals[i]).Elem())
		_, _ = h.Write(buffer)
		buffer = buffer[:0]
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// appendFields appends all fields of a plain value, in order: integers as varints, texts with
// their length before them.
func appendFields(dst []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			dst = appendFields(dst, v.Field(i))
		}
		return dst
	case reflect.Pointer:
		if v.IsNil() {
			return append(dst, 0)
		}
		return appendFields(append(dst, 1), v.Elem())
	case reflect.String:
		return append(binary.AppendUvarint(dst, uint64(v.Len())), v.String()...)
	case reflect.Bool:
		if v.Bool() {
			return append(dst, 1)
		}
		return append(dst, 0)
	}
	if v.CanInt() {
		return binary.AppendVarint(dst, v.Int())
	}
	return binary.AppendUvarint(dst, v.Uint()) // panics if it is not plain
}

func newRoundDecision(d *round.Decision) *RoundDecision {
	out := &RoundDecision{Config: json.RawMessage(d.Config.Canonical()), Adopt: d.Adopt, Reason: d.Reason,
		Ratio: d.Ratio, Interval: d.Interval, Search: d.Search, Why: d.Why, Stats: d.Stats, Predicted: d.Predicted,
		Before: d.Before, Energy: d.Energy}
	for i, c := range d.Candidates {
		one := RoundCandidate{Candidate: c}
		if i < len(d.Measured) {
			m := &d.Measured[i]
			one.Config, one.Objective, one.Error = json.RawMessage(m.Config.Canonical()), m.Objective, m.Err
			one.Metrics, one.Cut = m.Metrics, m.Cut
		}
		out.Candidates = append(out.Candidates, one)
	}
	if len(d.History) > 0 {
		sum := sha256.Sum256(d.History)
		out.HistoryDigest = hex.EncodeToString(sum[:])
	}
	return out
}

// The bounds of a record, in bytes: as stored, and read.
const (
	maxRecord     = 1 << 20
	maxRecordText = 64 << 20
)

// encode is the record as it is stored.
func (r *RoundRecord) encode() ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	err := json.NewEncoder(w).Encode(r)
	if err == nil {
		err = w.Close()
	}
	if err == nil && out.Len() > maxRecord {
		err = fmt.Errorf("it has %d bytes, at most %d are stored", out.Len(), maxRecord)
	}
	return out.Bytes(), err
}

// DecodeRound reads a stored record, of which err says that it is damaged.
func DecodeRound(sequence int64, text []byte, err error) *RoundRecord {
	r := &RoundRecord{}
	if err == nil {
		var in *gzip.Reader
		if in, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
			err = json.NewDecoder(io.LimitReader(in, maxRecordText)).Decode(r)
		}
	}
	if err != nil {
		r = &RoundRecord{Damage: err}
	}
	r.Sequence = sequence
	return r
}

// beginRecord notes the input of a round, nil if the context ends meanwhile. m.mu is
// not held.
func (s *Service) beginRecord(ctx context.Context, m *schedulerState, v *snapshot, id roundID, in *round.Input,
	tariff *energy.Tariff) *RoundRecord {
	if s.o.KeepRounds < 0 {
		return nil
	}
	r := &RoundRecord{Simulator: simulator.Version, Input: v.newRoundInput(id, in, tariff), Decided: s.now()}
	m.mu.Lock()
	r.Cursor, r.Events = m.history.Cursor(), m.history.Applied()
	m.mu.Unlock()
	var err error
	if r.Digest, err = r.Input.digest(ctx, in); ctx.Err() != nil {
		return nil
	} else if err != nil {
		s.o.Log.Error("round is not stored", "scheduler", m.id, "interval", id.number, "err", err)
		return nil
	}
	return r
}

// end notes the decision.
func (r *RoundRecord) end(at time.Time, d *round.Decision, err error) {
	if r == nil {
		return
	}
	r.Took = at.Sub(r.Decided)
	if err != nil {
		r.Error = err.Error()
		return
	}
	r.Decision = newRoundDecision(d)
}

// outcome notes the effect of a decision.
func (r *RoundRecord) outcome(text string, revision int64) {
	if r != nil {
		r.Outcome, r.Revision = text, revision
	}
}

// sequence is 0 for a round without a record.
func (r *RoundRecord) sequence() int64 {
	if r == nil {
		return 0
	}
	return r.Sequence
}

// keepRecord stores a round, if it has a record. That it cannot be stored is logged and keeps
// nothing from being published.
func (s *Service) keepRecord(m *schedulerState, r *RoundRecord) {
	if r == nil {
		return
	}
	text, err := r.encode()
	if err == nil && r.Sequence == 0 {
		r.Sequence, err = s.nextRecord(m)
	}
	if err == nil {
		err = s.o.Store.KeepRound(m.snapshot.Load().UID, r.Sequence, text, s.o.KeepRounds)
	}
	if err != nil {
		s.o.Log.Error("round is not stored", "scheduler", m.id, "interval", r.Input.Number, "err", err)
	}
}

// nextRecord is the sequence of a scheduler's next record. It is beyond the ones that revisions name,
// also if the records are lost.
func (s *Service) nextRecord(m *schedulerState) (int64, error) {
	v := m.snapshot.Load()
	if m.recorded == 0 {
		err := s.o.Store.Rounds(v.UID, 0, func(sequence int64, _ []byte, _ error) bool {
			m.recorded = sequence
			return false
		})
		if err != nil {
			return 0, err
		}
		for _, c := range v.configs {
			if c.Evidence != nil {
				m.recorded = max(m.recorded, c.Evidence.Record)
			}
		}
	}
	m.recorded++
	return m.recorded, nil
}

// Rounds returns the stored rounds of a scheduler before one, newest first, at most limit of them.
// All are before 0.
func (s *Service) Rounds(id string, before int64, limit int) (out []*RoundRecord, err error) {
	m, err := s.readable(id)
	if err != nil {
		return nil, err
	}
	err = s.o.Store.Rounds(m.snapshot.Load().UID, before, func(sequence int64, text []byte, err error) bool {
		out = append(out, DecodeRound(sequence, text, err))
		return len(out) < limit
	})
	return out, err
}

// Round returns a stored round.
func (s *Service) Round(id string, sequence int64) (*RoundRecord, error) {
	if sequence > 0 {
		if all, err := s.Rounds(id, sequence+1, 1); err != nil {
			return nil, err
		} else if len(all) == 1 && all[0].Sequence == sequence {
			return all[0], nil
		}
	}
	return nil, fmt.Errorf("round %d of scheduler %q: %w among those that are kept: 'autosched scheduler rounds list' shows them",
		sequence, id, rollout.ErrNotFound)
}
