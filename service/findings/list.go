package findings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/autosched/autosched/patterns"
)

// key is the rule and the entity of a finding. There is one open finding of it at most.
type key struct {
	rule   string
	entity patterns.Entity
}

func (f *Finding) key() key { return key{f.Rule, f.Entity} }

// list are the findings of a scheduler.
type list struct {
	open   map[key]*Finding
	closed []*Finding // in order of closing
	rules  map[string]*Rule
}

// content is that of a file: a line for each record, its CRC-32C before its JSON, with an empty line between two, so
// that a damaged byte costs one record. Files of version 1 are this as one JSON object.
type content struct {
	Version  int        `json:"version"`
	Rules    []Rule     `json:"rules"`
	Findings []*Finding `json:"findings"` // the closed ones in order of closing, then the open ones
}

// line is a record of a file.
type line struct {
	Rule    *Rule    `json:"rule,omitempty"`
	Finding *Finding `json:"finding,omitempty"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (c *content) encode(out io.Writer) error {
	var lines []line
	for i := range c.Rules {
		lines = append(lines, line{Rule: &c.Rules[i]})
	}
	for _, f := range c.Findings {
		lines = append(lines, line{Finding: f})
	}
	for _, l := range lines {
		text, err := json.Marshal(l)
		if err == nil {
			_, err = fmt.Fprintf(out, "%08x %s\n\n", crc32.Checksum(text, castagnoli), text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decode reads records. The error names damaged ones; the others are taken in.
func (c *content) decode(text []byte) (err error) {
	if bytes.HasPrefix(text, []byte("{")) {
		if err = json.Unmarshal(text, c); err == nil && c.Version != 1 {
			err = fmt.Errorf("version %d is not known", c.Version)
		}
		return err
	}
	n := 0
	for of := range bytes.Lines(text) {
		n++
		if of = bytes.TrimSuffix(of, []byte("\n")); len(of) == 0 {
			continue
		}
		sum, record, _ := bytes.Cut(of, []byte(" "))
		var l line
		if string(sum) != fmt.Sprintf("%08x", crc32.Checksum(record, castagnoli)) ||
			json.Unmarshal(record, &l) != nil || l.Rule == nil && l.Finding == nil {
			err = errors.Join(err, fmt.Errorf("line %d is damaged", n))
		} else if l.Rule != nil {
			c.Rules = append(c.Rules, *l.Rule)
		} else {
			c.Findings = append(c.Findings, l.Finding)
		}
	}
	return err
}

// load reads a file, if there is one. The error names what cannot be read.
func (l *list) load(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var c content
	if err == nil {
		err = c.decode(text)
	}
	for i := range c.Rules {
		l.rules[c.Rules[i].Rule] = &c.Rules[i]
	}
	for _, f := range c.Findings {
		switch {
		case f == nil:
		case f.Open:
			l.open[f.key()] = f
		default:
			l.closed = append(l.closed, f)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Inspect reads the files of a directory, and returns their number and the errors of those that cannot be read.
func Inspect(dir string) (files int, damage []error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		damage = append(damage, err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if filepath.Ext(path) != ".json" {
			continue
		}
		files++
		l := list{open: map[key]*Finding{}, rules: map[string]*Rule{}}
		if err := l.load(path); err != nil {
			damage = append(damage, err)
		}
	}
	return files, damage
}

// content is the list as a file has it.
func (l *list) content() *content {
	c := &content{Findings: slices.Clone(l.closed)}
	for _, name := range slices.Sorted(maps.Keys(l.rules)) {
		c.Rules = append(c.Rules, *l.rules[name])
	}
	c.Findings = append(c.Findings, slices.SortedFunc(maps.Values(l.open), order)...)
	return c
}

func (l *list) rule(name string) *Rule {
	r := l.rules[name]
	if r == nil {
		r = &Rule{Rule: name}
		l.rules[name] = r
	}
	return r
}

func (l *list) find(id string) (*Finding, error) {
	for _, f := range l.open {
		if f.ID == id {
			return f, nil
		}
	}
	for _, f := range l.closed {
		if f.ID == id {
			return f, nil
		}
	}
	return nil, fmt.Errorf("finding %q: %w", id, ErrNotFound)
}

// summaries returns the counts of the rules that found something, by name.
func (l *list) summaries(now time.Time) []Rule {
	all := map[string]*Rule{}
	for name, r := range l.rules {
		all[name] = new(*r)
	}
	for _, f := range slices.SortedFunc(maps.Values(l.open), order) { // sums do not depend on the map
		if f.FalsePositive != nil {
			continue
		}
		r := all[f.Rule]
		r.Open++
		r.Wasted += f.WastedGPUHours
		r.Cost += f.Cost
		if !f.Silent(now) {
			r.Loud++
		}
	}
	var out []Rule
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[name])
	}
	return out
}

// add takes in a finding that opened. One that the scan after a restart did not find is that again. It reports
// false if there is no room.
func (l *list) add(f *Finding, now time.Time) bool {
	if len(l.open) >= maxOpen {
		return false
	}
	for i := len(l.closed) - 1; i >= 0; i-- {
		c := l.closed[i]
		if c.key() != f.key() {
			continue
		}
		if c.Snoozed != nil && now.Before(c.Snoozed.Until) {
			f.Snoozed = c.Snoozed
		}
		if c.Lost {
			f.ID, f.Began, f.Opened, f.Words, f.Affected = c.ID, c.Began, c.Opened, c.Words, c.Affected
			f.Acknowledged, f.FalsePositive = c.Acknowledged, c.FalsePositive
			if c.WastedGPUHours > f.WastedGPUHours {
				f.WastedGPUHours, f.Cost = c.WastedGPUHours, c.Cost
			}
			l.closed = slices.Delete(l.closed, i, i+1)
			l.open[f.key()] = f
			return true
		}
		break
	}
	l.open[f.key()] = f
	l.rule(f.Rule).Total++
	return true
}

// close moves a finding to the closed ones, of which the newest are kept.
func (l *list) close(f *Finding, at time.Time) {
	f.Open, f.Closed, f.Updated = false, at, at
	delete(l.open, f.key())
	l.closed = append(l.closed, f)
	if n := len(l.closed) - maxClosed; n > 0 {
		l.closed = slices.Delete(l.closed, 0, n)
	}
}
