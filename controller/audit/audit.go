// Package audit is the log of changes: the actor, the change, its time and its reason. It is pure: it makes and
// checks records, which others store.
//
// The records of a resource form a chain: each holds the SHA-256 of the one before it, so that a record that is
// altered, removed or moved shows. Anchors hold the heads of all chains, and are a chain of their own, with which a
// log may begin once its older records are dropped. That records are missing at the end shows only beside a Head
// noted elsewhere.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Record is one change.
type Record struct {
	// Sequence counts the records of a chain, from 1.
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time"`
	Origin
	Resource string `json:"resource"` // schedulers/{scheduler}
	// RevisionBefore and RevisionAfter are the revision on offer, 0 for none.
	RevisionBefore int64 `json:"revision_before"`
	RevisionAfter  int64 `json:"revision_after"`
	// Fields are the changes.
	Fields []Field `json:"fields,omitempty"`
	// Previous is the hash of the record before in the chain, "" of the first.
	Previous string `json:"previous"`
	// Chain is the resource of the records in the chain; "" in the chain of anchors, which begins with the records of
	// all resources in a log of an older version.
	Chain string `json:"chain,omitempty"`
}

// Verbs that records of a log depend on: Purge ends a resource and, once there is an anchor after it, its chain.
const (
	Purge  = "Purge"
	Anchor = "Anchor"
)

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

// Head is the end of a chain or a log: the number of its records and the hash of the last, the zero Head of
// an empty one.
type Head struct {
	Sequence int64  `json:"sequence"`
	Hash     string `json:"hash"` // hexadecimal SHA-256
	// Ended says that the last record is a Purge.
	Ended bool `json:"ended,omitempty"`
}

// NewAnchor returns an anchor of chains by their heads.
func NewAnchor(at time.Time, heads map[string]Head) Record {
	r := Record{Time: at, Origin: Origin{Actor: "retention", Verb: Anchor}, Resource: "audit"}
	for _, chain := range slices.Sorted(maps.Keys(heads)) {
		r.Fields = append(r.Fields, Field{Name: chain, After: heads[chain].String()})
	}
	return r
}

func (h Head) String() string {
	text := fmt.Sprintf("%d:%s", h.Sequence, h.Hash)
	if h.Ended {
		text += endedMark
	}
	return text
}

const endedMark = " ended"

// ErrBroken is wrapped by errors about a chain.
var ErrBroken = errors.New("audit log is broken")

// A line of a log is {"hash":"HASH","record":RECORD}, of which HASH is the SHA-256 of the bytes
// of RECORD.
const (
	lineHash   = `{"hash":"`
	lineRecord = `","record":`
	lineEnd    = `}`
)

// Append returns the line of the record that follows the head of its chain, and the head after it.
func Append(head Head, r Record) ([]byte, Head, error) {
	r.Sequence, r.Previous = head.Sequence+1, head.Hash
	text, err := json.Marshal(r)
	if err != nil {
		return nil, head, fmt.Errorf("audit: %w", err)
	}
	next := headOf(&r, hash(text))
	return []byte(lineHash + next.Hash + lineRecord + string(text) + lineEnd), next, nil
}

func headOf(r *Record, hash string) Head {
	return Head{r.Sequence, hash, r.Verb == Purge && r.Chain != ""}
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
				return r, headOf(&r, want), nil
			}
		}
	}
	return r, Head{}, fmt.Errorf("it is not of the form %sHASH%sRECORD%s", lineHash, lineRecord, lineEnd)
}

// Checker checks a log line by line.
type Checker struct {
	records int64
	last    string          // the hash of the last line
	heads   map[string]Head // by chain
	want    string
}

// NewChecker returns a checker of a log that must hold a record with a hash, "" for any.
func NewChecker(want string) *Checker { return &Checker{want: want, heads: map[string]Head{}} }

// Add checks the next line. Errors are ErrBroken and name the record.
func (c *Checker) Add(line []byte) error {
	r, next, err := Parse(line)
	if err == nil {
		err = c.follow(&r)
	}
	if err != nil {
		return fmt.Errorf("%w at record %d: %w", ErrBroken, c.records+1, err)
	}
	if next.Hash == c.want {
		c.want = ""
	}
	c.records, c.last, c.heads[r.Chain] = c.records+1, next.Hash, next
	return nil
}

// follow checks that a record follows its chain, and that an anchor has the heads of all.
func (c *Checker) follow(r *Record) error {
	anchor := r.Verb == Anchor && r.Chain == ""
	if anchor && c.records == 0 {
		c.heads[""] = Head{Sequence: r.Sequence - 1, Hash: r.Previous}
		for _, f := range r.Fields {
			var h Head
			text, ended := strings.CutSuffix(f.After, endedMark)
			if _, err := fmt.Sscanf(text, "%d:%s", &h.Sequence, &h.Hash); err != nil {
				return fmt.Errorf("the head of %s in the anchor is %q", f.Name, f.After)
			}
			if !ended {
				c.heads[f.Name] = h
			}
		}
		return nil
	}
	switch head := c.heads[r.Chain]; {
	case r.Sequence != head.Sequence+1:
		return fmt.Errorf("record %d%s is in its place", r.Sequence, inChain(r.Chain))
	case r.Previous != head.Hash:
		return fmt.Errorf("it follows a record%s with SHA-256 %q, not %q", inChain(r.Chain), r.Previous, head.Hash)
	case !anchor:
		return nil
	}
	heads := maps.Clone(c.heads)
	delete(heads, "")
	for _, f := range r.Fields {
		if got := heads[f.Name]; got.String() != f.After {
			return fmt.Errorf("the anchor has the head %s of %s, and the log %s", f.After, f.Name, got)
		}
		delete(heads, f.Name)
	}
	if len(heads) > 0 {
		return fmt.Errorf("the anchor lacks %s", slices.Min(slices.Collect(maps.Keys(heads))))
	}
	maps.DeleteFunc(c.heads, func(_ string, h Head) bool { return h.Ended })
	return nil
}

func inChain(chain string) string {
	if chain == "" {
		return ""
	}
	return " of " + chain
}

// End returns the head of the log: the number of its records and the hash of the last. It is an error if the hash that
// it must hold is missing.
func (c *Checker) End() (Head, error) {
	if c.want != "" {
		return c.head(), fmt.Errorf("%w: none of its %d records has the hash %s: records are missing at the end, or it "+
			"is another log", ErrBroken, c.records, c.want)
	}
	return c.head(), nil
}

func (c *Checker) head() Head { return Head{Sequence: c.records, Hash: c.last} }

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
			return c.head(), fmt.Errorf("%w at record %d: its line does not end", ErrBroken, c.records+1)
		}
		if err := c.Add(line); err != nil {
			return c.head(), err
		}
		text = rest
	}
	return c.End()
}
