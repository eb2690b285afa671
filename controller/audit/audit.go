// Package audit is the log of changes: the actor, the change, its time and its reason. It is pure: it makes and
// checks records, which others store.
//
// Every record holds the SHA-256 of the one before it, so that a record that is altered, removed
// or moved shows. That records are missing at the end shows only beside a Head noted elsewhere.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Record is one change.
type Record struct {
	// Sequence counts the records of a log, from 1.
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time"`
	Origin
	Resource string `json:"resource"` // schedulers/{scheduler}
	// RevisionBefore and RevisionAfter are the revision on offer, 0 for none.
	RevisionBefore int64 `json:"revision_before"`
	RevisionAfter  int64 `json:"revision_after"`
	// Fields are the changes.
	Fields []Field `json:"fields,omitempty"`
	// Previous is the hash of the record before, "" of the first.
	Previous string `json:"previous"`
}

// Origin is who asked for a change, how and why.
type Origin struct {
	// Actor is the name of the caller, "anonymous" where callers are not identified, or a part
	// of the service: "tuning", "judge", "events", "evaluator" or "retention", or the name of a finding
	// that brought a round forward.
	Actor string `json:"actor"`
	// Verb is the name of the method called, or the deed of a part of the service.
	Verb      string `json:"verb"`
	RequestID string `json:"request_id,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// Field is a part of a resource that changed, as JSON. Before or After is empty where there was
// or is none.
type Field struct {
	Name   string `json:"name"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Head is the end of a log: the number of its records and the hash of the last, the zero Head of
// an empty log.
type Head struct {
	Sequence int64
	Hash     string // hexadecimal SHA-256
}

func (h Head) String() string { return fmt.Sprintf("%d:%s", h.Sequence, h.Hash) }

// ErrBroken is wrapped by errors about a chain.
var ErrBroken = errors.New("audit log is broken")

// A line of a log is {"hash":"HASH","record":RECORD}, of which HASH is the SHA-256 of the bytes
// of RECORD.
const (
	lineHash   = `{"hash":"`
	lineRecord = `","record":`
	lineEnd    = `}`
)

// Append returns the line of the record that follows a head, and the head after it.
func Append(head Head, r Record) ([]byte, Head, error) {
	r.Sequence, r.Previous = head.Sequence+1, head.Hash
	text, err := json.Marshal(r)
	if err != nil {
		return nil, head, fmt.Errorf("audit: %w", err)
	}
	next := Head{r.Sequence, hash(text)}
	return []byte(lineHash + next.Hash + lineRecord + string(text) + lineEnd), next, nil
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Parse reads a line by itself. It checks its hash, but not the records before it.
func Parse(line []byte) (Record, Head, error) {
	var r Record
	rest, ok := bytes.CutPrefix(line, []byte(lineHash))
	if ok && len(rest) > 2*sha256.Size {
		want := string(rest[:2*sha256.Size])
		if rest, ok = bytes.CutPrefix(rest[2*sha256.Size:], []byte(lineRecord)); ok {
			if rest, ok = bytes.CutSuffix(rest, []byte(lineEnd)); ok {
				if got := hash(rest); got != want {
					return r, Head{}, fmt.Errorf("its SHA-256 is %s, recorded is %q", got, want)
				}
				if err := json.Unmarshal(rest, &r); err != nil {
					return r, Head{}, err
				}
				return r, Head{r.Sequence, want}, nil
			}
		}
	}
	return r, Head{}, fmt.Errorf("it is not of the form %sHASH%sRECORD%s", lineHash, lineRecord, lineEnd)
}

// Checker checks a log line by line.
type Checker struct {
	head Head
	want string
}

// NewChecker returns a checker of a log that must hold a record with a hash, "" for any.
func NewChecker(want string) *Checker { return &Checker{want: want} }

// Add checks the next line. Errors are ErrBroken and name the record.
func (c *Checker) Add(line []byte) error {
	r, next, err := Parse(line)
	switch {
	case err != nil:
	case r.Sequence != c.head.Sequence+1:
		err = fmt.Errorf("record %d is in its place", r.Sequence)
	case r.Previous != c.head.Hash:
		err = fmt.Errorf("it follows a record with SHA-256 %q, not %q", r.Previous, c.head.Hash)
	default:
		if c.head = next; next.Hash == c.want {
			c.want = ""
		}
		return nil
	}
	return fmt.Errorf("%w at record %d: %w", ErrBroken, c.head.Sequence+1, err)
}

// End returns the head of the log, and whether the hash that it must hold is missing.
func (c *Checker) End() (Head, error) {
	if c.want != "" {
		return c.head, fmt.Errorf("%w: none of its %d records has the hash %s: records are missing at the end, or it "+
			"is another log", ErrBroken, c.head.Sequence, c.want)
	}
	return c.head, nil
}

// Verify checks a log of one line each and returns its head. It must hold a record with the
// hash want, unless that is "".
func Verify(log io.Reader, want string) (Head, error) {
	text, err := io.ReadAll(log)
	if err != nil {
		return Head{}, err
	}
	c := NewChecker(want)
	for len(text) > 0 {
		line, rest, ends := bytes.Cut(text, []byte("\n"))
		if !ends {
			return c.head, fmt.Errorf("%w at record %d: its line does not end", ErrBroken, c.head.Sequence+1)
		}
		if err := c.Add(line); err != nil {
			return c.head, err
		}
		text = rest
	}
	return c.End()
}
