package workload

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// ImportReport tells what became of a trace's rows. Nothing is dropped
// silently: Rows = Jobs + Rejected.
type ImportReport struct {
	File       string    `json:"file"`
	Format     string    `json:"format"`
	Compressed bool      `json:"compressed"`
	Synthetic  bool      `json:"synthetic"`
	Zero       time.Time `json:"zero"`
	Bytes      int64     `json:"bytes"` // after decompression
	Rows       int       `json:"rows"`  // below the header
	Jobs       int       `json:"jobs"`
	Rejected   int       `json:"rejected"`
	// Unsorted is the number of jobs submitted before the job of the row above
	// them. Jobs are sorted by submission; equal ones keep the file's order.
	Unsorted int `json:"unsorted"`
	// First are the first rejected rows (ReadOptions.KeepRejected of them).
	First []Rejection `json:"first_rejected,omitempty"`
	// Reasons count all rejected rows, in order of first appearance.
	Reasons []RejectionCount `json:"reasons,omitempty"`
}

// Rejection is one row that could not be used.
type Rejection struct {
	File   string `json:"file"`
	Line   int    `json:"line"` // from 1, the header included
	Field  string `json:"field"`
	Reason string `json:"reason"`
	Value  string `json:"value"` // quoted, at most 40 characters
}

func (r Rejection) String() string {
	return fmt.Sprintf("%s:%d: %s: %s: %s", r.File, r.Line, r.Field, r.Value, r.Reason)
}

// RejectionCount is how many rows were rejected for one reason.
type RejectionCount struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
}

func (r *ImportReport) reject(x Rejection, keep int) {
	r.Rejected++
	if len(r.First) < keep {
		r.First = append(r.First, x)
	}
	for i := range r.Reasons {
		if c := &r.Reasons[i]; c.Field == x.Field && c.Reason == x.Reason {
			c.Rows++
			return
		}
	}
	r.Reasons = append(r.Reasons, RejectionCount{Field: x.Field, Reason: x.Reason, Rows: 1})
}

// excerpt quotes the beginning of what was read, safe to print.
func excerpt(b []byte) string {
	const most = 40
	if utf8.RuneCount(b[:min(len(b), 4*most)]) <= most {
		return strconv.Quote(string(b))
	}
	n := 0
	for i := 0; i < most; i++ {
		_, size := utf8.DecodeRune(b[n:])
		n += size
	}
	return strconv.Quote(string(b[:n])) + "..."
}
