package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
)

// Actors of changes that no caller asks for.
const (
	tuningActor = "tuning"
	judgeActor  = rollout.Judge
	eventsActor = "events" // of several callers
	// retentionActor removes expired records.
	retentionActor = "retention"
)

// record is the audit record of a change, nil if it changes only what rounds and looks
// note of themselves. before is nil for a registration.
func record(call Call, before *snapshot, c *Change, at time.Time) *audit.Record {
	r := &audit.Record{Time: at, Origin: call.By(), Resource: "schedulers/" + c.Scheduler.ID,
		RevisionAfter: c.Scheduler.OfferedRevision}
	was := &snapshot{}
	var fields map[string]json.RawMessage
	if before != nil {
		was, r.RevisionBefore, fields = before, before.OfferedRevision, fieldsOf(&before.Scheduler)
	}
	after := c.Scheduler
	after.Instances = answeredAs(was.Instances, after.Instances)
	r.Fields = changedFields("", fields, fieldsOf(&after))
	r.Fields = append(r.Fields, changedOperations(was.Operations, c.Scheduler.Operations)...)
	for _, next := range c.Configurations {
		r.Fields = append(r.Fields, changedRevision(was.config(next.Revision), next)...)
		if next.Revision > was.LastRevision && r.Reason == "" {
			r.Reason = next.Reason
		}
	}
	if len(r.Fields) == 0 {
		return nil
	}
	r.Fields = bounded(r.Fields)
	r.Reason = shortened(r.Reason)
	return r
}

// answeredAs returns instances with their answers before, as far as they only refuse a revision again: a scheduler that
// tries it in a loop, with another text each time, does not fill the log.
func answeredAs(before, after []rollout.Instance) []rollout.Instance {
	out := slices.Clone(after)
	for k := range out {
		i := &out[k]
		at := slices.IndexFunc(before, func(b rollout.Instance) bool { return b.ID == i.ID })
		if at >= 0 && before[at].Answered == i.Answered && before[at].State == i.State && i.State.Refuses() {
			i.Error, i.Reported = before[at].Error, before[at].Reported
		}
	}
	return out
}

// changedRevision describes the change of a revision. before is nil for a new one.
func changedRevision(before, after *rollout.Configuration) []audit.Field {
	type fields struct {
		State    rollout.RevisionState `json:"state,omitempty"`
		Origin   rollout.Origin        `json:"origin,omitempty"`
		Hash     string                `json:"sha256,omitempty"`
		Ack      *rollout.Ack          `json:"acknowledgement,omitempty"`
		Incident *rollout.Incident     `json:"incident,omitempty"`
	}
	of := func(c *rollout.Configuration) map[string]json.RawMessage {
		if c == nil {
			return nil
		}
		return objectOf(fields{c.State, c.Origin, c.Hash, c.Ack, c.Incident})
	}
	if before != nil && before.Ack != nil && after.Ack != nil && before.Ack.State == after.Ack.State &&
		after.Ack.State.Refuses() {
		again := *after
		again.Ack, after = before.Ack, &again
	}
	return changedFields(fmt.Sprintf("configurations/%d.", after.Revision), of(before), of(after))
}

// fieldsOf are the fields of a scheduler but counters and the ones that rounds and looks note of
// themselves.
func fieldsOf(s *Scheduler) map[string]json.RawMessage {
	c := *s
	c.Version, c.Generation, c.Updated, c.Round, c.Experience, c.Probation = 0, 0, time.Time{}, 0, nil, nil
	c.Pause, c.Operations = nil, nil // the record has who and why
	return objectOf(c)
}

// changedOperations says which operations were asked for and which were cancelled.
func changedOperations(before, after []Operation) (out []audit.Field) {
	text := func(o *Operation) string {
		if errors.Is(o.Err, ErrCanceled) {
			return `"CANCELED"`
		}
		return `"REQUESTED"`
	}
	for i := range after {
		o, was := &after[i], ""
		if k := slices.IndexFunc(before, func(b Operation) bool { return b.ID == o.ID }); k >= 0 {
			was = text(&before[k])
		}
		if now := text(o); now != was {
			out = append(out, audit.Field{Name: "operations/" + o.ID, Before: was, After: now})
		}
	}
	return out
}

// objectOf is the JSON form of a struct by field.
func objectOf(v any) (out map[string]json.RawMessage) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic("controller: " + err.Error()) // a stored type
	}
	return out
}

// changedFields compares JSON objects, with the objects inside by field.
func changedFields(prefix string, before, after map[string]json.RawMessage) (out []audit.Field) {
	names := maps.Clone(before)
	if names == nil {
		names = map[string]json.RawMessage{}
	}
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := before[name], after[name]
		if string(a) == string(b) {
			continue
		}
		var inA, inB map[string]json.RawMessage
		if json.Unmarshal(a, &inA) == nil && json.Unmarshal(b, &inB) == nil {
			out = append(out, changedFields(prefix+name+".", inA, inB)...)
			continue
		}
		out = append(out, audit.Field{Name: prefix + name, Before: string(a), After: string(b)})
	}
	return out
}

// The bounds of a record: of its fields and of a text, in bytes.
const (
	maxFields = 64
	maxText   = 512
)

func bounded(fields []audit.Field) []audit.Field {
	if more := len(fields) - maxFields; more > 0 {
		fields = append(fields[:maxFields], audit.Field{Name: fmt.Sprintf("%d more", more)})
	}
	for i := range fields {
		fields[i].Before, fields[i].After = shortened(fields[i].Before), shortened(fields[i].After)
	}
	return fields
}

func shortened(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}

// AuditRecord is a line of the audit log with its content. The reason of a record that cannot be read is why.
type AuditRecord struct {
	audit.Record
	Place int64      // counts the records of the log, from 1
	Head  audit.Head // of its chain after it
	Line  []byte
}

// AuditLog returns the records of the audit log before a place, newest first, at most limit of them.
// All are before 0. Unless resource is "", only records about it count, and ones that cannot be read, of which those
// of a file are one.
func (s *Service) AuditLog(before int64, resource string, limit int) (out []AuditRecord, err error) {
	if before == 1 {
		return nil, nil
	}
	err = s.o.Store.Audit(max(0, before-1), true, func(place int64, line []byte, err error) bool {
		one := AuditRecord{Place: place, Line: slices.Clone(line)}
		if err == nil {
			one.Record, one.Head, err = audit.Parse(line)
		}
		if err != nil {
			one.Record = audit.Record{Origin: audit.Origin{Reason: "it cannot be read: " + err.Error()}}
		}
		if resource == "" || err != nil || one.Resource == resource {
			out = append(out, one)
		}
		return len(out) < limit
	})
	if err != nil && len(out) > 0 { // the page is what can be read
		s.o.Log.Error("part of the audit log cannot be read", "err", err)
		err = nil
	}
	return out, err
}

// archiveAudit archives the audit log of former days.
func (s *Service) archiveAudit() {
	keep := time.Time{}
	if s.o.RetainAudit > 0 {
		keep = s.now().Add(-s.o.RetainAudit)
	}
	if err := s.o.Store.ArchiveAudit(s.ctx, keep); err != nil && s.ctx.Err() == nil {
		s.o.Log.Error("the audit log is not archived", "err", err)
	}
}

// Note records a change that others store for a scheduler, by the fields that differ. A reason takes the place of
// that of the call.
func (s *Service) Note(ctx context.Context, call Call, scheduler, reason, prefix string, before, after any) error {
	origin := call.By()
	origin.Reason = cmp.Or(reason, origin.Reason)
	return s.o.Store.Note(ctx, audit.Record{Time: s.now(), Origin: origin, Resource: "schedulers/" + scheduler,
		Fields: bounded(changedFields(prefix, objectOf(before), objectOf(after)))})
}

// noteAudit logs the head of the audit log, so that missing records are found later.
func (s *Service) noteAudit() {
	last, err := s.AuditLog(0, "", 1)
	switch {
	case err != nil:
		s.o.Log.Error("audit log cannot be read", "err", err)
	case len(last) > 0:
		s.o.Log.Info("audit log", "records", last[0].Place, "head", last[0].Head.Hash)
	}
}
