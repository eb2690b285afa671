package conf

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/space"
)

// Kind is how slurm.conf writes a setting.
type Kind int

const (
	// Whole is a whole number.
	Whole Kind = iota
	// Span is a time. Parameters count seconds, Slurm whole minutes.
	Span
	// YesNo is YES or NO.
	YesNo
	// Flag is an option that is there or not.
	Flag
	// Weight is a whole number whose sign is a parameter of its own, of suffix [Negative].
	Weight
)

// Keys whose value is a list. Some of their options are parameters, the others are the site's.
const (
	SchedulerParameters = "SchedulerParameters"
	WeightTRES          = "PriorityWeightTRES"
)

// Negative is the suffix of the parameter that turns a Weight negative.
const Negative = ".negative"

// Setting is a setting of slurm.conf that may change while slurmctld runs.
type Setting struct {
	// ID is the parameter: the key, or the key of a list, a dot and the option.
	ID   string
	Kind Kind
	// Min, Max and Default are in the unit of the parameter; outside the range slurmctld refuses its file, ends, or
	// uses another value. A switch is 0 or 1.
	Min, Max, Default float64
}

// settings has the settings of slurm.conf(5) of 22.05, with the ranges that its source checks, in order of ID.
var settings = func() []Setting {
	const weight, day, year = math.MaxUint32, 86400, 365 * 86400
	list := []Setting{
		{"PriorityCalcPeriod", Span, 60, year, 300},
		{"PriorityDecayHalfLife", Span, 60, 10 * year, 7 * day},
		{"PriorityFavorSmall", YesNo, 0, 1, 0},
		{"PriorityMaxAge", Span, 60, 10 * year, 7 * day},
		{"PriorityWeightAge", Whole, 0, weight, 0},
		{"PriorityWeightAssoc", Whole, 0, weight, 0},
		{"PriorityWeightFairshare", Whole, 0, weight, 0},
		{"PriorityWeightJobSize", Whole, 0, weight, 0},
		{"PriorityWeightPartition", Whole, 0, weight, 0},
		{"PriorityWeightQOS", Whole, 0, weight, 0},
		{WeightTRES + ".gpu", Weight, 0, 1e9, 0},
	}
	for _, s := range []Setting{
		{"batch_sched_delay", Whole, 0, 3600, 3},
		{"bf_interval", Whole, 1, 10800, 30},
		{"bf_job_part_count_reserve", Whole, 0, 100000, 0},
		{"bf_max_job_assoc", Whole, 0, 1e6, 0},
		{"bf_max_job_part", Whole, 0, 1e6, 0},
		{"bf_max_job_test", Whole, 1, 1e6, 500},
		{"bf_max_job_user", Whole, 0, 1e6, 0},
		{"bf_max_job_user_part", Whole, 0, 1e6, 0},
		{"bf_min_age_reserve", Whole, 0, 30 * day, 0},
		{"bf_min_prio_reserve", Whole, 0, weight, 0},
		{"bf_resolution", Whole, 1, 3600, 60},
		{"bf_window", Whole, 1, 43200, 1440},
		{"default_queue_depth", Whole, 0, 1e6, 100},
		{"partition_job_depth", Whole, 0, 1e6, 0},
		{"sched_interval", Whole, 1, 10800, 60},
		{"sched_max_job_start", Whole, 0, 1e6, 0},
	} {
		s.ID = SchedulerParameters + "." + s.ID
		list = append(list, s)
	}
	for _, name := range []string{"assoc_limit_stop", "bf_busy_nodes", "bf_continue", "bf_one_resv_per_job", "defer",
		"pack_serial_at_end", "preempt_strict_order", "preempt_youngest_first", "reduce_completing_frag"} {
		list = append(list, Setting{ID: SchedulerParameters + "." + name, Kind: Flag, Max: 1})
	}
	slices.SortFunc(list, func(a, b Setting) int { return strings.Compare(a.ID, b.ID) })
	return list
}()

// Find returns the setting of a parameter, in any case, of the parameter of its sign, and of a QOS.
func Find(id string) (Setting, bool) {
	for _, s := range settings {
		if strings.EqualFold(s.ID, id) || s.Kind == Weight && strings.EqualFold(s.ID+Negative, id) {
			return s, true
		}
	}
	if outer, _ := slurm.SiteParam(id); isQOS(id) {
		return Setting{ID: id, Max: outer.Max}, true
	}
	return Setting{}, false
}

// split is the key of slurm.conf, and the option where its value is a list.
func (s Setting) split() (key, option string, listed bool) {
	if isQOS(s.ID) {
		return s.ID, "", false
	}
	return strings.Cut(s.ID, ".")
}

// Tunable returns the ids of the parameters of all settings, signs included.
func Tunable() []string {
	var ids []string
	for _, s := range settings {
		ids = append(ids, s.ID)
		if s.Kind == Weight {
			ids = append(ids, s.ID+Negative)
		}
	}
	return ids
}

// value is a value of the kind.
func (s Setting) value(x float64) space.Value {
	if s.Kind == YesNo || s.Kind == Flag {
		return space.Bool(x != 0)
	}
	return space.Num(x)
}

// within checks a value, in the unit of the parameter.
func (s Setting) within(v float64) error {
	switch {
	case v != math.Trunc(v):
		return fmt.Errorf("%s: %v is not a whole number", s.ID, v)
	case v < s.Min || v > s.Max:
		return fmt.Errorf("%s: %s is not from %s to %s", s.ID, s.plain(v), s.plain(s.Min), s.plain(s.Max))
	case s.Kind == Span && math.Mod(v, 60) != 0:
		return fmt.Errorf("%s: %v s are not whole minutes, which Slurm counts", s.ID, v)
	}
	return nil
}

// plain writes a number as slurm.conf has it.
func (s Setting) plain(v float64) string {
	if s.Kind == Span {
		return spanText(time.Duration(v) * time.Second)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// text writes a value as slurm.conf has it.
func (s Setting) text(v space.Value) (string, error) {
	if s.Kind == YesNo || s.Kind == Flag {
		if v.Bool() {
			return "YES", nil
		}
		return "NO", nil
	}
	if err := s.within(v.Float()); err != nil {
		return "", err
	}
	return s.plain(v.Float()), nil
}

// parse reads a value as slurm.conf or scontrol show config has it. The sign of a Weight is kept.
func (s Setting) parse(text string) (space.Value, error) {
	var v float64
	var err error
	what := "whole number"
	switch s.Kind {
	case YesNo, Flag:
		switch strings.ToUpper(text) {
		case "YES", "UP", "TRUE", "1":
			return space.Bool(true), nil
		case "NO", "DOWN", "FALSE", "0":
			return space.Bool(false), nil
		}
		return space.Value{}, fmt.Errorf("%s: %q is neither YES nor NO", s.ID, text)
	case Span:
		var d time.Duration
		d, err = slurmtext.ParseSpan(text)
		v, what = d.Seconds(), "time, such as 1-00:00:00 or a number of minutes"
	default:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		v = float64(n)
	}
	if err != nil {
		return space.Value{}, fmt.Errorf("%s: %q is not a %s from %s to %s", s.ID, text, what, s.plain(s.Min),
			s.plain(s.Max))
	}
	if s.Kind == Span {
		v = math.Ceil(v/60) * 60 // as Slurm rounds it
	}
	if s.Kind == Weight {
		return space.Num(v), s.within(math.Abs(v))
	}
	return space.Num(v), s.within(v)
}

// spanText writes a time as days-hours:minutes:seconds.
func spanText(d time.Duration) string {
	n := int64(d / time.Second)
	return fmt.Sprintf("%d-%02d:%02d:%02d", n/86400, n/3600%24, n/60%60, n%60)
}
