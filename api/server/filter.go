package server

import (
	"regexp"
	"strings"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// term is a part of a filter: field = value, field != value, or field:* for a field that is set.
type term struct {
	field  string
	differ bool
	isSet  bool
	value  string
}

var (
	termText  = regexp.MustCompile(`^([a-z_.]+(?:\.[a-z0-9_-]+)?)\s*(=|!=|:)\s*(?:"([^"]*)"|([^\s"]+))$`)
	conjoined = regexp.MustCompile(`\s+AND\s+`)
)

// longestFilter bounds a filter, in bytes.
const longestFilter = 1000

// parseFilter reads terms with AND between them, which all must hold: a subset of AIP-160.
func parseFilter(text string) (terms []term, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if len(text) > longestFilter {
		return nil, invalid("filter", "is longer than %d bytes", longestFilter)
	}
	for _, part := range conjoined.Split(strings.TrimSpace(text), -1) {
		m := termText.FindStringSubmatch(part)
		if m == nil {
			return nil, invalid("filter", "%.80q is not a comparison such as state = ACTIVE, labels.team = \"research\" or "+
				"labels.team:*; several have AND between them", part)
		}
		t := term{field: m[1], differ: m[2] == "!=", isSet: m[2] == ":", value: m[3] + m[4]}
		if t.isSet && t.value != "*" {
			return nil, invalid("filter", "%.80q: after ':' only * is known", part)
		}
		if _, err := matches(&pb.Scheduler{}, []term{t}); err != nil {
			return nil, err // of the field, also if nothing is listed
		}
		terms = append(terms, t)
	}
	return terms, nil
}

// filterFields are those of a scheduler that a filter compares, besides labels.
var filterFields = []string{"display_name", "state", "spec.mode", "spec.scheduler_type"}

// matches reports whether a scheduler meets all terms.
func matches(s *pb.Scheduler, terms []term) (bool, error) {
	for _, t := range terms {
		var got string
		var set bool
		switch key, label := strings.CutPrefix(t.field, "labels."); {
		case label:
			got, set = s.GetLabels()[key]
		case t.field == "display_name":
			got = s.GetDisplayName()
		case t.field == "state":
			got = s.GetState().String()
		case t.field == "spec.mode":
			got = s.GetSpec().GetMode().String()
		case t.field == "spec.scheduler_type":
			got = s.GetSpec().GetSchedulerType()
		default:
			return false, invalid("filter", "%.80q is not known: want labels.KEY or one of %s", t.field,
				strings.Join(filterFields, ", "))
		}
		if set = set || got != ""; t.isSet && !set || !t.isSet && (got == t.value) == t.differ {
			return false, nil
		}
	}
	return true, nil
}
