package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/workload/trace"
)

// ReadRules reads the file of rules that a flag names, or takes the built-in ones, and keeps some.
func ReadRules(flag, path string, only []string) (*patterns.RuleSet, error) {
	set := patterns.Builtin()
	if path != "" {
		in, err := atomicfile.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		defer in.Close()
		if set, err = patterns.ReadRules(in, path); err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
	}
	if len(only) == 0 {
		return set, nil
	}
	kept := &patterns.RuleSet{Version: set.Version}
	for _, id := range only {
		r := set.Rule(id)
		if r == nil {
			var ids []string
			for i := range set.Rules {
				ids = append(ids, set.Rules[i].ID)
			}
			return nil, UsageError{fmt.Errorf("--rule: %q is not one of %s", id, strings.Join(ids, ", "))}
		}
		kept.Rules = append(kept.Rules, *r)
	}
	return kept, nil
}

// FormatNames lists the formats of traces for a help text.
func FormatNames() string {
	names := make([]string, len(trace.Formats))
	for i, f := range trace.Formats {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

// OpenRecords opens the directory of a service that is stopped.
func OpenRecords(dir string) (*store.Reader, error) {
	r, err := store.OpenReader(dir)
	if errors.Is(err, store.ErrLocked) {
		err = fmt.Errorf("%w: stop 'autosched serve' while it is read", err)
	}
	return r, err
}
