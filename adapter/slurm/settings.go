package slurm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/space"
)

// kind is how slurm.conf writes a setting.
type kind int

const (
	whole kind = iota // a whole number
	span              // a time; parameters count seconds, Slurm whole minutes
	yesno
	flag // an option that is there or not
	bias // a whole number with its sign apart, in the parameter of suffix negativeSign
)

// setting is one that the adapter writes. Its parameter has the name in slurm.conf, behind the key and a dot where the
// key is a list.
type setting struct {
	id        string
	kind      kind
	low, high float64 // in the unit of the parameter
}

// Lists are keys whose value is a list: parameters are options of it, the others are the site's.
const (
	schedulerParameters = "SchedulerParameters"
	weightTRES          = "PriorityWeightTRES"
	negativeSign        = ".negative"
)

// settings are those that may be changed while slurmctld runs, with the ranges outside which slurmctld 22.05 uses
// a default, ends, or refuses its file. In order of name.
var settings = func() []setting {
	const weight, day = math.MaxUint32, 86400
	list := []setting{
		{"PriorityCalcPeriod", span, 60, 365 * day},
		{"PriorityDecayHalfLife", span, 60, 3650 * day}, // 0 needs PriorityUsageResetPeriod
		{"PriorityFavorSmall", yesno, 0, 1},
		{"PriorityMaxAge", span, 60, 3650 * day},
		{"PriorityWeightAge", whole, 0, weight},
		{"PriorityWeightAssoc", whole, 0, weight},
		{"PriorityWeightFairshare", whole, 0, weight},
		{"PriorityWeightJobSize", whole, 0, weight},
		{"PriorityWeightPartition", whole, 0, weight},
		{"PriorityWeightQOS", whole, 0, weight},
		{weightTRES + ".gpu", bias, -1e9, 1e9},
	}
	for _, o := range []struct {
		name      string
		low, high float64
	}{
		{"batch_sched_delay", 0, 3600},
		{"bf_interval", 1, 10800},
		{"bf_job_part_count_reserve", 0, 100000},
		{"bf_max_job_assoc", 0, 1e6},
		{"bf_max_job_part", 0, 1e6},
		{"bf_max_job_test", 1, 1e6},
		{"bf_max_job_user", 0, 1e6},
		{"bf_max_job_user_part", 0, 1e6},
		{"bf_min_age_reserve", 0, 30 * day},
		{"bf_resolution", 1, 3600},
		{"bf_window", 1, 43200}, // minutes
		{"default_queue_depth", 0, 1e6},
		{"partition_job_depth", 0, 1e6},
		{"sched_interval", 1, 10800},
		{"sched_max_job_start", 0, 1e6},
	} {
		list = append(list, setting{schedulerParameters + "." + o.name, whole, o.low, o.high})
	}
	for _, name := range []string{"assoc_limit_stop", "bf_busy_nodes", "bf_continue", "bf_one_resv_per_job", "defer",
		"pack_serial_at_end", "preempt_strict_order", "preempt_youngest_first", "reduce_completing_frag"} {
		list = append(list, setting{schedulerParameters + "." + name, flag, 0, 1})
	}
	slices.SortFunc(list, func(a, b setting) int { return strings.Compare(a.id, b.id) })
	return list
}()

// find returns the setting of a parameter; those of slurm.conf are not told apart by case.
func find(id string) (setting, bool) {
	for _, s := range settings {
		if strings.EqualFold(s.id, id) {
			return s, true
		}
	}
	return setting{}, false
}

// Tunable returns the ids of the parameters that the adapter can set.
func Tunable() []string {
	var ids []string
	for _, s := range settings {
		ids = append(ids, s.id)
		if s.kind == bias {
			ids = append(ids, s.id+negativeSign)
		}
	}
	return ids
}

// within checks a value, in the unit of the parameter.
func (s setting) within(v float64) error {
	switch {
	case v != math.Trunc(v):
		return fmt.Errorf("%s: %v is not whole", s.id, v)
	case v < s.low || v > s.high:
		return fmt.Errorf("%s: %v is not from %.0f to %.0f", s.id, v, s.low, s.high)
	}
	return nil
}

// text writes a value as slurm.conf has it.
func (s setting) text(v space.Value) (string, error) {
	if s.kind == yesno || s.kind == flag {
		if v.Bool() {
			return "YES", nil
		}
		return "NO", nil
	}
	if err := s.within(v.Float()); err != nil {
		return "", err
	}
	if s.kind == span {
		return spanText(v.Duration()), nil
	}
	return strconv.FormatFloat(v.Float(), 'f', -1, 64), nil
}

// parse reads a value of slurm.conf or of what scontrol show config prints.
func (s setting) parse(text string) (space.Value, error) {
	var v float64
	var err error
	switch s.kind {
	case yesno:
		switch strings.ToUpper(text) {
		case "YES":
			return space.Bool(true), nil
		case "NO":
			return space.Bool(false), nil
		}
		return space.Value{}, fmt.Errorf("%s: %q is neither YES nor NO", s.id, text)
	case span:
		var d time.Duration
		d, err = parseSpan(text)
		v = d.Seconds()
	default:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		v = float64(n)
	}
	if err != nil {
		return space.Value{}, fmt.Errorf("%s: %q is not a %s", s.id, text, map[bool]string{true: "time, such as 1-00:00:00",
			false: "whole number"}[s.kind == span])
	}
	return space.Num(v), s.within(v)
}

// spanText writes a time as days-hours:minutes:seconds.
func spanText(d time.Duration) string {
	n := int64(d / time.Second)
	return fmt.Sprintf("%d-%02d:%02d:%02d", n/86400, n/3600%24, n/60%60, n%60)
}

// parseSpan reads a time as slurm.conf has it: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
// days-hours:minutes and days-hours:minutes:seconds.
func parseSpan(text string) (time.Duration, error) {
	days, rest, withDays := strings.Cut(text, "-")
	if !withDays {
		days, rest = "0", text
	}
	fields := strings.Split(rest, ":")
	units := map[bool][][]time.Duration{
		true:  {{time.Hour}, {time.Hour, time.Minute}, {time.Hour, time.Minute, time.Second}},
		false: {{time.Minute}, {time.Minute, time.Second}, {time.Hour, time.Minute, time.Second}},
	}[withDays]
	if len(fields) > len(units) {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseUint(days, 10, 31)
	sum := time.Duration(n) * 24 * time.Hour
	for i, f := range fields {
		if err == nil {
			n, err = strconv.ParseUint(f, 10, 31)
			sum += time.Duration(n) * units[len(fields)-1][i]
		}
	}
	if sum < 0 || sum > 100*365*24*time.Hour {
		return 0, strconv.ErrRange
	}
	return sum, err
}
