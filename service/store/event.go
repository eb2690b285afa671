package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/autosched/autosched/workload"
)

// Events are the only large data. A record of one is a protobuf message without generated code: each field is
// one line below, which writes it and reads it. Numbers never change, and a field that goes leaves its number
// unused. Numbers are of type sint64, flags of bool, texts of bytes.

// eventSchema is the schema byte of such a record; recordSchema is that of layout 1 (decodeEvent1).
const eventSchema = 2

const eventKeySize = 16

// eventKey sorts by time, then by order of arrival.
func eventKey(dst []byte, t time.Duration, seq uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(t)^(1<<63))
	return binary.BigEndian.AppendUint64(dst, seq)
}

// event writes or reads the fields of an event, in the order of their numbers, which never change.
func (w *wire) event(e *workload.Event) {
	w.part(e)
	e.Active = parts(w, 43, e.Active)
	for i := range e.Active {
		outer := w.enter(43)
		w.part(&e.Active[i])
		number(w, 44, &e.Active[i].StartUp)
		w.leave(outer)
	}
	number(w, 44, &e.StartUp)
}

// part writes or reads an event without Active: the parts of a snapshot have none.
func (w *wire) part(e *workload.Event) {
	number(w, 1, &e.Kind)
	number(w, 2, &e.Time)
	w.text(3, &e.ID)
	w.text(4, &e.Job.ID)
	w.text(5, &e.Job.User)
	w.text(6, &e.Job.Tenant)
	w.text(7, &e.Job.Key)
	w.text(8, &e.Job.Model)
	number(w, 9, &e.Job.GPUs)
	number(w, 10, &e.Job.Status)
	number(w, 11, &e.Job.Submit)
	number(w, 12, &e.Job.Deadline)
	e.Placement = parts(w, 13, e.Placement)
	for i := range e.Placement {
		outer := w.enter(13)
		w.nodeShare(&e.Placement[i])
		w.leave(outer)
	}
	w.text(14, &e.Node)
	number(w, 15, &e.NodeGPUs)
	w.text(16, &e.SharesWith)
	number(w, 17, &e.Pool)
	number(w, 18, &e.Attained)
	w.flag(19, &e.HasAttained)
	number(w, 20, &e.LevelAttained)
	w.flag(21, &e.HasLevel)
	number(w, 22, &e.LeaseUntil)
	w.flag(23, &e.Lost)
	number(w, 24, &e.HoldUntil)
	w.text(25, &e.Labels)
	w.text(26, &e.Revision)
	w.text(27, &e.Instance)
	w.text(28, &e.Hash)
	w.text(29, &e.Epoch.ID)
	number(w, 30, &e.Epoch.Counter)
	w.request(&e.Job)
}

func (w *wire) request(j *workload.Job) {
	if w.reading && (w.next == 0 || w.next > 42) || !w.reading && j.Requested == (workload.Requested{}) {
		return
	}
	q := j.Request()
	w.text(31, &q.GPUModel)
	w.text(32, &q.Partition)
	number(w, 33, &q.MilliCPUs)
	number(w, 34, &q.Memory)
	number(w, 35, &q.TimeLimit)
	number(w, 36, &q.NodeCount)
	number(w, 37, &q.Nice)
	number(w, 38, &q.Priority)
	w.text(39, &q.QOS)
	w.text(40, &q.Account)
	number(w, 41, &q.Requeue)
	number(w, 42, &q.HoldOff)
	if w.reading {
		j.Requested = q.Shared()
	}
}

func (w *wire) nodeShare(n *workload.NodeShare) {
	w.text(1, &n.Node)
	number(w, 2, &n.GPUs)
	w.text(3, &n.Indexes)
}

var errEventEncoding = errors.New("event does not decode")

// eventRecord appends the record of an event.
func eventRecord(dst, key []byte, e *workload.Event) []byte {
	return appendVersioned(dst, key, eventSchema, func(dst []byte) []byte { return appendEvent(dst, e) })
}

// readEvent returns the event of a record.
func readEvent(key, record []byte) (e workload.Event, err error) {
	schema, payload, err := openVersioned(key, record)
	switch {
	case err != nil:
		return e, err
	case schema == recordSchema:
		return decodeEvent1(payload)
	case schema == eventSchema:
		return decodeEvent(payload)
	}
	return e, fmt.Errorf("its schema %d is not known", schema)
}

func appendEvent(dst []byte, e *workload.Event) []byte {
	w := wire{b: dst}
	w.event(e)
	return w.b
}

func decodeEvent(b []byte) (e workload.Event, err error) {
	w := wire{b: b, reading: true}
	w.advance()
	w.event(&e)
	if !w.end() {
		err = errEventEncoding
	}
	return e, err
}
