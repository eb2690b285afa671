package cli

import (
	"fmt"
	"sort"
	"strings"

	"github.com/autosched/autosched/internal/units"
)

// Plural is a number of things: 1 rule, 2 rules.
func Plural(n int, thing string) string {
	return units.Plural(n, thing)
}

// ShortName returns the last segment of a resource name.
func ShortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// EnumWord is an enum's value as flags take it: auto for AUTO. States print as the API has them.
func EnumWord(e fmt.Stringer) string { return strings.ToLower(e.String()) }

// WaitsText names the condition that a proposal waits for.
func WaitsText(scheduler string) string {
	return fmt.Sprintf("for 'autosched scheduler config approve %s' or 'autosched scheduler config reject %[1]s'",
		scheduler)
}

// ThreeDigits has three digits behind the point where they matter.
func ThreeDigits(v float64) string {
	switch a := max(v, -v); {
	case a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// OrDash returns s, or "-" if s is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// SortedKeys are a map's keys in order.
func SortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// SyntheticLabel marks results of synthetic traces.
func SyntheticLabel(synthetic bool) string {
	if synthetic {
		return " (synthetic)"
	}
	return ""
}

// ShortStudy is SCHEDULER/STUDY of a name.
func ShortStudy(name string) string {
	return strings.Replace(strings.TrimPrefix(name, "schedulers/"), "/studies/", "/", 1)
}

// WrapText breaks a text at blanks into lines of at most limit bytes; longer words
// stand alone.
func WrapText(text string, limit int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > limit {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// ShortTrial is SCHEDULER/STUDY/TRIAL of a name.
func ShortTrial(name string) string { return strings.Replace(ShortStudy(name), "/trials/", "/", 1) }

// SavedShare formats a controllable ratio as the share that is saved, "" if there is none.
func SavedShare(ratio float64) string {
	if ratio <= 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*(1-1/ratio))
}

// ShortWorkload is SCHEDULER/WORKLOAD of a name.
func ShortWorkload(name string) string {
	return strings.Replace(strings.TrimPrefix(name, "schedulers/"), "/workloads/", "/", 1)
}
