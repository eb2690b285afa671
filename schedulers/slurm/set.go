package slurm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
)

// NotSimulated lists the parts of settings that Slurm may accept and this model does not simulate, each as a sentence.
type NotSimulated []string

func (n NotSimulated) Error() string { return strings.Join(n, "; ") }

// notSimulated is one of them.
func notSimulated(format string, args ...any) error {
	return NotSimulated{fmt.Sprintf(format, args...)}
}

// Set applies a line of slurm.conf about scheduling. Keys and options have the names of slurm.conf(5), in any case.
// The error is a [NotSimulated] where the rest of the line is set, or names a value that Slurm would not accept.
func (s *Settings) Set(key, value string) error {
	var err error
	switch key = strings.ToLower(key); key {
	case "prioritytype":
		s.Basic, err = oneOf(value, "priority/multifactor", "priority/basic")
	case "priorityweightage", "priorityweightfairshare", "priorityweightjobsize", "priorityweightpartition",
		"priorityweightqos", "priorityweightassoc":
		err = whole(map[string]*int64{"age": &s.PriorityWeightAge, "fairshare": &s.PriorityWeightFairshare,
			"jobsize": &s.PriorityWeightJobSize, "partition": &s.PriorityWeightPartition, "qos": &s.PriorityWeightQOS,
			"assoc": &s.PriorityWeightAssoc}[strings.TrimPrefix(key, "priorityweight")], value, 0, math.MaxUint32)
	case "priorityweighttres":
		err = each(value, s.setTRES)
	case "priorityfavorsmall":
		s.PriorityFavorSmall, err = yes(value)
	case "prioritymaxage":
		s.PriorityMaxAge, err = span(value)
	case "prioritydecayhalflife":
		s.PriorityDecayHalfLife, err = span(value)
	case "prioritycalcperiod":
		if s.PriorityCalcPeriod, err = span(value); err == nil && s.PriorityCalcPeriod < time.Minute {
			err = fmt.Errorf("%s is less than a minute", value)
		}
	case "fairsharedampeningfactor":
		err = whole(&s.FairShareDampening, value, 1, math.MaxUint16)
	case "priorityusageresetperiod":
		_, err = oneOf(strings.ToLower(value), "none", "none")
	case "priorityflags":
		s.NoFairTree = false
		err = each(value, s.setFlag)
	case "schedulerparameters":
		err = each(value, s.setOption)
	case "preempttype":
		s.PreemptQOS, s.PreemptPartition = value == "preempt/qos", value == "preempt/partition_prio"
		if !s.PreemptQOS && !s.PreemptPartition {
			_, err = oneOf(value, "preempt/none", "preempt/none")
		}
	case "preemptmode":
		if s.PreemptCancel = strings.EqualFold(value, "cancel"); !s.PreemptCancel {
			_, err = oneOf(strings.ToLower(value), "off", "requeue")
		}
	case "preemptexempttime":
		if value != "-1" && strings.Trim(value, "0:-") != "" {
			err = notSimulated("%q is not simulated, want -1", value)
		}
	case "jobrequeue":
		_, err = oneOf(value, "1", "1")
	case "completewait":
		if n, _, _ := strings.Cut(value, " "); n != "0" { // scontrol shows units, too
			err = notSimulated("%q is not simulated, want 0", value)
		}
	case "overtimelimit": // job_time_limit in src/slurmctld/job_mgr.c: UNLIMITED is a year
		if s.OverTimeLimit = unlimited; !strings.EqualFold(value, "UNLIMITED") {
			minutes := int64(0)
			err = whole(&minutes, strings.TrimSuffix(value, " min"), 0, 65533)
			s.OverTimeLimit = time.Duration(minutes) * time.Minute
		}
	case "schedulertype":
		_, err = oneOf(value, "sched/backfill", "sched/backfill")
	case "selecttype":
		_, err = oneOf(value, "select/cons_tres", "select/cons_tres")
	case "selecttypeparameters":
		err = each(value, func(name string) error {
			_, err := oneOf(strings.ToLower(name), "cr_core", "cr_core_memory")
			return err
		})
	default:
		err = notSimulated("the model of Slurm does not know it")
	}
	var not NotSimulated
	if errors.As(err, &not) {
		for i := range not {
			not[i] = fmt.Sprintf("slurm.conf: %s: %s", key, not[i])
		}
		return not
	}
	if err != nil {
		return fmt.Errorf("slurm.conf: %s: %w", key, err)
	}
	return nil
}

// each sets the items of a list, except the ones that are not simulated.
func each(list string, set func(item string) error) error {
	var all NotSimulated
	for item := range strings.SplitSeq(list, ",") {
		if item == "" {
			continue
		}
		err := set(item)
		var not NotSimulated
		switch {
		case errors.As(err, &not):
			all = append(all, not...)
		case err != nil:
			return err
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// setTRES sets a weight such as GRES/gpu=1000.
func (s *Settings) setTRES(term string) error {
	name, weight, _ := strings.Cut(term, "=")
	to := map[string]*int64{"gres/gpu": &s.PriorityWeightGPU, "cpu": &s.PriorityWeightCPU,
		"node": &s.PriorityWeightNode}[strings.ToLower(name)]
	if to == nil {
		return notSimulated("%q is not simulated, want GRES/gpu, CPU or Node", name)
	}
	if err := whole(to, weight, -math.MaxUint32, math.MaxUint32); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (s *Settings) setFlag(name string) error {
	switch strings.ToUpper(name) {
	case "NO_FAIR_TREE":
		s.NoFairTree = true
	case "FAIR_TREE", "CALCULATE_RUNNING", "NONE":
	default:
		return notSimulated("%q is not simulated, want NO_FAIR_TREE", name)
	}
	return nil
}

// light are the options that bound the cost of a cycle for the controller, or that concern parts outside the model.
var light = []string{"bf_max_time", "bf_yield_interval", "bf_yield_sleep", "bf_yield_rpc_cnt", "bf_continue",
	"max_rpc_cnt", "sched_min_interval", "sched_max_time", "bf_one_resv_per_job", "reduce_completing_frag",
	"ignore_numa"}

// setOption sets an option of SchedulerParameters.
func (s *Settings) setOption(option string) error {
	name, value, given := strings.Cut(option, "=")
	name = strings.ToLower(name)
	const any = math.MaxInt32
	counts := map[string]struct {
		to        *int
		low, high int64
	}{
		"bf_max_job_test":           {&s.BFMaxJobTest, 1, 1e6},
		"bf_max_job_start":          {&s.BFMaxJobStart, 0, 1e4},
		"bf_max_job_user":           {&s.BFMaxJobUser, 0, 1e6},
		"bf_max_job_part":           {&s.BFMaxJobPart, 0, 1e6},
		"bf_max_job_user_part":      {&s.BFMaxJobUserPart, 0, 1e6},
		"bf_max_job_assoc":          {&s.BFMaxJobAssoc, 0, 1e6},
		"bf_job_part_count_reserve": {&s.BFJobPartCountResv, 0, 1e5},
		"bf_node_space_size":        {&s.BFNodeSpaceSize, 2, 2e6},
		"default_queue_depth":       {&s.DefaultQueueDepth, 0, any},
		"partition_job_depth":       {&s.PartitionJobDepth, 0, any},
		"sched_max_job_start":       {&s.SchedMaxJobStart, 0, any},
	}
	periods := map[string]struct {
		to        *time.Duration
		unit      time.Duration
		low, high int64
	}{
		"bf_interval":        {&s.BFInterval, time.Second, 1, 10800},
		"bf_window":          {&s.BFWindow, time.Minute, 1, 43200},
		"bf_resolution":      {&s.BFResolution, time.Second, 1, 3600},
		"bf_min_age_reserve": {&s.BFMinAgeReserve, time.Second, 0, 2592000},
		"sched_interval":     {&s.SchedInterval, time.Second, 1, any},
		"batch_sched_delay":  {&s.BatchSchedDelay, time.Second, 0, any},
	}
	flags := map[string]*bool{"defer": &s.Defer, "preempt_youngest_first": &s.PreemptYoungestFirst}
	c, period := counts[name], periods[name]
	n := int64(0)
	var err error
	switch flag := flags[name]; {
	case flag != nil && given:
		err = fmt.Errorf("takes no value")
	case flag != nil:
		*flag = true
	case name == "bf_min_prio_reserve":
		err = whole(&s.BFMinPrioReserve, value, 0, math.MaxUint32)
	case c.to != nil:
		if err = whole(&n, value, c.low, c.high); err == nil {
			*c.to = int(n)
		}
	case period.to != nil:
		if value != "-1" || !strings.HasSuffix(name, "_interval") { // -1 is never
			err = whole(&n, value, period.low, period.high)
		}
		if err == nil {
			*period.to = time.Duration(n) * period.unit
		}
	case !slices.Contains(light, name):
		return notSimulated("option %q is not simulated", name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// oneOf reports which of two values it is.
func oneOf(value, no, yes string) (bool, error) {
	switch value {
	case no:
		return false, nil
	case yes:
		return true, nil
	case "":
		return false, fmt.Errorf("is empty")
	}
	if no == yes {
		return false, notSimulated("%q is not simulated, want %s", value, no)
	}
	return false, notSimulated("%q is not simulated, want %s or %s", value, no, yes)
}

// yes reads a switch as slurm.conf has it.
func yes(value string) (bool, error) {
	switch strings.ToUpper(value) {
	case "YES", "UP", "TRUE", "1":
		return true, nil
	case "NO", "DOWN", "FALSE", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither YES nor NO", value)
}

func whole(to *int64, value string, low, high int64) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < low || n > high {
		return fmt.Errorf("%q is not a whole number from %d to %d", value, low, high)
	}
	*to = n
	return nil
}

// span reads a time of slurm.conf, rounded up to whole minutes.
func span(value string) (time.Duration, error) {
	d, err := slurmtext.ParseSpan(value)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time, want for example 7-00:00:00 or minutes", value)
	}
	return (d + time.Minute - 1).Truncate(time.Minute), nil
}
