package search

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/autosched/autosched/space"
)

// A study on file is JSON lines: one Header, then a Line for each trial and each
// rejection in the order they came. The same study writes the same bytes.

// RecordVersion is the version of the format.
const RecordVersion = 1

// Header identifies the study of a recording.
type Header struct {
	Version int `json:"autosched_trials"`
	// About names the tuned system for people, such as the trace and the scheduler.
	About map[string]string `json:"about,omitempty"`
	// Space is the digest of the space, Context is Options.Context.
	Space   string `json:"space"`
	Context string `json:"context"`
	Seed    uint64 `json:"seed"`
	Sampler string `json:"sampler"`
	// Budget is the first budget of the study; records of earlier releases have none.
	Budget    int             `json:"budget,omitempty"`
	Incumbent json.RawMessage `json:"incumbent"`
}

// Line is one trial, one rejection, or the budget of the lines after it.
type Line struct {
	Trial     *Trial     `json:"trial,omitempty"`
	Rejection *Rejection `json:"rejected,omitempty"`
	Budget    int        `json:"budget,omitempty"`
}

func (s *study) header() Header {
	return Header{Version: RecordVersion, About: s.Record.About, Space: cmp.Or(s.Record.Space, s.Space).Digest(),
		Context: s.Context, Seed: s.Seed, Sampler: s.result.Sampler, Budget: s.firstBudget(),
		Incumbent: json.RawMessage(s.Options.Incumbent.Canonical())}
}

// firstBudget is the first budget of the study, 0 if it resumes a record without it.
func (s *study) firstBudget() int {
	if r := s.Record.Resume; r != nil && r.Header.Sampler == s.result.Sampler && r.Header.Budget == 0 {
		return 0
	}
	return s.planned
}

// write adds a line to the record; the first error ends the study.
func (s *study) write(line any) {
	if s.Record.To == nil || s.recordErr != nil {
		return
	}
	b, err := json.Marshal(line)
	if err == nil {
		_, err = s.Record.To.Write(append(b, '\n'))
	}
	if err != nil {
		s.recordErr = fmt.Errorf("search: recording the trials: %w", err)
	}
}

// Recording is a study read from its record.
type Recording struct {
	Name   string // of the file, for errors
	Header Header
	// Whole is the number of bytes of whole lines in the file. Bytes after them are of a
	// line that was cut off by a crash.
	Whole   int
	budgets []int               // after Header.Budget
	trials  map[string]recorded // by configuration hash
}

type recorded struct {
	line int
	outcome
}

// Trials returns the number of trials.
func (r *Recording) Trials() int { return len(r.trials) }

// Budget returns the last budget of the study, 0 if the record has none.
func (r *Recording) Budget() int {
	if n := len(r.budgets); n > 0 {
		return r.budgets[n-1]
	}
	return r.Header.Budget
}

// longestLine bounds a line, so that a file of another kind is not read into memory. A
// trial on 64 futures has about 10 KB.
const longestLine = 4 << 20

// ReadRecording reads a record of a study in a space. Errors name the file by name, and
// the line. An incomplete last line is left out.
func ReadRecording(in io.Reader, name string, s *space.Space) (*Recording, error) {
	r := &Recording{Name: name, trials: map[string]recorded{}}
	buf := bufio.NewReader(io.LimitReader(in, 1<<30))
	for line := 1; ; line++ {
		text, err := readLine(buf)
		if err == io.EOF {
			break // an incomplete line, if any, is left
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if line == 1 {
			err = r.readHeader(text, s)
		} else {
			err = r.readLine(text, line, s)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		r.Whole += len(text)
	}
	if r.Whole == 0 {
		return nil, fmt.Errorf("%s: there is no whole line in it; a record of trials begins with a header", name)
	}
	return r, nil
}

// readLine returns a line with its end, io.EOF if there is none that is whole.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > longestLine:
			return nil, fmt.Errorf("the line is longer than %d MB: this is no record of trials", longestLine>>20)
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func (r *Recording) readHeader(text []byte, s *space.Space) error {
	if err := strictly(text, &r.Header); err != nil {
		return fmt.Errorf("this is not the header of a record of trials: %w", err)
	}
	switch {
	case r.Header.Version == 0:
		return errors.New(`this is not the header of a record of trials: "autosched_trials" is missing`)
	case r.Header.Version != RecordVersion:
		return fmt.Errorf("the record has version %d, this build reads %d", r.Header.Version, RecordVersion)
	case r.Header.Budget < 0:
		return fmt.Errorf("budget: %d is negative", r.Header.Budget)
	case r.Header.Space != s.Digest():
		return errors.New("the record is of another space: parameters, ranges or rules differ" + r.of())
	}
	incumbent, err := s.ParseJSON(r.Header.Incumbent)
	if err != nil {
		return fmt.Errorf("incumbent: %w", err)
	}
	r.Header.Incumbent = json.RawMessage(incumbent.Canonical()) // in canonical form
	return nil
}

// of describes the record by its header.
func (r *Recording) of() string {
	var b bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(r.Header.About)) {
		fmt.Fprintf(&b, ", %s %s", k, r.Header.About[k])
	}
	if b.Len() == 0 {
		return ""
	}
	return " (it is of " + b.String()[2:] + ")"
}

// fits fails if the record is of another study.
func (r *Recording) fits(h *Header) error {
	for _, k := range slices.Sorted(maps.Keys(h.About)) {
		if was, ok := r.Header.About[k]; ok && was != h.About[k] {
			return fmt.Errorf("%s:1: the record is of %s %s, not %s", r.Name, k, was, h.About[k])
		}
	}
	switch {
	case r.Header.Space != h.Space:
		return fmt.Errorf("%s:1: the record is of another space: parameters, ranges or rules differ", r.Name)
	case r.Header.Seed != h.Seed:
		return fmt.Errorf("%s:1: the record is of seed %d, not %d", r.Name, r.Header.Seed, h.Seed)
	case !bytes.Equal(r.Header.Incumbent, h.Incumbent):
		return fmt.Errorf("%s:1: the record is of the incumbent %s, not %s", r.Name, r.Header.Incumbent, h.Incumbent)
	case r.Header.Context != h.Context:
		return fmt.Errorf(
			"%s:1: the record was measured on another workload, cluster, models or simulator: what is tuned must "+
				"be the same to go on", r.Name)
	}
	return nil
}

// readLine checks a line and keeps its measurement.
func (r *Recording) readLine(text []byte, line int, s *space.Space) error {
	var x struct {
		Trial *struct {
			Step   int             `json:"step"`
			Round  int             `json:"round"`
			Config json.RawMessage `json:"config"`
			proposedText
			Measurement Measurement `json:"measurement"`
			Reward      float64     `json:"reward"`
			Cached      bool        `json:"cached"`
			Err         string      `json:"error"`
		} `json:"trial"`
		Rejection *struct {
			Round  int             `json:"round"`
			Config json.RawMessage `json:"config"`
			proposedText
			Reason string `json:"reason"`
		} `json:"rejected"`
		Budget int `json:"budget"`
	}
	if err := strictly(text, &x); err != nil {
		return err
	}
	if x.Budget != 0 && x.Trial == nil && x.Rejection == nil {
		return r.readBudget(x.Budget)
	}
	if (x.Trial == nil) == (x.Rejection == nil) || x.Budget != 0 {
		return errors.New(`a line has either "trial" or "rejected" or "budget"`)
	}
	if x.Rejection != nil {
		if _, err := s.ParseJSON(x.Rejection.Config); err != nil {
			return fmt.Errorf("rejected.config: %w", err)
		}
		return x.Rejection.check("rejected", s)
	}
	t := x.Trial
	c, err := s.ParseJSON(t.Config)
	if err != nil {
		return fmt.Errorf("trial.config: %w", err)
	}
	if err := t.check("trial", s); err != nil {
		return err
	}
	if before, ok := r.trials[c.Hash()]; ok {
		return fmt.Errorf("trial.config: it was measured on line %d already", before.line)
	}
	if want := len(r.trials); t.Step != want {
		return fmt.Errorf("trial.step: is %d, want %d: a line is missing or out of order", t.Step, want)
	}
	out := outcome{m: t.Measurement, cached: t.Cached}
	if t.Err != "" {
		out = outcome{err: errors.New(t.Err)}
	} else if err := t.Measurement.check(0); err != nil {
		return fmt.Errorf("trial.measurement: %w", err)
	}
	out.m = out.m.clean()
	r.trials[c.Hash()] = recorded{line, out}
	return nil
}

// readBudget reads a line with a larger budget.
func (r *Recording) readBudget(budget int) error {
	before := r.Budget()
	if before == 0 || budget <= before {
		return fmt.Errorf("budget: %d is not above the one before, %d", budget, before)
	}
	r.budgets = append(r.budgets, budget)
	return nil
}

// proposedText is the stored form of a Provenance.
type proposedText struct {
	Origin     string          `json:"origin"`
	Prediction *Prediction     `json:"prediction"`
	Suggested  space.Values    `json:"suggested"`
	Projected  json.RawMessage `json:"projected"`
	Narrowed   []string        `json:"narrowed"`
}

func (p *proposedText) check(at string, s *space.Space) error {
	if p.Origin == "" {
		return fmt.Errorf("%s.origin: is missing", at)
	}
	if p.Projected != nil {
		if _, err := s.ParseJSON(p.Projected); err != nil {
			return fmt.Errorf("%s.projected: %w", at, err)
		}
	}
	return nil
}

// strictly decodes one JSON value without unknown fields.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return errors.New("the line ends within a JSON object")
		}
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// find returns a recorded measurement. A nil Recording has none.
func (r *Recording) find(c space.Config) (outcome, bool) {
	if r == nil || len(r.trials) == 0 {
		return outcome{}, false
	}
	x, ok := r.trials[c.Hash()]
	return x.outcome, ok
}
