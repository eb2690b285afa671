package lines

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Rejection is one row that could not be used.
type Rejection struct {
	File   string `json:"file"`
	Line   int    `json:"line"`          // from 1, the header included
	Row    int    `json:"row,omitempty"` // of a JSON array, from 1
	Field  string `json:"field"`
	Reason string `json:"reason"`
	Value  string `json:"value"` // quoted, at most 40 characters
}

func (r Rejection) String() string {
	if r.Row > 0 {
		return fmt.Sprintf("%s:%d: job %d: %s: %s: %s", r.File, r.Line, r.Row, r.Field, r.Value, r.Reason)
	}
	return fmt.Sprintf("%s:%d: %s: %s: %s", r.File, r.Line, r.Field, r.Value, r.Reason)
}

// RejectionCount is how many rows were rejected for one reason.
type RejectionCount struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
}

// Rejections count the rows that could not be used and name the first ones.
type Rejections struct {
	Rejected int              `json:"rejected"`
	First    []Rejection      `json:"first_rejected,omitempty"`
	Reasons  []RejectionCount `json:"reasons,omitempty"` // in order of first appearance
}

// Add counts a row and names it if there are fewer than keep.
func (r *Rejections) Add(x Rejection, keep int) {
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

// Excerpt quotes the beginning of input, safe to print.
func Excerpt(b []byte) string {
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
