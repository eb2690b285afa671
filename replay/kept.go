package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/autosched/autosched/internal/cells"
)

// Keep says where the cells of a computation are kept once they are computed, so that it
// continues after an interruption.
type Keep struct {
	Path  string // a file of package cells; "" keeps none
	Build string // identifies the program: cells of another one are computed again
	// Note is called with the used and the unused parts of the file.
	Note func(text string)
}

// part is a cell to compute. Equal inputs give equal results.
type part struct {
	name   string
	inputs []any // as JSON
	cost   cells.Cost
}

// kept is a line of the file.
type kept[V any] struct {
	Key     string  `json:"key"` // digest of the part's inputs and the build
	Cell    string  `json:"cell"`
	Seconds float64 `json:"seconds"`
	// Sum is a digest of Result: a line with another one is damaged.
	Sum    string          `json:"sum"`
	Result json.RawMessage `json:"result"`
	value  *V
}

// compute returns the results of parts, jobs of them at a time, which their number does
// not change. The first part is computed before the others, which get its result.
func compute[V any](ctx context.Context, k Keep, jobs int, parts []part, unit map[string]float64,
	progress func(cells.Progress),
	run func(ctx context.Context, i int, first *V, at func(share float64)) (*V, error)) ([]*V, error) {
	file := cells.File[string, kept[V]]{Path: k.Path, Key: keyOf[V]}
	grid := cells.Grid[string, kept[V]]{Jobs: jobs, Unit: unit, Progress: progress,
		Cost: func(i int) cells.Cost { return parts[i].cost }, Seconds: func(c *kept[V]) float64 { return c.Seconds }}
	var err error
	if grid.Keys, grid.Known, err = keptParts[V](k, parts); err != nil {
		return nil, err
	}
	if k.Path != "" {
		grid.Keep = func(_ int, c *kept[V]) error { return file.Append(c) }
	}
	var first *V
	if c := grid.Known[grid.Keys[0]]; c != nil {
		first = c.value
	}
	grid.Compute = func(ctx context.Context, i int, at func(float64)) (*kept[V], error) {
		began := time.Now()
		v, err := run(ctx, i, first, at)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = v
		}
		c := &kept[V]{Key: grid.Keys[i], Cell: parts[i].name, Seconds: time.Since(began).Seconds(), value: v}
		if c.Result, err = json.Marshal(v); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Cell, err)
		}
		c.Sum = digest(c.Result)
		return c, nil
	}
	got, err := grid.Run(ctx)
	out := make([]*V, len(got))
	for i, c := range got {
		if c != nil {
			out[i] = c.value
		}
	}
	return out, err
}

func keyOf[V any](c *kept[V]) string { return c.Key }

// keptParts returns the keys of parts and the cells that are kept of them, and notes the contents of the file.
func keptParts[V any](k Keep, parts []part) (keys []string, known map[string]*kept[V], err error) {
	for _, p := range parts {
		text, err := json.Marshal(append([]any{k.Build}, p.inputs...))
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, digest(text))
	}
	known = map[string]*kept[V]{}
	if k.Path == "" {
		return keys, known, nil
	}
	file := cells.File[string, kept[V]]{Path: k.Path, Key: keyOf[V]}
	all, bad, err := file.Read()
	if err != nil {
		return nil, nil, err
	}
	used := 0
	for _, key := range keys {
		c := all[key]
		if c == nil {
			continue
		}
		if known[key] == nil {
			if v := new(V); digest(c.Result) == c.Sum && json.Unmarshal(c.Result, v) == nil {
				c.value, known[key] = v, c
			} else {
				bad++
				delete(all, key)
				continue
			}
		}
		used++
	}
	note := func(n int, format string, v ...any) {
		if n > 0 && k.Note != nil {
			k.Note(k.Path + fmt.Sprintf(format, v...))
		}
	}
	note(used, " has %d of %d results, which are not computed again", used, len(keys))
	note(len(all)-len(known), ": not used: %d of other inputs, or of another program", len(all)-len(known))
	note(bad, ": ignored: %d damaged", bad)
	return keys, known, nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}
