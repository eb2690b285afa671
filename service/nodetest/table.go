package nodetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Round has the results of one round of a fault.
type Round struct {
	Kind string `json:"kind"`
	// Leads says that the node at fault led, Note how it was damaged.
	Leads bool   `json:"leads"`
	Note  string `json:"note,omitempty"`
	// Node has the outage for writes to one node after the other, Client that for the product's connection to all.
	Node   Outage `json:"node"`
	Client Outage `json:"client"`
	// Whole is the time from the end of the fault until every node answered.
	Whole      time.Duration  `json:"whole"`
	Operations int            `json:"operations"`
	Counts     map[string]int `json:"counts"`
	Ended      int            `json:"ended,omitempty"` // processes that ended by themselves
	// Replaced is how many nodes began with an empty disk, as they did not come back.
	Replaced   int      `json:"replaced,omitempty"`
	Violations int      `json:"violations"`
	Texts      []string `json:"texts,omitempty"`
}

// Append adds the round to a file of one line a round.
func (r *Round) Append(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

// ReadRounds reads the rounds of a file; none if it is not there.
func ReadRounds(path string) (all []Round, err error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		var r Round
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// Table is the rounds by kind of fault, in Markdown.
func Table(rounds []Round) string {
	var kinds []string
	of := map[string][]Round{}
	for _, r := range rounds {
		if of[r.Kind] == nil {
			kinds = append(kinds, r.Kind)
		}
		of[r.Kind] = append(of[r.Kind], r)
	}
	var b strings.Builder
	b.WriteString("| fault | rounds | at the leader | writes again after, s: median, 99 %, longest | " +
		"every node after, s | operations | events | violations |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	row := func(name string, all []Round) {
		var back, whole []time.Duration
		leader, operations, events, wrong := 0, 0, 0, 0
		for _, r := range all {
			operations, events, wrong = operations+r.Operations, events+r.Counts["events"], wrong+r.Violations
			whole = append(whole, r.Whole)
			if r.Leads {
				leader++
				back = append(back, r.Node.Longest)
			}
		}
		again := "-"
		if leader > 0 {
			again = fmt.Sprintf("%.1f, %.1f, %.1f", Quantile(back, 0.5).Seconds(), Quantile(back, 0.99).Seconds(),
				Quantile(back, 1).Seconds())
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %.1f | %d | %d | %d |\n", name, len(all), leader, again,
			Quantile(whole, 0.5).Seconds(), operations, events, wrong)
	}
	for _, k := range kinds {
		row(k, of[k])
	}
	row("all", rounds)
	row("all that end a leadership", slices.DeleteFunc(slices.Clone(rounds), func(r Round) bool {
		return !r.Leads || strings.HasPrefix(r.Kind, "clock") || strings.HasPrefix(r.Kind, "disk")
	}))
	return b.String()
}
