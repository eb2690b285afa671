package search

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	Space     string          `json:"space"`
	Context   string          `json:"context"`
	Seed      uint64          `json:"seed"`
	Sampler   string          `json:"sampler"`
	Budget    int             `json:"budget"`
	Incumbent json.RawMessage `json:"incumbent"`
}

// Line is one trial or one rejection.
type Line struct {
	Trial     *Trial     `json:"trial,omitempty"`
	Rejection *Rejection `json:"rejected,omitempty"`
}

func (s *study) header() Header {
	return Header{Version: RecordVersion, About: s.Record.About, Space: cmp.Or(s.Record.Space, s.Space).Digest(),
		Context: s.Context, Seed: s.Seed, Sampler: s.result.Sampler, Budget: s.Budget,
		Incumbent: json.RawMessage(s.Options.Incumbent.Canonical())}
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
