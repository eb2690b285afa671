package conf

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/units"
)

// Effect is the consequence of a problem in a file that slurm.conf includes.
type Effect string

const (
	// Refused: every command of Slurm fails at once, jobs do not launch, and slurmctld does not start again.
	Refused Effect = "refused"
	// Fatal: slurmctld ends, at once or when its backfill wakes.
	Fatal Effect = "fatal"
	// Ignored: another value is used; slurmctld's log has an error at most.
	Ignored Effect = "ignored"
	// Foreign: Slurm may accept it, but it is not a setting that AutoSched changes.
	Foreign Effect = "foreign"
)

// Problem is why a file must not be put in force.
type Problem struct {
	Line   int
	Key    string
	Effect Effect
	Text   string
}

func (p Problem) Error() string {
	return fmt.Sprintf("line %d: %s: %s (by Slurm: %s)", p.Line, p.Key, p.Text, p.Effect)
}

// Check returns the problems of a file that is to be included, written by any hand: site are the items of
// SchedulerParameters and PriorityWeightTRES that are the site's own, tres its AccountingStorageTRES. The settings
// must be among [Tunable], in their ranges, and found by Slurm as they are meant.
func Check(text []byte, site []string, tres string) []Problem {
	var out []Problem
	add := func(l Line, effect Effect, format string, args ...any) {
		out = append(out, Problem{l.Number, l.Key, effect, fmt.Sprintf(format, args...)})
	}
	lines, err := FormLines(text)
	if err != nil {
		return []Problem{{Key: "file", Effect: Refused, Text: err.Error()}}
	}
	if len(lines) == 0 {
		out = append(out, Problem{Key: "file", Effect: Ignored, Text: "it sets nothing"})
	}
	weights := 0.
	for _, l := range lines {
		s, known := Find(l.Key)
		switch {
		case strings.EqualFold(l.Key, SchedulerParameters):
			checkParameters(l, site, add)
		case strings.EqualFold(l.Key, WeightTRES):
			checkTRES(l, site, tres, add)
		case !known || strings.Contains(l.Key, ".") && !isQOS(l.Key):
			add(l, Foreign, "is not a setting that may be tuned: set it in slurm.conf")
		default:
			v, err := s.parse(l.Value)
			if err != nil {
				add(l, Refused, "%v", err)
			} else if strings.HasPrefix(s.ID, "PriorityWeight") {
				before := weights
				if weights += v.Float(); before <= math.MaxUint32 && weights > math.MaxUint32 {
					add(l, Ignored, "the weights of this file sum up to more than %d: priorities overflow",
						uint32(math.MaxUint32))
				}
			}
		}
	}
	return out
}

func checkParameters(l Line, site []string, add func(Line, Effect, string, ...any)) {
	number := map[string]float64{}
	for item := range strings.SplitSeq(l.Value, ",") {
		name, value, valued := strings.Cut(item, "=")
		s, known := Find(SchedulerParameters + "." + name)
		switch {
		case item == "":
			add(l, Ignored, "has an empty option")
			continue
		case strings.EqualFold(name, "max_job_bf"):
			add(l, Fatal, "%s was removed from Slurm", name)
			continue
		case !known && slices.Contains(site, item):
			continue
		case !known:
			add(l, Ignored, "%s is not an option, and nothing will say so%s", name, nearest(name))
			continue
		case s.Kind == Flag && valued:
			add(l, Ignored, "%s is a flag: %s switches it on, whatever the value", name, item)
			continue
		case s.Kind != Flag && !valued:
			add(l, Ignored, "%s needs a value", name)
			continue
		}
		if found, _ := option(l.Value, name, s.Kind == Flag); found != value {
			add(l, Ignored, "%s: Slurm finds %s=%s first", item, name, found)
		}
		if s.Kind != Flag {
			v, err := s.parse(value)
			if err != nil {
				add(l, Ignored, "%v", err)
				continue
			}
			number[strings.ToLower(name)] = v.Float()
		}
	}
	depth, given := number["bf_max_job_test"]
	if !given {
		s, _ := Find(SchedulerParameters + ".bf_max_job_test")
		depth = s.Default
	}
	for _, name := range []string{"bf_max_job_part", "bf_max_job_user", "bf_max_job_user_part", "bf_max_job_assoc"} {
		if number[name] > depth {
			add(l, Ignored, "%s is more than bf_max_job_test, %.0f", name, depth)
		}
	}
	if number["bf_max_job_user"] > 0 && number["bf_max_job_assoc"] > 0 {
		add(l, Ignored, "bf_max_job_user and bf_max_job_assoc exclude each other")
	}
}

func checkTRES(l Line, site []string, tres string, add func(Line, Effect, string, ...any)) {
	var seen []string
	for item := range strings.SplitSeq(l.Value, ",") {
		name, value, _ := strings.Cut(item, "=")
		s, known := Find(itemID(WeightTRES, item))
		if slices.Contains(seen, strings.ToLower(name)) {
			add(l, Ignored, "%s is there twice", name)
		}
		seen = append(seen, strings.ToLower(name))
		if !slices.ContainsFunc(strings.Split(tres, ","), func(t string) bool { return strings.EqualFold(t, name) }) {
			add(l, Fatal, "%s is not in AccountingStorageTRES (%s)", name, tres)
			continue
		}
		if slices.Contains(site, item) {
			continue
		}
		if !known || !strings.HasPrefix(strings.ToLower(name), "gres/") {
			add(l, Foreign, "%s is not a weight that may be tuned", name)
			continue
		}
		if _, err := s.parse(value); err != nil {
			add(l, Fatal, "%v", err)
		}
	}
}

// nearest suggests an option of a similar name.
func nearest(name string) string {
	best, least := "", 4
	for _, s := range settings {
		if _, of, listed := strings.Cut(s.ID, "."); listed && len(name) <= 64 {
			if d := units.Distance(strings.ToLower(name), of); d < least {
				best, least = of, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}
